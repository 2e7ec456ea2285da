"""Losses of a pool against each other, seed by seed: single contrasts, pools at a glance, sweeps over widths."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean, linear_regression
from typing import Any, Literal

from maxsup.lab.experiments.statistics import MIN_SEEDS, holm, paired_comparison, student_interval, student_p_value
from tools.evidence.first.pools import Row, Tables

SWEEPS = {"digits_w": "drawn digits", "c10_w": "CIFAR-10", "c100_w": "CIFAR-100"}
"""Sweeps over widths: the prefix of their pools, and the title for readers."""

SWEPT_LOSSES = ("maxsup alpha=0.2", "ls alpha=0.2")
TRAINING_ACCURACY = "collapse.train_accuracy"

NUMBERS = (
    "test.accuracy",
    "test.nll",
    "test.ece",
    "test.confidence_correct",
    "test.confidence_wrong",
    "collapse.train_within",
)
"""Shown for every pool that has them, beside the numbers that claims about it use."""

_PARTS = ("confidence_correct", "confidence_wrong", "accuracy")

Word = Literal["confirmed", "not reproduced", "no difference within the margin", "inconclusive"]


def width_sweep(tables: Tables, prefix: str, number: str = "test.accuracy") -> dict[str, Any]:
    """A number of MaxSup minus label smoothing against the training error, over the pools with a prefix (``c10_w``).

    A point is a width: training error of label smoothing, then mean and interval of the difference. Each seed has a
    line; slope and intercept are nan without enough seeds.
    """
    widths: list[dict[int, tuple[float, float]]] = []  # by seed: training error, and difference
    for rows in (rows for pool, rows in tables.items() if pool.startswith(prefix)):
        numbers, fitted = (paired_values(rows, key, SWEPT_LOSSES) for key in (number, TRAINING_ACCURACY))
        shared = sorted(numbers.keys() & fitted.keys())
        widths.append({seed: (1 - fitted[seed][1], numbers[seed][0] - numbers[seed][1]) for seed in shared})
    columns = (zip(*found.values(), strict=True) for found in widths if found)
    points = sorted((fmean(wrong), differences) for wrong, differences in columns)
    seeds = sorted(set(widths[0]).intersection(*widths)) if len(widths) > 1 else []
    lines = [linear_regression(*zip(*(found[seed] for found in widths), strict=True)) for seed in seeds]
    slope, intercept = (paired_comparison([line[side] for line in lines], [0.0] * len(lines)) for side in (0, 1))
    word: Word = "inconclusive"
    if len(lines) >= MIN_SEEDS and slope.excludes_zero:
        word = "confirmed" if slope.low > 0 else "not reproduced"
    return {
        "points": [(wrong, fmean(differences), *student_interval(differences)) for wrong, differences in points],
        "slope": slope.difference,
        "slope_interval": (slope.low, slope.high),
        "intercept": intercept.difference,
        "intercept_interval": (intercept.low, intercept.high),
        "word": word,
        "num_seeds": len(lines),
    }


def paired_values(rows: Sequence[Row], number: str, losses: Sequence[str]) -> dict[int, tuple[float, ...]]:
    """The number of some losses for every seed that has all of them."""
    found = [{row["seed"]: number_of(row, number) for row in rows if row["loss"] == loss} for loss in losses]
    shared = [seed for seed in found[0] if all(seed in each for each in found)]
    values = {seed: tuple(each[seed] for each in found) for seed in shared}
    return {seed: numbers for seed, numbers in values.items() if all(map(math.isfinite, numbers))}


def number_of(row: Row, number: str) -> float:
    """A number of a run, nan where it is missing; two are made of others.

    ``test.gap`` is the mean confidence in right predictions minus that in wrong ones, ``test.overconfidence`` the mean
    confidence minus the accuracy.
    """
    right, wrong, accuracy = (row.get(f"test.{key}", math.nan) for key in _PARTS)
    made = {"test.gap": right - wrong, "test.overconfidence": accuracy * right + (1 - accuracy) * wrong - accuracy}
    return float(made[number] if number in made else row.get(number, math.nan))


def combined(tables: Tables, pools: Sequence[str], number: str, weights: Mapping[str, float]) -> dict[int, float]:
    """A weighted sum of the number of some losses, by seed; several pools are averaged within a seed."""
    found = [paired_values(tables.get(pool, []), number, list(weights)) for pool in pools]
    return {
        seed: fmean(
            sum(weight * value for weight, value in zip(weights.values(), values[seed], strict=True))
            for values in found
        )
        for seed in sorted(set.intersection(*map(set, found)))
    }


def pool_entry(pool: str, rows: list[Row], asked: list[str]) -> dict[str, Any]:
    """What is shown for a pool; numbers that no run of it has are left out."""
    numbers = [name for name in dict.fromkeys([*NUMBERS, *asked]) if finite(rows, name)]
    maxsup, smoothing = _contrasted(rows)
    losses = sorted(
        {row["loss"] for row in rows}, key=lambda loss: (loss.split()[0] not in ("ce", "ls", "maxsup"), loss)
    )
    tests = [_difference_p(rows, "test.accuracy", loss, smoothing) for loss in losses]
    return {
        "pool": pool,
        "numbers": numbers,
        "rows": [
            {
                "loss": loss,
                "num_seeds": sum(row["loss"] == loss for row in rows),
                "means": [fmean(found) if (found := finite(rows, number, loss)) else None for number in numbers],
                "difference": _difference(rows, "test.accuracy", loss, smoothing),
                "p": p,
                "holm_p": corrected,
            }
            for loss, p, corrected in zip(losses, tests, holm(tests), strict=True)
        ],
        "losses": (maxsup, smoothing),
        "smoothing": smoothing,
        "contrast": {number: _difference(rows, number, maxsup, smoothing) for number in numbers},
    }


def _contrasted(rows: list[Row]) -> tuple[str, str]:
    """MaxSup without a schedule, and the label smoothing of the same strength."""
    losses = {row["loss"] for row in rows}
    for alpha in ("0.1", "0.2"):
        smoothing = sorted(loss for loss in losses if loss.startswith(f"ls alpha={alpha}") and ".." not in loss)
        if smoothing and f"maxsup alpha={alpha}" in losses:
            return f"maxsup alpha={alpha}", smoothing[0]
    return "", ""


def _difference(rows: list[Row], number: str, loss: str, than: str) -> tuple[float, float, float, int] | None:
    """Mean of paired differences, the ends of its 95 % interval, and the number of pairs."""
    pairs = paired_values(rows, number, (loss, than)).values()
    if loss == than or not pairs:
        return None
    differences = [own - other for own, other in pairs]
    return fmean(differences), *student_interval(differences), len(differences)


def _difference_p(rows: list[Row], number: str, loss: str, than: str) -> float:
    """Student's p of the mean of paired differences; nan of a loss against itself."""
    pairs = paired_values(rows, number, (loss, than)).values()
    return math.nan if loss == than else student_p_value([own - other for own, other in pairs])


def by_numbers(name: str) -> list[str | int]:
    """A key that sorts the numbers in names by size.

    Example:
        >>> sorted(["w16_32", "w4_8"], key=by_numbers)
        ['w4_8', 'w16_32']
    """
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def finite(rows: list[Row], number: str, loss: str | None = None) -> list[float]:
    """The numbers of the runs of a loss, or of all runs, that have one."""
    found = (row.get(number, math.nan) for row in rows if loss in (None, row["loss"]))
    return [value for value in found if math.isfinite(value)]
