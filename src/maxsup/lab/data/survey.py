"""A look at the files of a data set before anything is trained on them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from maxsup.core.errors import DataError
from maxsup.lab.core.files.reading import file_digest
from maxsup.lab.data.bundle import DataBundle, FileSplit
from maxsup.lab.data.pipelines.decoding import BadImageError, image_header, read_image

MAX_OPENED = 5_000
"""At most this many files of a split are decoded, evenly spread."""

T = TypeVar("T")

_NUM_MEASURED = 200


@dataclass
class Survey:
    """What was found in files: counts of sizes (width, height), Pillow's modes and oddities of usable files.

    Args:
        num_opened: How many files were decoded.
        unreadable: Why files cannot be used, by path.
        duplicates: Pairs of paths with the same bytes: the one in ``val`` or ``test``, and the other one before it.
    """

    num_files: int = 0
    num_opened: int = 0
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    duplicates: list[tuple[str, str]] = field(default_factory=list)


def survey(bundle: DataBundle) -> Survey:
    """Open the files of a data set; finds nothing where images are not files of their own."""
    paths = [
        [str(path) for path, _ in split.samples]
        for split in (bundle.train, bundle.val, bundle.test)
        if isinstance(split, FileSplit) and split.opener is None
    ]
    found = Survey(num_files=sum(map(len, paths)), duplicates=_duplicates(paths))
    for path in (path for part in paths for path in _spread(part, MAX_OPENED)):
        found.num_opened += 1
        try:
            size, mode = image_header(path)
            _, note = read_image(path)
        except BadImageError as error:
            found.unreadable[path] = str(error)
            continue
        found.sizes[size] += 1
        found.modes[mode] += 1
        if note:
            found.oddities[note] += 1
    return found


def shorter_sides(split: FileSplit) -> list[int]:
    """Shorter sides of some of the images, from their headers alone."""
    sides, reason = [], "there is none"
    for path, _ in _spread(list(split.samples), _NUM_MEASURED):
        try:
            size, _ = image_header(split.opener(path) if split.opener else path)
            sides.append(min(size))
        except BadImageError as error:
            reason = f"{path} ({error})"
    if not sides:
        raise DataError(
            f"no image can be read to learn its size: {reason}. Repair the files, or set data.image_size.",
            code="unreadable-file",
        )
    return sides


def _duplicates(parts: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Files of a later part with the same bytes as one of an earlier part."""
    sizes = [{path: size for path in part if (size := _size(path))} for part in parts]
    # Only files of equal length can be equal, so most are never read.
    counts = Counter(size for part in sizes for size in set(part.values()))
    known: dict[str, str] = {}
    pairs = []
    for part in sizes:
        digests = {path: _digest(path) for path, size in part.items() if counts[size] > 1}
        pairs += [(path, known[digest]) for path, digest in digests.items() if digest in known]
        for path, digest in digests.items():
            known.setdefault(digest, path)
    return pairs


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # a broken link; it is among the unreadable
        return 0


def _digest(path: str) -> str:
    try:
        return file_digest(Path(path))
    except OSError:
        return path  # equal to nothing else


def _spread(items: Sequence[T], count: int) -> list[T]:
    """At most ``count`` items, from beginning to end."""
    count = min(count, len(items))
    return [items[index * len(items) // count] for index in range(count)]
