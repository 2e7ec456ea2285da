"""A small training script with the places that the launcher for timm takes hold of: main, train_one_epoch, a task."""

import argparse
import json
from pathlib import Path

import torch
from timm.data import Mixup
from timm.loss import BinaryCrossEntropy, LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.scheduler import create_scheduler_v2
from timm.task import ClassificationTask
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("data", type=Path)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--mixup", type=float, default=0.0)
parser.add_argument("--bce-loss", action="store_true")
parser.add_argument("--class-weight", type=float, nargs="+")
parser.add_argument("--two-outputs", action="store_true")
parser.add_argument("--resume", type=Path)


class Network(nn.Sequential):
    """Gives its logits twice where that is asked for, as a distilled model does."""

    gives_two = False

    def forward(self, input):
        logits = super().forward(input)
        return (logits, logits) if self.gives_two and self.training else logits


def chosen_criterion(args):
    if args.mixup > 0:
        return SoftTargetCrossEntropy()
    if args.smoothing:
        return BinaryCrossEntropy(args.smoothing) if args.bce_loss else LabelSmoothingCrossEntropy(args.smoothing)
    return nn.CrossEntropyLoss(weight=args.class_weight and torch.tensor(args.class_weight))


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    labels = torch.arange(48) % 3
    batches = [(torch.randn(12, 3, 4, 4) + torch.eye(3)[part, :, None, None], part) for part in labels.split(12)]
    model = Network(nn.Flatten(), nn.Linear(48, 3))
    model.gives_two = args.two_outputs
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    start = 0
    if args.resume:
        state = torch.load(args.resume, weights_only=True)
        model.load_state_dict(state["model"])
        start = state["epoch"] + 1
    mixup = Mixup(args.mixup, label_smoothing=args.smoothing, num_classes=3) if args.mixup > 0 else None
    task = ClassificationTask(model, chosen_criterion(args), verbose=False)
    _, num_epochs = create_scheduler_v2(optimizer, num_epochs=args.epochs)
    for epoch in range(start, num_epochs):
        row = {"epoch": epoch, "smoothing": args.smoothing, **train_one_epoch(epoch, batches, optimizer, mixup, task)}
        with (args.data / "log.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        torch.save({"epoch": epoch, "model": model.state_dict()}, args.data / f"epoch{epoch}.pt")


def train_one_epoch(epoch, loader, optimizer, mixup_fn, task=None):
    losses = []
    for images, labels in loader:
        loss = task(*(mixup_fn(images.clone(), labels) if mixup_fn else (images, labels)))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"loss": sum(losses) / len(losses), "first_loss": losses[0], "criterion": type(task.criterion).__name__}


if __name__ == "__main__":
    main()
