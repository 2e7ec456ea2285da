"""Names, order and files of checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

from maxsup.core.files.reading import as_written, read_json

CHECKSUMS = "checksums.json"
NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")
UNFINISHED = re.compile(rf"\.{NAME.pattern}\.tmp")

_FILES = ("model.safetensors", "state.json")


def files_of(folder: Path) -> list[Path]:
    """Files that a checkpoint consists of, whether they are there or not."""
    listed = folder / CHECKSUMS
    if not listed.exists():
        return [folder / name for name in _FILES]
    with as_written(listed):
        return [folder / name for name in read_json(listed)["checkpoint"]]


def age(folder: Path) -> tuple[int, int]:
    """Step and repetition of a checkpoint, which order checkpoints by time."""
    if match := NAME.fullmatch(folder.name):
        return int(match[1]), int(match[2] or 0)
    with as_written(folder / "state.json"):
        return int(read_json(folder / "state.json")["global_step"]), -1
