"""Data of the right shape for every recipe, a handful of images each, made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.unit.lab.data import made

Pixels = np.ndarray


def photo(dice: np.random.Generator, width: int, height: int) -> Pixels:
    """Smooth colours with some noise, as far as a photograph matters to a decoder."""
    coarse = Image.fromarray(dice.integers(0, 255, (4, 5, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    return (smooth + dice.integers(-20, 20, smooth.shape)).clip(0, 255).astype(np.uint8)


def folder_tree(home: Path, *, num_classes: int = 2, per_class: int = 3) -> None:
    """``train/`` and ``val/`` with real JPEG files of several sizes, one of them grey."""
    dice = np.random.default_rng(0)
    for split, count in (("train", per_class), ("val", 1)):
        for label in range(num_classes):
            place = home / split / f"n{label:08d}"
            place.mkdir(parents=True)
            for index in range(count):
                image = Image.fromarray(photo(dice, 260 + 40 * index, 300))
                if index == 1:
                    image = image.convert("L")
                image.save(place / f"{index}.JPEG", quality=90)


MAKERS: dict[str, Callable[[Path], None]] = {
    "imagenet": lambda root: folder_tree(root / "imagenet"),
    "folder": lambda root: folder_tree(root / "images"),
    "cifar10": lambda root: made.write_npz(root / "cifar10.npz", classes=10, train=2, test=2),
    "cifar10_lt": lambda root: made.write_npz(root / "cifar10.npz", classes=10, train=20, test=2),
    "cifar100": lambda root: made.write_npz(root / "cifar100.npz", classes=100, train=2, test=1),
    "cub200": lambda root: made.write_cub(root / "CUB_200_2011"),
    "flowers102": lambda root: made.write_npz(root / "flowers102.npz", classes=2, train=3, test=1, side=96),
    # torchvision reads the official layout from MATLAB files; the layout of ours is enough here.
    "stanford_cars": lambda root: made.write_npz(root / "stanford_cars.npz", classes=2, train=3, test=1, side=280),
    "ade20k": lambda root: made.write_ade20k(root / "ADEChallengeData2016"),
    "camvid": lambda root: made.write_masked_tree(
        root / "camvid", labels=[0, 1, 10, 11], counts={"train": 4, "val": 2, "test": 2}
    ),
    "digits": lambda root: None,
    "synthetic": lambda root: None,
    "synthetic_masks": lambda root: None,
}
