"""timm in a loop of your own. The changed line is the criterion; Mixup must stop smoothing as well:

mixup = Mixup(mixup_alpha=0.2, label_smoothing=0.1, ...)         # before
task = ClassificationTask(model, SoftTargetCrossEntropy())
mixup = Mixup(mixup_alpha=0.2, label_smoothing=0.0, ...)         # after
task = ClassificationTask(model, MaxSupLoss(alpha=Linear(0.1, 0.2)))
"""

import timm
import torch
from timm.data import Mixup
from timm.optim import create_optimizer_v2
from timm.task import ClassificationTask
from timm.utils import random_seed
from torch import Tensor

from maxsup import MaxSupLoss
from maxsup.schedules import Linear, epoch_progress


def coloured_images(num_images: int) -> tuple[Tensor, Tensor]:
    """Noise with one brighter channel, which is the class."""
    labels = torch.arange(num_images) % 3
    images = torch.randn(num_images, 3, 32, 32)
    images[torch.arange(num_images), labels] += 0.5
    return images, labels


def main(num_epochs: int = 6) -> list[float]:
    """The training loss of every step."""
    random_seed(0)
    images, labels = coloured_images(48)
    model = timm.create_model("test_resnet", num_classes=3)
    mixup = Mixup(mixup_alpha=0.2, mode="elem", label_smoothing=0.0, num_classes=3)  # smoothing is off here ...
    criterion = MaxSupLoss(alpha=Linear(0.1, 0.2))  # ... because this takes its place
    task = ClassificationTask(model, criterion, verbose=False)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3)

    losses = []
    for epoch in range(num_epochs):
        task.train()
        criterion.set_progress(epoch_progress(epoch, num_epochs))
        for batch in torch.randperm(len(images)).split(16):
            loss = task(*mixup(images[batch].clone(), labels[batch]))["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: alpha {criterion.alpha:.2f}, training loss {sum(losses[-3:]) / 3:.3f}")
    return losses


if __name__ == "__main__":
    main()
