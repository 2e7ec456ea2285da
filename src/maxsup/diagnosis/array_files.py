"""Read logits, labels and features from untrusted files: ``.npy``, ``.npz``, ``.safetensors`` and ``.csv``.

Nothing is unpickled, and sizes are checked before memory is allocated. ``.npy`` and ``.safetensors`` files are
memory-mapped.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.core.npz import NpzFile
from maxsup.diagnosis.class_order import read_class_names

Readers = dict[str, Callable[[], Any]]
"""The arrays of a file by name; calling an entry reads it."""

_MAX_HEADER_LINE = 1 << 20


class ModelArrays(NamedTuple):
    """Unchecked outputs of a model, in the order of the arguments of ``diagnose``."""

    logits: Any
    labels: Any
    features: Any = None
    class_names: tuple[str, ...] | None = None


def read_array_files(
    logits: Path | str,
    labels: Path | str | None = None,
    features: Path | str | None = None,
    class_names: Path | str | None = None,
) -> ModelArrays:
    """Read or map the outputs of a model. They are not yet checked against one another.

    Args:
        logits: A file with one row per sample and one column per class. In an ``.npz`` or ``.safetensors`` file with
            several arrays, the array named ``logits``; ``file.npz:name`` chooses another.
        labels: A file with the true class of each sample; by default the array ``labels`` of the same file.
        features: A file with the input of the last layer; by default the array ``features`` of the logits' file, if
            any.
        class_names: A text file with one name per line, or JSON of names and numbers; by default the array
            ``class_names`` of the logits' file or the header of a ``.csv``, if any.
    """
    found, readers = file_contents(logits, "logits")
    if labels is None and "labels" not in readers:
        raise DataError(
            f"labels must be given with the logits, because {str(logits)!r} holds none. Give their file as labels "
            "(--labels y.npy on the command line).",
            code="labels-missing",
        )
    true = readers["labels"]() if labels is None else file_contents(labels, "labels")[0]
    own = readers.get("features", lambda: None)
    seen = own() if features is None else file_contents(features, "features")[0]
    names = None
    if class_names is not None:
        listed = read_class_names(Path(class_names))
        names = tuple(sorted(listed, key=listed.__getitem__))
    elif "class_names" in readers and isinstance(stored := readers["class_names"](), np.ndarray):
        names = tuple(map(str, stored.ravel()))
    return ModelArrays(found, true, seen, names)


def read_sample_ids(logits: Path | str) -> Tensor | None:
    """Read the array ``ids`` beside the logits, one whole number for each sample; None without it."""
    readers = file_contents(logits, "logits")[1]
    if "ids" not in readers:
        return None
    found = np.asarray(readers["ids"]())
    if found.ndim != 1 or found.dtype.kind not in "iu" or len(np.unique(found)) != len(found):
        raise DataError(
            f"ids must be whole numbers, each one once; got {found.dtype} of shape {found.shape} in "
            f"{Path(logits).name!r}. Number the samples, for instance by the order of their file names."
        )
    return torch.from_numpy(found.astype(np.int64))


def file_contents(path: Path | str, what: str) -> tuple[Any, Readers]:
    """Return the array that ``what`` stands for in a file, and readers of all arrays of the file."""
    head, _, tail = str(path).rpartition(":")
    is_named = head.lower().endswith((".npz", ".safetensors"))
    file, name = (Path(head), tail) if is_named else (Path(path), None)
    formats = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".csv": _csv}
    opened = formats.get(file.suffix.lower())
    if opened is None:
        raise DataError(
            f"{what} must be in a file of kind {', '.join(formats)}; got {file.name!r}. Save it with numpy.save.",
            code="bad-array-file",
        )
    if not file.is_file():
        raise DataError(
            f"{what} must be a file that is there; got {str(file)!r}. Check the path.", code="file-not-found"
        )
    if file.stat().st_size == 0:
        raise DataError(
            f"{what} must be a file with content; got {file.name!r} of 0 bytes. Write it again.", code="empty-file"
        )
    readers: Readers = _read_or_explain(file, what, partial(opened, file, what))
    array = _read_or_explain(file, what, readers[_array_name(list(readers), name, what, file)])
    return array, {key: partial(_read_or_explain, file, key, read) for key, read in readers.items()}


def _read_or_explain(file: Path, what: str, read: Callable[[], Any]) -> Any:
    """Call a reader, and turn any error into a ``DataError`` of one sentence."""
    try:
        return read()
    except DataError:
        raise
    except Exception as error:  # every format raises its own errors
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(
            f"{what} must be in a readable {file.suffix} file of plain numbers; got {file.name!r} ({reason}). "
            "Write it again.",
            code="bad-array-file",
        ) from error


def _npy(file: Path, what: str) -> Readers:
    # Mapped copy-on-write: torch requires writable memory, and the file must not change.
    return {what: partial(np.load, file, mmap_mode="c", allow_pickle=False)}


def _npz(file: Path, what: str) -> Readers:
    stored = NpzFile(file)
    return {name: partial(stored.read, name) for name in stored.names}


def _safetensors(file: Path, what: str) -> Readers:
    from safetensors import safe_open

    def read(key: str) -> Tensor:
        with safe_open(file, framework="pt") as stored:
            tensor: Tensor = stored.get_tensor(key)
            return tensor

    with safe_open(file, framework="pt") as stored:
        return {key: partial(read, key) for key in list(stored.keys())}


def _csv(file: Path, what: str) -> Readers:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        line = stream.readline(_MAX_HEADER_LINE)
    delimiter = next((mark for mark in ",;\t" if mark in line), ",")
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    has_header = bool(cells) and not any(map(_is_number, cells))

    def read() -> NDArray[Any]:
        kind = np.float64 if what == "labels" else np.float32
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            return np.loadtxt(
                file, dtype=kind, delimiter=delimiter, skiprows=int(has_header), ndmin=2, encoding="utf-8-sig"
            )

    return {what: read, "class_names": partial(np.array, cells)} if has_header else {what: read}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _array_name(keys: list[str], name: str | None, what: str, file: Path) -> str:
    """Choose an array of a file: the one asked for by ``name``, the one named ``what``, or the only one."""
    wanted = what if name is None else name
    if wanted in keys:
        return wanted
    if name is None and len(keys) == 1:
        return keys[0]
    raise DataError(
        f"{file.name} must hold an array called {wanted!r}; got {', '.join(sorted(keys)[:8]) or 'none'}. "
        f"Choose one with {file.name}:NAME.",
        code="bad-array-file",
    )
