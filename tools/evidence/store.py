"""Finished runs as they are committed: a table of numbers for each pool, and a packed file for each block of the plan.

A packed file holds the curves of its runs, one bit for each test image, whether it is right, and the codes that a
claim needs of the runs that it compares. What is there is never dropped or replaced.
"""

from __future__ import annotations

import csv
import io
import lzma
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.evidence.claims import Claim, kept_arrays
from tools.evidence.measures import ImageRecord, from_codes
from tools.evidence.plan import SECOND, Plan, Run, Task, blocks
from tools.evidence.results import Row

RESULTS = SECOND / "results"
KEYS = ("head", "arm", "seed")
CODES = ("confidence", "cooled_confidence", "cooled_truth")
DROPPED_BITS = 2  # 64 levels: codes give the variance over images and no number itself
CURVE_STEPS = 10_000
UNKNOWN = np.iinfo(np.uint16).max

Arrays = dict[str, NDArray[Any]]


def read_rows(pool: str, folder: Path = RESULTS) -> list[Row]:
    """The runs of a pool, without their curves."""
    path = folder / f"{pool}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [
        Row(
            pool,
            line.pop("arm"),
            int(line.pop("seed")),
            head=line.pop("head") or None,
            numbers={name: float(value) if value else None for name, value in line.items()},
            curve=[],
        )
        for line in lines
    ]


def done_runs(plan: Plan, folder: Path = RESULTS) -> set[Run]:
    """The runs that are there."""
    return {row.run for pool in plan.pools for row in read_rows(pool, folder)}


def read_arrays(block: Task, folder: Path = RESULTS) -> dict[Run, Arrays]:
    """What is kept of the test images of a block, by run, and its ``curve``; probabilities are decoded."""
    decoded = _read_block(block, folder)
    for arrays in decoded.values():
        for name in set(CODES) & set(arrays):
            codes = (arrays[name].astype(np.float64) + 0.5) * 2**DROPPED_BITS - 0.5
            arrays[name] = from_codes(codes).astype(np.float32)
        curve = arrays["curve"]
        arrays["curve"] = np.where(curve == UNKNOWN, np.nan, curve / CURVE_STEPS)
    return decoded


def add_runs(
    plan: Plan, claims: Iterable[Claim], rows: Sequence[Row], records: Sequence[ImageRecord], folder: Path
) -> int:
    """Write the runs that are not there yet, and return how many; tables come last and say what is done."""
    known, kept = done_runs(plan, folder), kept_arrays(plan, claims)
    new = {
        row.run: (row, _kept(row, record, kept.get(row.run[:3], set())))
        for row, record in zip(rows, records, strict=True)
        if row.run not in known
    }
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks(plan):
        found = {run: new[run][1] for run in block.runs if run in new}
        if found:
            _write_block(block, folder, found | _read_block(block, folder))
    for pool in {run.pool for run in new}:
        _write_rows(
            plan, pool, [*read_rows(pool, folder), *(row for row, _ in new.values() if row.pool == pool)], folder
        )
    return len(new)


def _kept(row: Row, record: ImageRecord, names: set[str]) -> Arrays:
    arrays = {name: part for name, part in record.arrays().items() if name in names | {"is_right", "lengths"}}
    for name in set(CODES) & set(arrays):
        arrays[name] = arrays[name] >> DROPPED_BITS
    curve = [UNKNOWN if value is None or math.isnan(value) else round(value * CURVE_STEPS) for value in row.curve]
    return arrays | {"curve": np.array(curve, np.uint16)}


def _path(block: Task, folder: Path) -> Path:
    return folder / block.pool / f"{block.name}.npz.xz"


def _write_block(block: Task, folder: Path, by_run: Mapping[Run, Arrays]) -> None:
    """Runs in the order of the plan; ``<name>/rows`` says which of them have an array."""
    runs = [run for run in block.runs if run in by_run]
    packed: Arrays = {"arms": np.array([run.arm for run in runs]), "seeds": np.array([run.seed for run in runs])}
    for name in dict.fromkeys(name for arrays in by_run.values() for name in arrays):
        rows = [i for i, run in enumerate(runs) if name in by_run[run]]
        values = np.stack([by_run[runs[i]][name] for i in rows])
        packed[f"{name}/rows"] = np.array(rows, np.uint16)
        if values.dtype == bool:
            packed[f"{name}/size"] = np.array(values.shape[1])
            values = np.packbits(values, axis=1)
        packed[name] = values
    buffer = io.BytesIO()
    np.savez(buffer, **packed)
    path = _path(block, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(lzma.compress(buffer.getvalue()))
    temporary.rename(path)


def _read_block(block: Task, folder: Path) -> dict[Run, Arrays]:
    path = _path(block, folder)
    if not path.exists():
        return {}
    stored = dict(np.load(io.BytesIO(lzma.decompress(path.read_bytes()))))
    head = block.head.name if block.head else None
    arms, seeds = stored.pop("arms"), stored.pop("seeds")
    runs = [Run(block.pool, head, str(arm), int(seed)) for arm, seed in zip(arms, seeds, strict=True)]
    found: dict[Run, Arrays] = {run: {} for run in runs}
    for name in [name for name in stored if "/" not in name]:
        values = stored[name]
        if f"{name}/size" in stored:
            values = np.unpackbits(values, axis=1, count=int(stored[f"{name}/size"])).astype(bool)
        for row, value in zip(stored[f"{name}/rows"], values, strict=True):
            found[runs[row]][name] = value
    return found


def _write_rows(plan: Plan, pool: str, rows: Sequence[Row], folder: Path) -> None:
    heads = [None, *(head.name for head in plan.heads)]
    arms = [arm.name for arm in plan.pool_arms(pool)]
    names = list(dict.fromkeys(name for row in rows for name in row.numbers))
    path = folder / f"{pool}.csv"
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEYS, *names])
        for row in sorted(rows, key=lambda row: (heads.index(row.head), arms.index(row.arm), row.seed)):
            writer.writerow([row.head, row.arm, row.seed, *(_text(row.numbers.get(name)) for name in names)])
    temporary.rename(path)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"
