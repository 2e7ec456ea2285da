"""Handwritten digits that come with scikit-learn: the default, because nothing has to be downloaded.

``synthetic`` has known factors within a class, to measure how much of them a loss keeps. An image is a digit, enlarged
by ``scale``, in a bright colour of some ``hue``, with its centre at ``(x, y)`` of a 24x24 canvas, on a dark grey
``background`` with a little noise. The class is the digit. All factors are drawn independently of it and of each other.
The same source digit is never in two splits.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.installation import missing_package
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.bundle import MemorySplit, stratified_split
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData
from maxsup.lab.data.sets.long_tail import long_tail_subset

# scikit-learn brings no split: these shares of each digit are the test splits, by a seed that nothing changes.
_TEST_SHARE, _PLACED_TEST_SHARE = 0.2, 0.4

CANVAS = 24
_SOURCE = 8
_NOISE = 0.03
# A digit of the largest scale is 16 pixels wide: at these centres it always fits on the canvas.
_RANGES = {"hue": (0.0, 1.0), "x": (8.0, 16.0), "y": (8.0, 16.0), "scale": (1.25, 2.0), "background": (0.0, 0.3)}


def digit_images() -> tuple[Tensor, Tensor]:
    """All 1,797 digits, uint8 ``(N, 1, 8, 8)``, and their labels."""
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise missing_package("sklearn")
    # Read past scikit-learn, whose import takes longer than all of this.
    rows = torch.from_numpy(
        np.loadtxt(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    )
    # Grey levels are 0..16 in the source.
    images = rows[:, :-1].mul(255 / 16).round().to(torch.uint8)
    return images.view(-1, 1, _SOURCE, _SOURCE), rows[:, -1].long()


@DATASETS.register("digits", images="1,797 of 1x8x8, 10 classes", source="scikit-learn (UCI optdigits)")
def digits(request: DataRequest) -> RawData:
    """Grey digits of 8x8 pixels."""
    images, labels = digit_images()
    kept, held_out = stratified_split(labels, _TEST_SHARE, seed=0)
    everything = MemorySplit(images, labels)
    return RawData(everything.subset(kept), everything.subset(held_out), tuple("0123456789"))


@DATASETS.register(
    "synthetic",
    images="2,156 + 719 of 3x24x24, 10 classes",
    source="drawn here from scikit-learn's digits; factors hue, x, y, scale, background",
)
def synthetic(request: DataRequest, *, copies: int = 2, imbalance: float = 1, seed: int = 0) -> RawData:
    """Placed digits.

    Args:
        request: What is asked for.
        copies: How often each training digit is drawn; digits of the other splits are drawn once.
        imbalance: Size of the largest training class over that of the smallest; 1 keeps classes balanced.
        seed: Seed of the factors.
    """
    if copies < 1:
        raise ValueError(f"copies must be at least 1; got {copies!r}. Use 2 for the usual size.")
    images, labels = digit_images()
    kept, test = stratified_split(labels, _PLACED_TEST_SHARE, seed=0)
    train, val = (kept[part] for part in stratified_split(labels[kept], request.val_share, request.split_seed))
    train = train.repeat(copies)
    if imbalance != 1:
        train = train[long_tail_subset(labels[train], imbalance, seed)]
    splits = {
        name: placed_digits(images[members], labels[members], mixed_seed(seed, "synthetic", name))
        for name, members in {"train": train, "val": val, "test": test}.items()
        if len(members)
    }
    return RawData(splits["train"], splits["test"], tuple("0123456789"), val=splits.get("val"))


def placed_digits(digits: Tensor, labels: Tensor, seed: int) -> MemorySplit:
    """Each digit, uint8 ``(N, 1, 8, 8)``, once on a canvas of its own, with factors and noise drawn by ``seed``.

    Example:
        >>> split = placed_digits(torch.full((2, 1, 8, 8), 255, dtype=torch.uint8), torch.tensor([0, 1]), seed=0)
        >>> split.describe(), sorted(split.factors)
        ('2 images of 3x24x24 in memory', ['background', 'hue', 'scale', 'x', 'y'])
    """
    generator = torch.Generator().manual_seed(seed)
    factors = {
        name: torch.empty(len(digits)).uniform_(low, high, generator=generator) for name, (low, high) in _RANGES.items()
    }
    ink = _place(digits.float() / 255, factors["x"], factors["y"], factors["scale"])
    background = factors["background"].view(-1, 1, 1, 1)
    colour = hue_to_rgb(factors["hue"]).view(-1, 3, 1, 1)
    canvas = background + ink * (colour - background)
    canvas = canvas + _NOISE * torch.randn(canvas.shape, generator=generator)
    return MemorySplit(canvas.clamp(0, 1).mul(255).round().to(torch.uint8), labels, factors)


def _place(digits: Tensor, x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
    # affine_grid maps each point of the canvas, in [-1, 1], to the point of the source that it is read from.
    half_canvas, half_source = CANVAS / 2, _SOURCE / 2
    zoom = half_canvas / (scale * half_source)
    zero = torch.zeros_like(scale)
    shift_x, shift_y = (half_canvas - x) / (scale * half_source), (half_canvas - y) / (scale * half_source)
    rows = torch.stack([torch.stack([zoom, zero, shift_x], -1), torch.stack([zero, zoom, shift_y], -1)], 1)
    grid = F.affine_grid(rows, [len(digits), 1, CANVAS, CANVAS], align_corners=False)
    return F.grid_sample(digits, grid, align_corners=False)


def hue_to_rgb(hue: Tensor) -> Tensor:
    """Bright, saturated colours; hue 0 is red, a third green, two thirds blue.

    Example:
        >>> hue_to_rgb(torch.tensor([0.0, 0.5])).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    distance = (hue[..., None] * 6 - torch.tensor([3.0, 2.0, 4.0])).abs()
    red = distance[..., :1] - 1
    rest = 2 - distance[..., 1:]
    return torch.cat([red, rest], -1).clamp(0, 1)
