"""What a data set is here: three splits of labelled images, and how to normalise them.

``train`` is for learning, ``val`` for choosing between models, ``test`` only for the final evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import torch
from torch import Tensor
from typing_extensions import Self

from maxsup.core.errors import DataError
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.samples import PackedSamples

IGNORED_LABEL = 255
"""The value of a mask at pixels that do not count: not labelled, or padding beside the image."""


class Split(Protocol):
    """Images with labels of any kind; ``task`` names what the labels are for (``maxsup.lab.tasks``)."""

    task: ClassVar[str]

    @property
    def labels(self) -> Tensor:
        """The class of each image, ``(N,)``; where images have none of their own, zeros."""

    def __len__(self) -> int: ...

    def subset(self, indices: Tensor) -> Self:
        """Return the images at ``indices``, in that order."""

    def describe(self) -> str:
        """Return one line for people."""


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

    task: ClassVar[str] = "classification"

    images: Tensor
    labels: Tensor
    factors: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            raise DataError(
                f"images must be uint8 (N, C, H, W); got {_kind(self.images)}. Scale them to 0..255 and round.",
                code="bad-arrays",
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise DataError(
                f"labels must be int64, one an image; got {_kind(self.labels)} for {len(self.images)} images.",
                code="bad-arrays",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> MemorySplit:
        """The images at ``indices``, in that order."""
        factors = {name: values[indices] for name, values in self.factors.items()}
        return MemorySplit(self.images[indices], self.labels[indices], factors)

    def describe(self) -> str:
        """One line for people."""
        return f"{len(self):,} images of {'x'.join(map(str, self.images.shape[1:]))} in memory"


def _kind(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} {tuple(values.shape)}"


@dataclass(frozen=True, eq=False)
class SampleSplit:
    """Images that are read on request, each from its sample; the base of such splits."""

    samples: Sequence[Any]

    def __len__(self) -> int:
        return len(self.samples)

    def subset(self, indices: Tensor) -> Self:
        """The images at ``indices``, in that order."""
        return replace(self, samples=[self.samples[index] for index in indices.tolist()])

    def joined(self, other: SampleSplit) -> Self:
        """These images and then those of another split of this kind."""
        return replace(self, samples=[*self.samples, *other.samples])


@dataclass(frozen=True, eq=False)
class FileSplit(SampleSplit):
    """Images that are decoded on request.

    Args:
        samples: ``(source, label)`` each; a source is a path unless there is an ``opener``.
        opener: Turns a source into something Pillow can open, for images that are not files of their own.

    Example:
        >>> split = FileSplit([("cat/1.jpg", 0), ("dog/1.jpg", 1)])
        >>> len(split), split.labels.tolist(), split.describe()
        (2, [0, 1], '2 images in files')
    """

    task: ClassVar[str] = "classification"

    opener: Callable[[Any], Any] | None = None
    labels: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        packed = PackedSamples.of(self.samples)
        object.__setattr__(self, "samples", packed)
        object.__setattr__(self, "labels", torch.from_numpy(packed.labels))

    def subset(self, indices: Tensor) -> Self:
        """The images at ``indices``, in that order."""
        return replace(self, samples=PackedSamples.of(self.samples).taken(indices.numpy()))

    def joined(self, other: SampleSplit) -> Self:
        """These images and then those of another split of this kind."""
        return replace(self, samples=PackedSamples.of(self.samples).joined(PackedSamples.of(other.samples)))

    def describe(self) -> str:
        """One line for people."""
        return f"{len(self):,} images in files"


LabelledSplit: TypeAlias = MemorySplit | FileSplit
"""Images with one label each."""


@dataclass(frozen=True, eq=False)
class DataBundle:
    """A data set, ready for a pipeline.

    ``name`` is what was asked for, for instance ``folder:photos``; ``mean`` and ``std`` are those of each channel, of
    pixels in [0, 1]; ``notes`` are sentences about what was found and how it is used; ``settled`` are options that the
    data set chose by itself.
    """

    name: str
    num_classes: int
    class_names: tuple[str, ...]
    train: Split
    val: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    notes: tuple[str, ...] = ()
    settled: Mapping[str, Any] = field(default_factory=dict)

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """``(C, H, W)``, or None for files of varying size."""
        if not isinstance(self.train, MemorySplit):
            return None
        _, channels, height, width = self.train.images.shape
        return channels, height, width

    @property
    def task(self) -> str:
        """The name of the task that the labels are for (``maxsup.lab.tasks``)."""
        return self.train.task

    def describe(self) -> str:
        """A few lines for people: what each split is made of."""
        splits = {"train": self.train, "val": self.val, "test": self.test}
        lines = [f"{name:>6}: {split.describe()}" for name, split in splits.items()]
        return "\n".join([f"{self.name}: {self.num_classes} classes", *lines])


def join_splits(first: Split, second: Split) -> Split:
    """Two splits of one kind, one behind the other."""
    if isinstance(first, MemorySplit):
        assert isinstance(second, MemorySplit)
        factors = {name: torch.cat([values, second.factors[name]]) for name, values in first.factors.items()}
        images, labels = torch.cat([first.images, second.images]), torch.cat([first.labels, second.labels])
        return MemorySplit(images, labels, factors)
    assert isinstance(first, SampleSplit)
    assert isinstance(second, type(first))
    return first.joined(second)


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
