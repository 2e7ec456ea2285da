"""Splits of images with masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.lab.data.bundle import SampleSplit


class MaskedImage(NamedTuple):
    """An RGB image of Pillow, the class number of each pixel (uint8, ``(H, W)``), and its file or another name."""

    image: Any
    mask: NDArray[np.uint8]
    path: str


@dataclass(frozen=True, eq=False)
class MaskSplit(SampleSplit):
    """Images with a label for every pixel, read on request.

    ``reader`` turns a sample into an image with its mask, or raises a :class:`~maxsup.core.errors.DataError` that names
    the file. ``place`` says where the images are, for people.

    Example:
        >>> split = MaskSplit([("1.jpg", "1.png"), ("2.jpg", "2.png")], reader=print)
        >>> len(split), split.labels.tolist(), split.describe()
        (2, [0, 0], '2 images with masks in files')
    """

    task: ClassVar[str] = "segmentation"

    reader: Callable[[Any], MaskedImage]
    place: str = "files"

    @property
    def labels(self) -> Tensor:
        """Zeros: an image with a mask has no label of its own, so all are held out as if of one class."""
        return torch.zeros(len(self.samples), dtype=torch.int64)

    def describe(self) -> str:
        """One line for people."""
        return f"{len(self):,} images with masks in {self.place}"
