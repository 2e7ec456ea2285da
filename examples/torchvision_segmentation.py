"""Segmentation as torchvision's reference script does it: a main and an auxiliary head, both with the same loss.

    loss = F.cross_entropy(logits, target, ignore_index=255, label_smoothing=0.1)      # before, for each head
    loss = criterion(logits, target)      # after, with criterion = MaxSupLoss(alpha=0.1, ignore_index=255)

The network is torchvision's FCN over a ResNet-18, so that it trains in seconds on a CPU.
"""

import torch
from torch import Tensor
from torchvision.models import resnet18
from torchvision.models._utils import IntermediateLayerGetter
from torchvision.models.segmentation.fcn import FCN, FCNHead

from maxsup import MaxSupLoss

NUM_CLASSES = 3


def halves(num_images: int) -> tuple[Tensor, Tensor]:
    """64 x 64 images whose halves belong to two classes, with an unlabelled line between them."""
    labels = torch.stack([torch.arange(num_images), torch.arange(num_images) + 1], dim=1) % NUM_CLASSES
    masks = labels.repeat_interleave(32, dim=1)[:, None, :].repeat(1, 64, 1)
    images = 0.3 * torch.randn(num_images, 3, 64, 64) + torch.eye(3)[masks].permute(0, 3, 1, 2)
    masks[:, :, 31:33] = 255
    return images, masks


def main(num_steps: int = 12) -> list[float]:
    """The training loss of every step: main head plus half the auxiliary one."""
    torch.manual_seed(0)
    images, masks = halves(4)
    layers = IntermediateLayerGetter(resnet18(), {"layer4": "out", "layer3": "aux"})
    model = FCN(layers, FCNHead(512, NUM_CLASSES), FCNHead(256, NUM_CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = MaxSupLoss(alpha=0.1, ignore_index=255)  # the one changed line

    losses = []
    for _ in range(num_steps):
        outputs = model(images)
        loss = criterion(outputs["out"], masks) + 0.5 * criterion(outputs["aux"], masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
