"""Data of the right shape for every recipe, a handful of images each, made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.unit.data import made

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


def arrays(path: Path, *, num_classes: int, per_class: int, size: int, num_test: int = 20) -> None:
    """An ``.npz`` in the layout of this package."""
    dice = np.random.default_rng(1)
    labels = np.arange(num_classes * per_class) % num_classes
    np.savez(
        path,
        train_images=dice.integers(0, 255, (len(labels), size, size, 3), dtype=np.uint8),
        train_labels=labels,
        test_images=dice.integers(0, 255, (num_test, size, size, 3), dtype=np.uint8),
        test_labels=np.arange(num_test) % num_classes,
        class_names=np.array([f"class {label}" for label in range(num_classes)]),
    )


def cub_lists(root: Path) -> None:
    """The official archive of CUB-200-2011 in small: lists and JPEG files."""
    home, dice = root / "CUB_200_2011", np.random.default_rng(2)
    names = ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
    images, labels, parts = [], [], []
    for number in range(1, 9):
        label = number % 2
        path = f"{names[label]}/{number}.jpg"
        (home / "images" / names[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(photo(dice, 300, 280)).save(home / "images" / path)
        images.append(f"{number} {path}")
        labels.append(f"{number} {label + 1}")
        parts.append(f"{number} {int(number <= 6)}")
    for name, lines in (("images", images), ("image_class_labels", labels), ("train_test_split", parts)):
        (home / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (home / "classes.txt").write_text("".join(f"{index} {name}\n" for index, name in enumerate(names, 1)))


MAKERS: dict[str, Callable[[Path], None]] = {
    "imagenet": lambda root: folder_tree(root / "imagenet"),
    "folder": lambda root: folder_tree(root / "images"),
    "cifar10": lambda root: arrays(root / "cifar10.npz", num_classes=10, per_class=2, size=32),
    "cifar10_lt": lambda root: arrays(root / "cifar10.npz", num_classes=10, per_class=20, size=32),
    "cifar100": lambda root: arrays(root / "cifar100.npz", num_classes=100, per_class=2, size=32),
    "cub200": cub_lists,
    "flowers102": lambda root: arrays(root / "flowers102.npz", num_classes=2, per_class=3, size=96, num_test=2),
    # torchvision reads the official layout from MATLAB files; the layout of ours is enough here.
    "stanford_cars": lambda root: arrays(root / "stanford_cars.npz", num_classes=2, per_class=3, size=280, num_test=2),
    "ade20k": lambda root: made.write_ade20k(root / "ADEChallengeData2016"),
    "camvid": lambda root: made.write_masked_tree(
        root / "camvid", labels=[0, 1, 10, 11], counts={"train": 4, "val": 2, "test": 2}
    ),
    "digits": lambda root: None,
    "synthetic": lambda root: None,
    "synthetic_masks": lambda root: None,
}
