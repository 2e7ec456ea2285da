"""WebDataset shards: tar files in which an image and its label have one name, read in any order without unpacking.

The headers of all shards are read once and kept in the user's cache, so an epoch is shuffled as one of files is: over
all shards, by seed and epoch alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsup.core.errors import DataError, StorageError
from maxsup.lab.core.files.storage import make_folder, replace_bytes
from maxsup.lab.data.bundle import FileSplit
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, local_path, missing_data
from maxsup.lab.data.samples import PackedSamples
from maxsup.lab.data.sets.folder_index import ENDINGS, cache_folder

_TEST_NAMES = ("test", "validation", "val")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_NUMBER = re.compile(r"(\d+)(?=\.tar$)")


@DATASETS.register("wds", images="your shards", source="WebDataset tar files, .cls or .json labels", argument="PATTERN")
def wds(request: DataRequest, *, test: str | None = None, val: str | None = None) -> RawData:
    """Shards on disk, for instance ``imagenet1k-train-{0000..1023}.tar`` or ``imagenet1k-train-*.tar``.

    Args:
        request: What is asked for.
        test: Pattern of the test shards; by default that of the training shards with ``test``, ``validation`` or
            ``val`` in the place of ``train``.
        val: Pattern of the validation shards, if there are some besides.
    """
    train = _shards(request, request.argument)
    # There are fewer of them, so the range of their numbers is another one.
    like = _RANGE.sub("*", request.argument)
    others = [like.replace("train", name) for name in _TEST_NAMES if "train" in like] if test is None else [test]
    found = next((each for each in others if _expanded(request, each)), None)
    if found is None:
        raise DataError(
            f"shards to test on must be given; got {request.argument!r} alone. Set data.options.test to their pattern.",
            code="data-missing",
        )
    parts = [_split(paths) for paths in (train, _shards(request, found), *([_shards(request, val)] if val else []))]
    num_classes = 1 + int(max(part.labels.max() for part in parts))
    return RawData(parts[0], parts[1], tuple(map(str, range(num_classes))), val=parts[2] if val else None)


@dataclass(frozen=True, eq=False)
class ShardImages:
    """Opens the encoded image of a row; ``places`` are shard, offset and size of each."""

    paths: tuple[str, ...]
    places: NDArray[np.int64]

    def __call__(self, row: int) -> io.BytesIO:
        """The bytes of a row as a file."""
        shard, offset, size = self.places[row].tolist()
        with open(self.paths[shard], "rb") as file:
            file.seek(offset)
            return io.BytesIO(file.read(size))


def _expanded(request: DataRequest, pattern: str) -> list[str]:
    """The files of a pattern that are there, in the order of their names."""
    places = [local_path(name, request.root) for name in _names(pattern)]
    if len(places) == 1 and "*" in pattern:
        return sorted(glob(str(local_path(pattern, request.root)))) or sorted(glob(str(request.root / pattern)))
    return [str(place) for place in places if place.is_file()]


def _names(pattern: str) -> list[str]:
    found = _RANGE.search(pattern)
    if found is None:
        return [pattern]
    first, last = found.groups()
    numbers = range(int(first), int(last) + 1)
    return [pattern.replace(found[0], f"{number:0{len(first)}d}") for number in numbers]


def _shards(request: DataRequest, pattern: str) -> list[str]:
    """All shards of a pattern; raises if one is missing."""
    paths = _expanded(request, pattern)
    if not paths:
        raise missing_data(request, pattern, "Give the path of tar files, with * or {0000..1023} for their numbers.")
    there = [Path(path).name for path in paths]
    wanted = _numbered(there) if "*" in pattern else [Path(name).name for name in _names(pattern)]
    if missing := [name for name in wanted if name not in set(there)]:
        raise DataError(
            f"shards of {pattern!r} must all be there; got {len(there)} of {len(wanted)}, without {missing[0]}. "
            "Fetch it again, or give the range that is there.",
            code="data-missing",
        )
    return paths


def _numbered(names: list[str]) -> list[str]:
    """All names from the first number to the last; the names themselves if they do not end in numbers."""
    numbers = [found[1] for name in names if (found := _NUMBER.search(name))]
    if len(numbers) < len(names):
        return names
    every = range(int(min(numbers, key=int)), int(max(numbers, key=int)) + 1)
    return [_NUMBER.sub(f"{number:0{len(numbers[0])}d}", names[0]) for number in every]


def _split(paths: Sequence[str]) -> FileSplit:
    """The images of shards, with what the index says of them."""
    rows = _index(paths)
    counts = np.bincount(rows[:, 0], minlength=len(paths))
    for path, count, told in zip(paths, counts.tolist(), _told_counts(paths), strict=True):
        if count == 0 or (told is not None and told != count):
            rule = "images with labels" if told is None else f"{told} images, as _info.json says"
            raise DataError(f"{path} must hold {rule}; got {count}. Fetch it again.", code="damaged-file")
    samples = PackedSamples(np.arange(len(rows)), rows[:, 3].copy())
    return FileSplit(samples, ShardImages(tuple(paths), rows[:, :3].copy()))


def _index(paths: Sequence[str]) -> NDArray[np.int64]:
    """Shard, offset, size and label of each image, from the cache if no shard has changed."""
    states = [(os.path.abspath(path), os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths]
    digest = hashlib.blake2b(json.dumps(states).encode(), digest_size=8).hexdigest()
    kept = cache_folder() / f"shards-{digest}.npy"
    with suppress(OSError, ValueError):
        return np.load(kept, allow_pickle=False)
    rows = [(shard, *place) for shard, path in enumerate(paths) for place in _places(path)]
    found = np.array(rows, dtype=np.int64).reshape(-1, 4)
    content = io.BytesIO()
    np.save(content, found)
    # A full or read-only home is no reason not to train.
    with suppress(OSError, StorageError):
        make_folder(kept.parent)
        replace_bytes(kept, content.getvalue())
    return found


def _places(path: str) -> Iterator[tuple[int, int, int]]:
    """Offset, size and label of each image of a shard, in its order."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path, "r:") as shard:
            for member in shard:
                key, _, ending = member.name.rpartition("/")[2].partition(".")
                key = f"{member.name.rpartition('/')[0]}/{key}"
                if f".{ending.lower()}" in ENDINGS:
                    images[key] = member.offset_data, member.size
                elif ending in ("cls", "json") and key not in labels:
                    label = _label(shard.extractfile(member).read(), ending)  # type: ignore[union-attr]
                    labels |= {} if label is None else {key: label}
    except (tarfile.TarError, OSError, ValueError) as error:
        raise DataError(
            f"{path} must be a whole, uncompressed tar file with whole numbers as labels; got {error}. Fetch it again.",
            code="damaged-file",
        ) from error
    if unlabelled := [key for key in images if key not in labels]:
        raise DataError(
            f"images of {path} must have a label in a .cls or .json file; got none for {unlabelled[0].lstrip('/')!r}. "
            "Write the shards with one.",
            code="bad-labels",
        )
    return ((*images[key], labels[key]) for key in images)


def _label(content: bytes, ending: str) -> int | None:
    if ending == "cls":
        return int(content)
    value: Any = json.loads(content)
    return int(value["label"]) if isinstance(value, dict) and "label" in value else None


def _told_counts(paths: Sequence[str]) -> list[int | None]:
    """How many images each shard should have, where ``_info.json`` beside it says so."""
    told: dict[str, int] = {}
    for folder in {Path(path).parent for path in paths}:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            for split in json.loads((folder / "_info.json").read_bytes())["splits"].values():
                told |= dict(zip(split["filenames"], split["shard_lengths"], strict=True))
    return [told.get(Path(path).name) for path in paths]
