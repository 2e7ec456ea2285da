"""What a finished task leaves: rows of numbers, and records of test images."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from tools.evidence.measures import ImageRecord

RESULT, RECORDS = "result.json", "records.npz"


@dataclass(frozen=True)
class Row:
    """The numbers of one run; ``curve`` is its accuracy by epoch, on validation, or while training for heads."""

    pool: str
    arm: str
    seed: int
    numbers: dict[str, float]
    curve: list[float]
    head: str | None


def write_result(folder: Path, rows: Sequence[Row], records: Sequence[ImageRecord]) -> None:
    """Write all of a task; the file of rows comes last and says that the task is done."""
    names = [field.name for field in fields(ImageRecord)]
    np.savez_compressed(folder / RECORDS, **{name: np.stack([getattr(r, name) for r in records]) for name in names})
    temporary = folder / f"{RESULT}.tmp"
    temporary.write_text(json.dumps([_plain(row) for row in rows]))
    temporary.rename(folder / RESULT)


def is_done(folder: Path) -> bool:
    """Whether a task has left its result."""
    return (folder / RESULT).exists()


def read_result(folder: Path) -> tuple[list[Row], list[ImageRecord]]:
    """What :func:`write_result` wrote."""
    rows = [Row(**row) for row in json.loads((folder / RESULT).read_text())]
    stored = np.load(folder / RECORDS)
    arrays = {field.name: stored[field.name] for field in fields(ImageRecord)}
    return rows, [ImageRecord(**{name: part[i] for name, part in arrays.items()}) for i in range(len(rows))]


def _plain(row: Row) -> dict[str, object]:
    values = asdict(row)
    values["numbers"] = {key: _rounded(value) for key, value in row.numbers.items()}
    values["curve"] = [_rounded(value) for value in row.curve]
    return values


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
