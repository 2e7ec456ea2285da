"""Small runs for tests: real images in files, a real model, a second or two each."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.training import train
from maxsup.lab.training.progress import Clock, Reporter

NUM_CLASSES = 3
BATCH_SIZE = 16
NUM_EPOCHS = 3
NUM_STEPS = 4
"""Steps an epoch: 60 training images are left of 72 when 4 of each class are held out, in batches of 16."""


def image_folder(folder: Path, per_class: int = 24, size: int = 10) -> Path:
    """A tree of PNG files whose classes can be told by their mean colour, if not always."""
    generator = np.random.default_rng(7)
    for split, count in (("train", per_class), ("test", 8)):
        for label in range(NUM_CLASSES):
            place = folder / split / f"class_{label}"
            place.mkdir(parents=True)
            for index in range(count):
                pixels = generator.normal(128, 50, (size, size, 3))
                pixels[..., label] += 25
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(place / f"{index:03d}.png")
    return folder


def tiny_recipe(folder: Path, *overrides: str) -> Recipe:
    """A recipe with everything that has a state: momentum, moving average, batch norm, random augmentation."""
    values = {
        "data": {"name": f"folder:{folder}", "image_size": 8, "val_share": 1 / 6},
        "augment": {"random_resized_crop": True, "scale": [0.5, 1.0], "flip": True},
        "model": {"name": "small_cnn", "options": {"widths": [4, 8]}},
        "optimizer": {"lr": 0.2, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3},
        "ema": {"decay": 0.8},
        "epochs": NUM_EPOCHS,
        "batch_size": BATCH_SIZE,
        "seed": 3,
    }
    return parse_recipe(values, overrides)


class StopAt(Reporter):
    """Sends this process a signal after so many steps."""

    def __init__(self, num_steps: int, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.num_steps, self.number = num_steps, number

    def step(self, done: int, means: dict[str, float], alpha: float, clock: Clock) -> None:
        self.num_steps -= 1
        if self.num_steps == 0:
            os.kill(os.getpid(), self.number)


def train_quietly(recipe: Recipe, output: Path, reporter: Reporter | None = None) -> dict[str, Any]:
    torch.manual_seed(torch.seed() % 1000)  # whatever the state outside is, it must not matter
    return train(recipe, output, reporter=reporter or Reporter())


def what_is_kept(run: Path) -> dict[str, Any]:
    """Everything a run leaves behind that does not depend on how long things took."""
    summary = read_json(run / "summary.json")
    for key in ("run", "seconds", "images_per_second", "time_shares"):
        del summary[key]
    kept: dict[str, Any] = {"metrics": (run / "metrics.jsonl").read_bytes(), "summary": summary}
    for which in ("last", "best"):
        folder = run / "checkpoints" / which
        for name in ("model.safetensors", "state.safetensors"):
            kept[f"{which}/{name}"] = (folder / name).read_bytes()
        state = json.loads((folder / "state.json").read_text())
        kept[f"{which}/state.json"] = {key: value for key, value in state.items() if key not in ("best", "clock")}
    return kept
