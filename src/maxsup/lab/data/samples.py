"""Images and their labels as two arrays: a list of a million pairs takes 200 MB, and every worker copies it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class PackedSamples(Sequence[tuple[Any, int]]):
    """Pairs of a source and a label; sources are paths, numbers, or whatever else an opener takes.

    Example:
        >>> samples = PackedSamples.of([("cat/1.jpg", 0), ("dog/1.jpg", 1)])
        >>> samples[1], len(samples), samples.taken(np.array([1, 1])) == [("dog/1.jpg", 1)] * 2
        (('dog/1.jpg', 1), 2, True)
    """

    def __init__(self, sources: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self.sources, self.labels = sources, labels

    @classmethod
    def of(cls, samples: Iterable[tuple[Any, int]]) -> PackedSamples:
        """Pack pairs, unless they are packed already."""
        if isinstance(samples, PackedSamples):
            return samples
        pairs = list(samples)
        return cls(_packed([source for source, _ in pairs]), np.array([label for _, label in pairs], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return PackedSamples(self.sources[index], self.labels[index])
        source = self.sources[index]
        if isinstance(source, bytes):
            return os.fsdecode(bytes(source)), int(self.labels[index])
        return (source.item() if isinstance(source, np.generic) else source), int(self.labels[index])

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def taken(self, indices: NDArray[np.int64]) -> PackedSamples:
        """The pairs at ``indices``, in that order."""
        return PackedSamples(self.sources[indices], self.labels[indices])

    def joined(self, other: PackedSamples) -> PackedSamples:
        """These pairs and then others."""
        if self.sources.dtype.kind != other.sources.dtype.kind:
            return PackedSamples.of([*self, *other])
        return PackedSamples(*map(np.concatenate, ((self.sources, other.sources), (self.labels, other.labels))))


def _packed(sources: list[Any]) -> NDArray[Any]:
    # Bytes, because file names need not be valid text; no path has a zero byte, which numpy would cut off.
    if all(isinstance(source, str | Path) for source in sources):
        return np.array([os.fsencode(source) for source in sources] or [b""], dtype=np.bytes_)[: len(sources)]
    if all(type(source) is int for source in sources):
        return np.array(sources, dtype=np.int64)
    packed = np.empty(len(sources), dtype=object)
    packed[:] = sources
    return packed
