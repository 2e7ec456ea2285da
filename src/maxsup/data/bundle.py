"""What a data set is here: three splits of labelled images, and how to normalise them.

``train`` is learnt from, ``val`` is what choices are made on, ``test`` is only evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.core.repro import mixed_seed

IGNORED_LABEL = 255
"""What a mask holds where a pixel counts for nothing: not labelled, or filled up beside the image."""


@dataclass(frozen=True, eq=False)
class MemorySplit:
    """Images that live in memory.

    Args:
        images: uint8, ``(N, C, H, W)``.
        labels: int64, ``(N,)``.
        factors: What else is known of each image, for instance its hue; ``(N,)`` each.

    Example:
        >>> split = MemorySplit(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))
        >>> len(split), split.describe()
        (4, '4 images of 3x8x8 in memory')
    """

    images: Tensor
    labels: Tensor
    factors: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            got = f"{str(self.images.dtype).removeprefix('torch.')} {tuple(self.images.shape)}"
            raise DataError(f"images must be uint8 (N, C, H, W); got {got}. Scale them to 0..255 and round.")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            got = f"{str(self.labels.dtype).removeprefix('torch.')} {tuple(self.labels.shape)}"
            raise DataError(f"labels must be int64, one an image; got {got} for {len(self.images)} images.")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> MemorySplit:
        """The images at ``indices``, in that order."""
        factors = {name: values[indices] for name, values in self.factors.items()}
        return MemorySplit(self.images[indices], self.labels[indices], factors)

    def describe(self) -> str:
        """One line for people."""
        size = "x".join(str(side) for side in self.images.shape[1:])
        return f"{len(self):,} images of {size} in memory"


@dataclass(frozen=True, eq=False)
class FileSplit:
    """Images that are decoded when they are asked for.

    Args:
        samples: ``(source, label)`` each; a source is a path unless ``opener`` says otherwise.
        opener: Turns a source into something Pillow can open, for images that are not files of their own.

    Example:
        >>> split = FileSplit([("cat/1.jpg", 0), ("dog/1.jpg", 1)])
        >>> len(split), split.labels.tolist(), split.describe()
        (2, [0, 1], '2 images in files')
    """

    samples: Sequence[tuple[Any, int]]
    opener: Callable[[Any], Any] | None = None
    labels: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        labels = torch.tensor([label for _, label in self.samples], dtype=torch.int64)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.samples)

    def subset(self, indices: Tensor) -> FileSplit:
        """The images at ``indices``, in that order."""
        return FileSplit([self.samples[index] for index in indices.tolist()], self.opener)

    def describe(self) -> str:
        """One line for people."""
        return f"{len(self):,} images in files"


class MaskedImage(NamedTuple):
    """An image, the class number of each of its pixels, and what to call it in a message.

    Args:
        image: RGB image of Pillow.
        mask: uint8, ``(H, W)``; :data:`IGNORED_LABEL` where a pixel counts for nothing.
        path: File of the image, or what stands for it.
    """

    image: Any
    mask: NDArray[np.uint8]
    path: str


@dataclass(frozen=True, eq=False)
class MaskSplit:
    """Images of which every pixel has a label, read when they are asked for.

    Args:
        samples: One an image, whatever ``reader`` understands.
        reader: Turns a sample into an image with its mask, or raises a :class:`~maxsup.core.errors.DataError` that
            names the file.
        num_classes: Number of classes.
        place: Where the images are, for people.

    Example:
        >>> split = MaskSplit([("1.jpg", "1.png"), ("2.jpg", "2.png")], reader=print, num_classes=3)
        >>> len(split), split.labels.tolist(), split.describe()
        (2, [0, 0], '2 images with masks in files')
    """

    samples: Sequence[Any]
    reader: Callable[[Any], MaskedImage]
    num_classes: int
    place: str = "files"

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def labels(self) -> Tensor:
        """Zeros: an image with a mask has no label of its own, and is held out as one of a single class."""
        return torch.zeros(len(self.samples), dtype=torch.int64)

    def subset(self, indices: Tensor) -> MaskSplit:
        """The images at ``indices``, in that order."""
        return replace(self, samples=[self.samples[index] for index in indices.tolist()])

    def describe(self) -> str:
        """One line for people."""
        return f"{len(self):,} images with masks in {self.place}"


Split: TypeAlias = MemorySplit | FileSplit | MaskSplit


@dataclass(frozen=True, eq=False)
class DataBundle:
    """A data set, ready for a pipeline.

    Args:
        name: As it was asked for, for instance ``folder:photos``.
        num_classes: Number of classes.
        class_names: One a class.
        train: What is learnt from.
        val: What choices are made on; held out of the training data by a fixed seed.
        test: What is only evaluated.
        mean: Mean of each channel, of pixels in [0, 1].
        std: Standard deviation of each channel.
        image_shape: ``(C, H, W)``, or None for files of varying size.
        notes: Sentences about what was found and what was made of it.
        settled: Options of the data set as it chose them by itself.
    """

    name: str
    num_classes: int
    class_names: tuple[str, ...]
    train: Split
    val: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_shape: tuple[int, int, int] | None
    notes: tuple[str, ...] = ()
    settled: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_dense(self) -> bool:
        """Whether pixels have labels, not images."""
        return isinstance(self.train, MaskSplit)

    def describe(self) -> str:
        """A few lines for people: what each split is made of."""
        lines = [f"{self.name}: {self.num_classes} classes"]
        for name, split in (("train", self.train), ("val", self.val), ("test", self.test)):
            lines.append(f"{name:>6}: {split.describe()}")
        return "\n".join(lines)


def joined(first: Split, second: Split) -> Split:
    """Two splits of one kind, one behind the other."""
    if isinstance(first, MemorySplit) and isinstance(second, MemorySplit):
        factors = {name: torch.cat([values, second.factors[name]]) for name, values in first.factors.items()}
        images, labels = torch.cat([first.images, second.images]), torch.cat([first.labels, second.labels])
        return MemorySplit(images, labels, factors)
    if isinstance(first, MaskSplit) and isinstance(second, MaskSplit):
        return replace(first, samples=[*first.samples, *second.samples])
    assert isinstance(first, FileSplit)
    assert isinstance(second, FileSplit)
    return FileSplit([*first.samples, *second.samples], first.opener)


def stratified_split(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices that stay and indices held out: ``share`` of every class, by a fixed seed, each in growing order.

    A class of two images or more holds out at least one, a single image is never held out.

    Example:
        >>> kept, held_out = stratified_split(torch.tensor([0] * 10 + [1] * 20), 0.1, seed=0)
        >>> len(kept), torch.bincount(torch.tensor([0] * 10 + [1] * 20)[held_out]).tolist()
        (27, [1, 2])
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"val_share must be at least 0 and below 1; got {share!r}. Usual: 0.1.")
    is_held_out = torch.zeros(len(labels), dtype=torch.bool)
    if share > 0 and len(labels) > 0:
        by_class = labels.argsort(stable=True).split(torch.bincount(labels).tolist())
        for label, members in enumerate(by_class):
            if len(members) > 1:
                generator = torch.Generator().manual_seed(mixed_seed(seed, "split", label))
                shuffled = members[torch.randperm(len(members), generator=generator)]
                is_held_out[shuffled[: max(1, round(share * len(members)))]] = True
    return (~is_held_out).nonzero().flatten(), is_held_out.nonzero().flatten()


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 images, of pixels in [0, 1].

    Example:
        >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 1, 2))
        ((0.5,), (0.5,))
    """
    means, stds = [], []
    levels = torch.arange(256, dtype=torch.float64) / 255
    for channel in range(images.shape[1]):
        counts = torch.bincount(images[:, channel].flatten(), minlength=256).double()
        shares = counts / counts.sum().clamp(min=1)
        mean = (shares * levels).sum()
        means.append(mean.item())
        # A constant channel would otherwise divide by zero.
        stds.append(max((shares * (levels - mean) ** 2).sum().sqrt().item(), 1 / 255))
    return tuple(means), tuple(stds)
