"""segmentation-models-pytorch. The one changed line is the criterion:

    criterion = smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1, ignore_index=255)   # before
    criterion = MaxSupLoss(alpha=0.1, ignore_index=255)                                # after

The new one leaves ignored pixels out of the loss and out of its mean.
"""

import segmentation_models_pytorch as smp
import torch
from torch import Tensor

from maxsup import MaxSupLoss


def squares(num_images: int) -> tuple[Tensor, Tensor]:
    """64 x 64 images of two bright squares on a background: classes 1, 2 and 0. The outer frame is not labelled."""
    images, masks = 0.3 * torch.randn(num_images, 3, 64, 64), torch.zeros(num_images, 64, 64, dtype=torch.long)
    for index in range(num_images):
        for label in (1, 2):
            top, left = torch.randint(8, 40, (2,)).tolist()
            masks[index, top : top + 16, left : left + 16] = label
            images[index, label, top : top + 16, left : left + 16] += 1.0
    frame = torch.nn.functional.pad(torch.zeros(56, 56, dtype=torch.bool), (4, 4, 4, 4), value=True)
    masks[:, frame] = 255
    return images, masks


def main(num_steps: int = 12) -> list[float]:
    """The training loss of every step."""
    torch.manual_seed(0)
    images, masks = squares(4)
    model = smp.Unet("resnet18", encoder_weights=None, classes=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = MaxSupLoss(alpha=0.1, ignore_index=255)  # the one changed line

    losses = []
    for _ in range(num_steps):
        loss = criterion(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
