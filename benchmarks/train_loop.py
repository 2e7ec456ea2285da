"""Our training loop against a plain one: per-image transforms in a DataLoader, with the same model and augmentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from benchmarks.report import judged, lined_up
from maxsup.lab.bench.timing import interleaved_times, time_ratio
from maxsup.lab.core.config import Recipe
from maxsup.lab.training.builders import build_data, build_loss, build_model, split_pipeline
from maxsup.lab.training.loop import Trainer

MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)
BATCH_SIZE = 128
# Seconds of CPU time after which no further round begins.
BUDGET = 90.0


class PlainImages(Dataset[tuple[Tensor, int]]):
    """Images as an image folder yields them: one PIL image at a time, transformed one at a time."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels
        steps = [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]
        to_tensor = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        self.transform = v2.Compose([v2.ToPILImage(), *steps, *to_tensor])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), int(self.labels[index])


def endless(epochs: Callable[[int], Iterator[Any]]) -> Iterator[Any]:
    """Epoch after epoch."""
    epoch = 0
    while True:
        yield from epochs(epoch)
        epoch += 1


def our_steps(trainer: Trainer) -> Iterator[None]:
    """The steps of our loop, with everything it does in one: monitor, meters, checks before the update."""
    while True:
        trainer.start_epoch()
        for batch in trainer.remaining_batches():
            trainer.step(batch)
            yield
        trainer.settle()
        trainer.end_epoch(None)
        trainer.position.epoch = 0


def plain_steps(model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """The loop of a tutorial, with label smoothing."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    model.train()
    for images, labels in batches:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        optimizer.step()
        yield


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Time of a batch and of a whole step, ours against the plain loop's."""
    generator = np.random.default_rng(0)
    num_images = 8 * BATCH_SIZE
    images = generator.integers(0, 256, (num_images, 32, 32, 3), dtype=np.uint8)
    labels = generator.integers(0, 10, num_images)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        np.savez(path, train_images=images, train_labels=labels, test_images=images[:64], test_labels=labels[:64])
        recipe = Recipe.model_validate(
            {
                "data": {"name": f"arrays:{path}", "val_share": 0.0},
                "augment": {"crop_padding": 4, "flip": True},
                "model": {"name": "resnet20"},
                "loss": {"name": "maxsup", "alpha": 0.1},
                "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4},
                "epochs": 2,
                "batch_size": BATCH_SIZE,
            }
        )
        times = _times(recipe, images, labels, 3 if is_quick else rounds)
    data = time_ratio(times, "plain batch", "our batch")
    step = time_ratio(times, "our step", "plain step")
    rows = [[name, f"{1000 * min(seconds):.2f}"] for name, seconds in times.items()]
    show(f"\ntraining, ResNet-20, 32 x 32, batch {BATCH_SIZE}\n{lined_up(['', 'best ms'], rows)}")
    show(f"a plain batch costs {data} of ours; our step {step} of a plain step")
    per_image = time_ratio(times, "our batch", "plain batch")._asdict()
    goals = [
        judged("time of a batch against per-image transforms", "in memory", per_image, 0.1),
        judged("time of a whole step against the plain loop", "in memory", step._asdict(), 1.0),
    ]
    return {"milliseconds": {name: 1000 * min(seconds) for name, seconds in times.items()}, "goals": goals}


def _times(recipe: Recipe, images: np.ndarray, labels: np.ndarray, rounds: int) -> dict[str, list[float]]:
    bundle = build_data(recipe)
    loader = DataLoader(PlainImages(images, labels), BATCH_SIZE, shuffle=True)
    ours = our_steps(Trainer(recipe, bundle, build_model(recipe, bundle), build_loss(recipe.loss)))
    plain = plain_steps(build_model(recipe, bundle), endless(lambda epoch: iter(loader)))
    our_batches = endless(split_pipeline(recipe, bundle, bundle.train, is_training=True).epoch)
    plain_batches = endless(lambda epoch: iter(loader))
    candidates = {
        "our batch": lambda: next(our_batches),
        "plain batch": lambda: next(plain_batches),
        "our step": lambda: next(ours),
        "plain step": lambda: next(plain),
    }
    return interleaved_times(candidates, rounds=rounds, budget=BUDGET)
