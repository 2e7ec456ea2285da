"""Paired statistics: what a number of seeds can and cannot show about losses trained with the same seeds.

Seed for seed, every loss gets the same data order and the same initial weights, so the difference to a baseline is
taken within each seed. Three things are said of the differences:

- a 95 % interval of their mean (BCa bootstrap);
- p of the exact sign-flip test, which assumes nothing but that equal losses give differences symmetric about 0;
- on request, whether they are equivalent within a margin (two one-sided t tests).

**When a result is bold.** At least 6 seeds, the interval excludes 0, *and* the exact p is at most 0.05. The interval
alone will not do: for 6 seeds of normally distributed differences without any effect it excludes 0 in 14.5 % of
cases (17 % with heavy tails; 11.4 % still with 8 seeds), that is, it covers 85.5 % where it says 95. With the p-value
the rule is wrong in 3.1 % of cases at 6 seeds, as often as six coins fall alike, and in at most 5 % at any number.
``tests/unit/studies/test_statistics.py`` repeats these simulations.

**Several losses.** Holm's correction is printed beside each p and does not decide what is bold, because it cannot be
passed at 6 seeds: the smallest p there is 2/64 = 0.031, and two comparisons double it. ``seeds_needed`` says how many
seeds a corrected claim takes; the sentences under a table say which findings hold after correction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np

from maxsup.core.checks import check_choice
from maxsup.core.errors import hint
from maxsup.studies.power import LEVEL, MIN_SEEDS
from maxsup.studies.resampling import bca_intervals, sign_flip_p_values

Direction = Literal["higher", "lower", "none"]

_DIRECTIONS = ("higher", "lower", "none")
# Fewer than three differences say nothing of their spread: the interval of two would be the two.
_MIN_FOR_INTERVAL = 3


@dataclass(frozen=True)
class PairedComparison:
    """A loss against a baseline over paired seeds; every number is nan where it does not exist.

    ``mean`` and ``std`` are over all finite values of the loss; everything else is over the ``num_pairs`` seeds for
    which both values are finite.
    """

    mean: float
    std: float
    baseline_mean: float
    baseline_std: float
    differences: tuple[float, ...]
    mean_difference: float
    low: float
    high: float
    p_value: float
    adjusted_p: float
    direction: Direction
    num_missing: int
    margin: float | None
    equivalence_p: float

    @property
    def num_pairs(self) -> int:
        """Seeds for which both values are there."""
        return len(self.differences)

    @property
    def std_difference(self) -> float:
        """Spread of the paired differences: what decides how much a number of seeds can show."""
        return _std(self.differences)

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0

    @property
    def is_conclusive(self) -> bool:
        """Whether the difference may be printed bold: enough seeds, interval without 0, exact p at most 0.05."""
        return self.num_pairs >= MIN_SEEDS and self.excludes_zero and self.p_value <= LEVEL

    @property
    def holds_after_correction(self) -> bool:
        """Whether the difference is conclusive for all comparisons of its table together."""
        return self.is_conclusive and self.adjusted_p <= LEVEL

    @property
    def is_better(self) -> bool:
        """Whether the mean difference is in the wanted direction; False where none is wanted."""
        sign = {"higher": 1, "lower": -1, "none": 0}[self.direction]
        return sign * self.mean_difference > 0

    @property
    def is_equivalent(self) -> bool:
        """Whether the losses are equal within the margin, shown at level 0.05; False without a margin."""
        return self.equivalence_p <= LEVEL

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, None in the place of nan."""
        facts = ("num_pairs", "std_difference", "is_conclusive", "holds_after_correction", "is_equivalent")
        values = {**asdict(self), **{fact: getattr(self, fact) for fact in facts}}
        values["differences"] = list(self.differences)
        return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}


