"""Data sets by name: a function with an ``@DATASETS.register`` decorator is the whole registration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from glob import iglob
from pathlib import Path
from typing import Any

import torch

from maxsup.core.errors import DataError
from maxsup.core.registry import Registry
from maxsup.lab.data.bundle import DataBundle, MemorySplit, Split, channel_statistics, join_splits, stratified_split

TASK_PACKAGE = "maxsup.lab.segmentation"
"""The package of a task besides classification: registries import it at their first look-up, by this name alone."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class DataRequest:
    """What a loader is asked for; ``argument`` is the text after the colon of a name."""

    name: str
    argument: str
    root: Path
    download: bool
    val_share: float
    split_seed: int


@dataclass(frozen=True, eq=False)
class RawData:
    """What a loader found: official splits. Without ``val``, one is held out of ``train``.

    ``notes`` and ``settled`` are those of the bundle: a run that keeps settled options finds the same splits again.
    """

    train: Split
    test: Split
    class_names: tuple[str, ...]
    val: Split | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    settled: Mapping[str, Any] = field(default_factory=dict)


def _fix_of_path(name: str) -> str:
    """The end of an error message if ``name`` is a path that needs ``folder:`` or ``arrays:`` before it; else empty."""
    path = local_path(name, data_root())
    if name and path.is_dir():
        return f"Did you mean 'folder:{name}'?"
    return f"Did you mean 'arrays:{name}'?" if path.suffix == ".npz" and path.is_file() else ""


DATASETS: Registry[Callable[..., RawData]] = Registry(
    "data set", package=TASK_PACKAGE, group="maxsup.data", fix=_fix_of_path
)


def load_data(
    name: str,
    *,
    root: Path | str | None = None,
    download: bool = False,
    val_share: float = 0.1,
    split_seed: int = 0,
    **options: Any,
) -> DataBundle:
    """The data set of a name, with a validation split held out of its training data.

    Args:
        name: A registered name, or ``folder:PATH``, ``arrays:PATH``, ``hf:NAME_OR_PATH``.
        root: Where data sets live; by default the environment variable ``MAXSUP_DATA``, or ``./data``.
            ``ROOT/<name>.npz`` is preferred where present, torchvision's own layout is read otherwise.
        download: Whether to fetch what is missing.
        val_share: Share of every training class that is held out. A set with a validation split keeps its own. With 0
            there is no validation split, and training uses all of it.
        split_seed: Seed of the split; the test split never depends on it.
        options: Options of the data set, for instance ``imbalance=50``.

    Example:
        >>> data = load_data("digits")
        >>> print(data.describe())
        digits: 10 classes
         train: 1,295 images of 1x8x8 in memory
           val: 143 images of 1x8x8 in memory
          test: 359 images of 1x8x8 in memory
        >>> load_data("digits", size=16)
        Traceback (most recent call last):
        TypeError: option of data set 'digits' must be one it has; got 'size'. It has none.
    """
    kind, _, argument = name.partition(":")
    loader = DATASETS[kind]
    wanted = DATASETS.facts(kind).get("argument", "")
    if bool(argument) != bool(wanted):
        form = f"{kind}:{wanted}" if wanted else kind
        raise ValueError(f"data set {kind!r} must be written {form}; got {name!r}. Correct the name.")
    DATASETS.check_options(kind, options)
    request = DataRequest(kind, argument, data_root(root), download, val_share, split_seed)
    return _bundle(name, loader(request, **options), request)


def data_root(root: Path | str | None = None) -> Path:
    """Where data sets live: the argument, or ``MAXSUP_DATA``, or ``./data``."""
    return Path(root or os.environ.get("MAXSUP_DATA") or "data").expanduser()


def local_path(argument: str, root: Path) -> Path:
    """A path as given, or under the data root where only that exists."""
    path = Path(argument).expanduser()
    return root / path if not path.exists() and (root / path).exists() else path


def missing_places(name: str, root: Path | str | None = None, *, is_generated: bool = False) -> list[Path]:
    """Paths where a data set (a name of :func:`load_data`) could be, if none of them exists; no file is opened.

    With ``is_generated`` its own files are computed, and only those of the set it is made from are needed.

    Example:
        >>> missing_places("digits")
        []
        >>> [path.as_posix() for path in missing_places("cifar10_lt", root="nowhere")]
        ['nowhere/cifar10.npz', 'nowhere/cifar-10-batches-py']
    """
    kind, _, argument = name.partition(":")
    facts, place = DATASETS.facts(kind), data_root(root)
    if argument:
        looked_at = [local_path(argument, place)]
    else:
        looked_at = [place / words for words in facts.get("places", "").split(" or ") if words and not is_generated]
    if looked_at and not any(_is_there(path) or (argument and _is_there(place / path)) for path in looked_at):
        return looked_at
    return missing_places(facts["base"], root) if "base" in facts else []


def _is_there(path: Path) -> bool:
    """Whether a path is there or, where it has ``*`` or ``{0000..1023}`` in it, something like it."""
    pattern = re.sub(r"\{[^}]*\}", "*", str(path))
    return path.exists() or ("*" in pattern and next(iglob(pattern), None) is not None)


def describe_datasets() -> list[dict[str, Any]]:
    """One entry a data set: name as it is written, images, source, and options with their defaults."""
    rows = []
    for name in DATASETS:
        facts = DATASETS.facts(name)
        written = f"{name}:{facts['argument']}" if "argument" in facts else name
        options = DATASETS.options(name)
        rows.append({"name": written, "images": facts["images"], "source": facts["source"], "options": options})
    return rows


def missing_data(request: DataRequest, files: str, fix: str) -> DataError:
    """The error of a data set that is not there."""
    return DataError(
        f"data set {request.name!r} must be at {files}; got nothing complete there. {fix}", code="data-missing"
    )


def how_to_get(request: DataRequest, error: Exception) -> str:
    """What to do about a set that could be fetched; the reader's error is quoted only if fetching has failed."""
    if request.download:
        return f"Fetching it failed: {' '.join(str(error).split())}"
    return "Add data.download=true to fetch it, or say with data.root (or MAXSUP_DATA) where it is."


def _bundle(name: str, raw: RawData, request: DataRequest) -> DataBundle:
    train, val = raw.train, raw.val
    for part in (train, raw.test, val):
        if part:
            _check_labels(part, name, len(raw.class_names))
    if val is None:
        kept, held_out = stratified_split(train.labels, request.val_share, request.split_seed)
        train, val = train.subset(kept), train.subset(held_out)
    elif request.val_share == 0:
        train, val = join_splits(train, val), val.subset(torch.arange(0))
    mean, std = raw.mean, raw.std
    if isinstance(train, MemorySplit) and (mean is None or std is None or len(mean) != train.images.shape[1]):
        mean, std = channel_statistics(train.images)
    return DataBundle(
        name=name,
        num_classes=len(raw.class_names),
        class_names=raw.class_names,
        train=train,
        val=val,
        test=raw.test,
        mean=mean or IMAGENET_MEAN,
        std=std or IMAGENET_STD,
        notes=raw.notes,
        settled=raw.settled,
    )


def _check_labels(split: Split, name: str, num_classes: int) -> None:
    low, high = int(split.labels.min()), int(split.labels.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise DataError(
            f"labels of {name!r} must be from 0 to {num_classes - 1}; got {wrong}. Number the classes from 0 on.",
            code="bad-labels",
        )
