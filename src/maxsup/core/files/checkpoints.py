"""Names, order and files of checkpoints, and the sentences about what is wrong with them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from maxsup.core.errors import StorageError
from maxsup.core.files.reading import as_written, damaged, read_json, read_plain

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


def whole_lines(path: Path) -> list[bytes]:
    """Lines that end with a newline: a last line without one was cut by a crash."""
    lines = read_plain(path).splitlines(keepends=True) if os.path.lexists(path) else []
    return [line for line in lines if line.endswith(b"\n")]


def wrong_lines(path: Path, num_lines: int, found: int) -> StorageError:
    """The sentence for a file that does not have a line for every epoch."""
    return StorageError(
        f"{path} must have the {num_lines} lines of the epochs that are done; got {found}. "
        "Restore the file or start anew in another output."
    )


def broken(path: Path, what: str, before: Path | None) -> StorageError:
    """The sentence for a damaged file of a run, with the checkpoint that is left to go on from."""
    if before is None:
        return damaged(path, what)
    return StorageError(
        f"{path} must be as it was written; got {what}. Copy it again, or remove {path.parent} to go on from "
        f"{before}, the checkpoint before it."
    )