def paired_comparison(
    values: Sequence[float],
    baseline: Sequence[float],
    *,
    direction: Direction = "higher",
    margin: float | None = None,
) -> PairedComparison:
    """Compare a loss with a baseline, seed by seed.

    Args:
        values: One number a seed; nan (or infinity) for a run that failed. Its pair is left out and counted.
        baseline: The baseline's numbers, same seeds in the same order.
        direction: Which numbers are good: ``"higher"``, ``"lower"`` or ``"none"``.
        margin: Differences smaller than this do not matter; given one, equivalence is tested.

    Example:
        >>> found = paired_comparison([3.0, 2.5, 3.5, 4.0, 3.0, 3.2], [2.0, 2.0, 2.1, 2.5, 1.9, 2.2])
        >>> round(found.mean_difference, 3), round(found.low, 2), round(found.high, 2), found.p_value
        (1.083, 0.77, 1.32, 0.03125)
        >>> found.is_conclusive, found.is_better
        (True, True)
    """
    check_choice("direction", direction, _DIRECTIONS)
    if len(values) != len(baseline):
        raise ValueError(
            f"values must be one a seed of the baseline; got {len(values)} and {len(baseline)}. "
            "Put nan where a run is missing."
        )
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"margin must be above 0; got {margin!r}. Leave it out to test no equivalence.")
    own, other = np.asarray(values, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    is_pair = np.isfinite(own) & np.isfinite(other)
    differences = (own - other)[is_pair]
    num = len(differences)
    low, high = math.nan, math.nan
    if num >= _MIN_FOR_INTERVAL:
        [low], [high] = (ends.tolist() for ends in bca_intervals(differences[None]))
    p_value = float(sign_flip_p_values(differences[None])[0]) if num else math.nan
    return PairedComparison(
        mean=_mean(own[np.isfinite(own)].tolist()),
        std=_std(own[np.isfinite(own)].tolist()),
        baseline_mean=_mean(other[np.isfinite(other)].tolist()),
        baseline_std=_std(other[np.isfinite(other)].tolist()),
        differences=tuple(differences.tolist()),
        mean_difference=_mean(differences.tolist()),
        low=low,
        high=high,
        p_value=p_value,
        adjusted_p=p_value,
        direction=direction,
        num_missing=len(values) - num,
        margin=margin,
        equivalence_p=math.nan if margin is None else _equivalence_p(differences.tolist(), margin),
    )


def compare_losses(
    values: Mapping[str, Sequence[float]],
    baseline: str,
    *,
    direction: Direction = "higher",
    margin: float | None = None,
) -> dict[str, PairedComparison]:
    """Every other loss against the baseline, with p adjusted by Holm over these comparisons.

    Args:
        values: Per-seed numbers of each loss, same seeds in the same order.
        baseline: Name of the loss to compare with.
        direction: Which numbers are good.
        margin: As in :func:`paired_comparison`.

    Example:
        >>> seeds = {"ce": [1.0] * 6, "ls": [2.0, 2.1, 2.2, 2.0, 2.3, 2.1], "maxsup": [2.5, 2.6, 2.4, 2.5, 2.7, 2.4]}
        >>> found = compare_losses(seeds, "ce")
        >>> found["maxsup"].p_value, found["maxsup"].adjusted_p, found["maxsup"].holds_after_correction
        (0.03125, 0.0625, False)
    """
    if baseline not in values:
        raise ValueError(f"baseline must be one of the losses; got {baseline!r}. {hint(baseline, values)}")
    found = {
        name: paired_comparison(numbers, values[baseline], direction=direction, margin=margin)
        for name, numbers in values.items()
        if name != baseline
    }
    adjusted = holm([comparison.p_value for comparison in found.values()])
    return {
        name: replace(comparison, adjusted_p=p) for (name, comparison), p in zip(found.items(), adjusted, strict=True)
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down method, in the order given; nan stays nan and does not count.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted((index for index, p in enumerate(p_values) if not math.isnan(p)), key=lambda index: p_values[index])
    adjusted, running = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _equivalence_p(differences: Sequence[float], margin: float) -> float:
    """The larger p of two one-sided t tests: that the mean is above -margin, and that it is below margin."""
    from scipy.special import stdtr

    if len(differences) < 2:
        return math.nan
    room = margin - abs(_mean(differences))
    error = _std(differences) / math.sqrt(len(differences))
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return float(stdtr(len(differences) - 1, -room / error))


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def _std(values: Sequence[float]) -> float:
    """With n - 1 in the denominator, and exactly 0 for equal values."""
    return stdev(values) if len(values) > 1 else math.nan
