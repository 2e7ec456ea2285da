"""All pools at a glance: the mean of every loss, and MaxSup minus label smoothing in each pool."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

from maxsup.studies.evidence.claims import RESULTS, paired_values, read_claims
from maxsup.studies.evidence.pools import TRIALS, Row, Tables, read_tables, trial_scores
from maxsup.studies.statistics.paired import student_interval

NUMBERS = ("test.accuracy", "test.nll", "test.ece", "test.confidence_wrong", "collapse.train_within")
"""Shown of every pool that has them, beside the numbers that claims about it ask for."""

Difference = tuple[float, float, float, int]
"""A mean of paired differences, the ends of its 95 % interval, and the number of pairs."""

_FIRST = ("ce", "ls", "maxsup")


def pool_entries(folder: Path) -> list[dict[str, Any]]:
    """The pools of a folder of evidence as plain values: ``rows`` a loss, and ``contrast``, MaxSup minus LS."""
    tables, asked = read_tables(folder / RESULTS), dict[str, list[str]]()
    for claim in read_claims(folder).values():
        for pool in claim.pools:
            # Times are compared within a pool only, and the page of the claim has them.
            if not claim.number.startswith("timing."):
                asked.setdefault(pool, []).append(claim.number)
    return [pool_entry(pool, tables, asked.get(pool, [])) for pool in tables]


def pool_entry(pool: str, tables: Tables, asked: list[str]) -> dict[str, Any]:
    """What is shown of a pool; numbers that no run of it has are left out."""
    rows = tables[pool]
    numbers = [name for name in dict.fromkeys([*NUMBERS, *asked]) if any(_is_there(row, name) for row in rows)]
    maxsup, smoothing = _contrasted(rows)
    losses = sorted({row["loss"] for row in rows}, key=lambda loss: (_place(loss), loss))
    return {
        "pool": pool,
        "numbers": numbers,
        "rows": [
            {
                "loss": loss,
                "num_seeds": sum(row["loss"] == loss for row in rows),
                "means": [_mean_of(rows, loss, number) for number in numbers],
                "difference": _difference(rows, "test.accuracy", loss, smoothing),
            }
            for loss in losses
        ],
        "smoothing": smoothing,
        "contrast": {number: _difference(rows, number, maxsup, smoothing) for number in numbers},
    }


def strength_entries(folder: Path) -> list[dict[str, Any]]:
    """Trials as plain values, one entry a pool: ``lines`` has ``(strength, accuracies of its seeds)`` for each loss."""
    trials, entries = read_tables(folder / RESULTS / TRIALS), []
    for pool, rows in trials.items():
        lines = {}
        for name in dict.fromkeys(row["loss"].split()[0] for row in rows):
            scores = trial_scores(trials, [pool], name)
            lines[name] = sorted((_strength(loss), [accuracy for accuracy, _ in scores[loss]]) for loss in scores)
        entries.append({"pool": pool, "lines": lines})
    return entries


def _strength(loss: str) -> float:
    """The strength comes first among the options: 0.2 of ``ls alpha=0.2 convention=k-1``."""
    return float(loss.split()[1].partition("=")[2])


def _contrasted(rows: list[Row]) -> tuple[str, str]:
    """MaxSup without a schedule, and the label smoothing of the same strength."""
    losses = {row["loss"] for row in rows}
    for alpha in ("0.1", "0.2"):
        smoothing = sorted(loss for loss in losses if loss.startswith(f"ls alpha={alpha}") and ".." not in loss)
        if smoothing and f"maxsup alpha={alpha}" in losses:
            return f"maxsup alpha={alpha}", smoothing[0]
    return "", ""


def _difference(rows: list[Row], number: str, loss: str, than: str) -> Difference | None:
    pairs = paired_values(rows, number, (loss, than)).values()
    if loss == than or not pairs:
        return None
    differences = [own - other for own, other in pairs]
    return fmean(differences), *student_interval(differences), len(differences)


def _mean_of(rows: list[Row], loss: str, number: str) -> float | None:
    values = [row[number] for row in rows if row["loss"] == loss and _is_there(row, number)]
    return fmean(values) if values else None


def _is_there(row: Row, number: str) -> bool:
    return math.isfinite(row.get(number, math.nan))


def _place(loss: str) -> int:
    name = loss.split()[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
