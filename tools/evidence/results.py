"""What a finished task leaves: rows of numbers, and records of test images."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tools.evidence.measures import ImageRecord
from tools.evidence.plan import Run

RESULT, RECORDS = "result.json", "records.npz"


@dataclass(frozen=True)
class Row:
    """The numbers of one run; ``curve`` is its accuracy by epoch, on validation, or while training for heads.

    A number that a run does not have is None.
    """

    pool: str
    arm: str
    seed: int
    numbers: Mapping[str, float | None]
    curve: Sequence[float | None]
    head: str | None

    @property
    def run(self) -> Run:
        """What names it."""
        return Run(self.pool, self.head, self.arm, self.seed)


def write_result(folder: Path, rows: Sequence[Row], records: Sequence[ImageRecord]) -> None:
    """Write all of a task; the file of rows comes last and says that the task is done."""
    arrays = [record.arrays() for record in records]
    np.savez_compressed(folder / RECORDS, **{name: np.stack([each[name] for each in arrays]) for name in arrays[0]})
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
    arrays = dict(stored.items())
    return rows, [ImageRecord(**{name: part[i] for name, part in arrays.items()}) for i in range(len(rows))]


def _plain(row: Row) -> dict[str, object]:
    values = asdict(row)
    values["numbers"] = {key: _rounded(value) for key, value in row.numbers.items()}
    values["curve"] = [_rounded(value) for value in row.curve]
    return values


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
