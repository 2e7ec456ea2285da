"""Names, order and files of checkpoints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from maxsup.lab.core.files.reading import as_written, read_json

CHECKSUMS = "checksums.json"
NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")

_UNFINISHED = re.compile(rf"\.{NAME.pattern}\.tmp")
_FILES = ("model.safetensors", "state.json")


def files_of(folder: Path) -> list[Path]:
    """Files that a checkpoint consists of, whether they are there or not."""
    listed = folder / CHECKSUMS
    if not listed.exists():
        return [folder / name for name in _FILES]
    with as_written(listed):
        return [folder / name for name in read_json(listed)["checkpoint"]]


def checkpoints_in(folder: Path) -> list[Path]:
    """Checkpoints, oldest first; a link that a copy has made a folder comes before the others of its step."""
    if not folder.is_dir():
        return []
    folders = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    known = [path for path in folders if NAME.fullmatch(path.name) or path.name in ("last", "best")]
    return sorted(known, key=_age)


def remove_superseded(newest: Path, kept: set[str]) -> None:
    """Remove older checkpoints, and unfinished ones that a crash left; anything else beside them is not ours."""
    for entry in newest.parent.iterdir():
        is_older = NAME.fullmatch(entry.name) and _age(entry) < _age(newest)
        if (is_older and entry.name not in kept) or _UNFINISHED.fullmatch(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def _age(folder: Path) -> tuple[int, int]:
    """Step and repetition of a checkpoint, which order checkpoints by time."""
    if match := NAME.fullmatch(folder.name):
        return int(match[1]), int(match[2] or 0)
    with as_written(folder / "state.json"):
        return int(read_json(folder / "state.json")["global_step"]), -1
