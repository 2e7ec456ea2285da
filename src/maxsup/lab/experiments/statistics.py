"""Paired statistics: what a number of seeds can and cannot show about losses trained with the same seeds.

Seed for seed, every loss gets the same data order and the same initial weights, so the difference to a baseline is
taken within each seed. Each comparison reports

- Student's 95 % interval of the mean difference;
- p of the exact sign-flip test, which assumes only that equal losses give differences symmetric about 0;
- on request, whether the losses are equivalent within a margin (two one-sided t tests).

**When a result is bold.** At least 6 seeds, and the interval excludes 0. The interval holds its level even for few
seeds: over 20,000 simulated comparisons it covered the true mean in this share of cases.

=====================  ======  ======  ======  ======  ======
differences, seeds          4       6       8      10      12
=====================  ======  ======  ======  ======  ======
normal                 95.2 %  95.0 %  95.1 %  95.2 %  94.9 %
heavy tails (t, 3)     96.4 %  96.1 %  95.9 %  96.1 %  95.9 %
skewed (exponential)   88.1 %  88.8 %  89.7 %  89.8 %  90.5 %
=====================  ======  ======  ======  ======  ======

A bootstrap (BCa) covers 85.5 % at 6 seeds of normal differences. The interval that inverts the sign-flip test covers
96.9 % there, but it is infinite below 6 seeds and no better where differences are skewed (93.4 % at 6 seeds, 90.2 % at
10). Differences of runs that share everything but the loss are seldom skewed; p and the single differences in the
report show where they are. ``tests/unit/lab/experiments/test_statistics.py`` simulates this.

**Several losses.** Holm's correction is printed beside each p and does not decide what is bold, because no result can
pass it at 6 seeds: the smallest p there is 2/64 = 0.031, and two comparisons double it. ``seeds_needed`` says how many
seeds a corrected claim takes; the sentences under a table say which findings hold after correction.

**Before training.** The rule for bold is a t test of the paired differences. In 80 % of cases it finds a true
difference of this size, in standard deviations of normally distributed differences.

======  ====  ====  ====  ====  ====  ====  ====
seeds      6     7     8     9    10    12    16
size    1.43  1.27  1.16  1.07  1.00  0.89  0.75
======  ====  ====  ====  ====  ====  ====  ====
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from maxsup.core.checks import check_choice
from maxsup.core.errors import hint
from maxsup.lab.reports.summary import MIN_SEEDS as MIN_SEEDS
from maxsup.lab.reports.summary import PairedComparison as PairedComparison
from maxsup.metrics.facts import DIRECTIONS, Direction

LEVEL = 0.05
POWER = 0.8

# Up to this many seeds every sign flip is made, so that p is exact; beyond, flips are drawn with a fixed seed.
_MAX_EXACT_FLIPS = 16
_NUM_FLIPS, _FLIP_SEED = 100_000, 20250
# Sums of the same numbers in another order differ in the last bits; this share of their size counts as equal.
_TIE = 1e-12


def paired_comparison(
    values: Sequence[float], baseline: Sequence[float], *, direction: Direction = "higher", margin: float | None = None
) -> PairedComparison:
    """Compare a loss with a baseline, seed by seed.

    Args:
        values: One number per seed; nan or infinity for a run that failed. Its pair is left out and counted.
        baseline: The baseline's numbers, same seeds in the same order.
        direction: Which numbers are good: ``"higher"``, ``"lower"`` or ``"none"``.
        margin: Differences smaller than this do not matter; if given, equivalence is tested.

    Example:
        >>> found = paired_comparison([3.0, 2.5, 3.5, 4.0, 3.0, 3.2], [2.0, 2.0, 2.1, 2.5, 1.9, 2.2])
        >>> round(found.difference, 3), round(found.low, 2), round(found.high, 2), found.p
        (1.083, 0.71, 1.46, 0.03125)
        >>> found.is_conclusive, found.is_better
        (True, True)
    """
    check_choice("direction", direction, DIRECTIONS)
    if len(values) != len(baseline):
        raise ValueError(
            f"values must have one number for each seed of the baseline; got {len(values)} and {len(baseline)}. "
            "Put nan where a run is missing."
        )
    if margin is not None and not 0 < margin < math.inf:
        raise ValueError(f"margin must be above 0; got {margin!r}. Leave it out to test no equivalence.")
    pairs = [(float(own), float(other)) for own, other in zip(values, baseline, strict=True)]
    differences = [own - other for own, other in pairs if math.isfinite(own) and math.isfinite(other)]
    difference, p = mean_and_std(differences)[0], _sign_flip_p(differences) if differences else math.nan
    low, high = student_interval(differences)
    baseline_mean, baseline_std = mean_and_std(other for _, other in pairs)
    equivalence_p = math.nan if margin is None else _equivalence_p(differences, margin)
    is_conclusive = len(differences) >= MIN_SEEDS and (low > 0 or high < 0)
    return PairedComparison(
        difference=difference,
        p=p,
        low=low,
        high=high,
        adjusted_p=p,
        is_conclusive=is_conclusive,
        is_better={"higher": 1, "lower": -1, "none": 0}[direction] * difference > 0,
        is_equivalent=equivalence_p <= LEVEL,
        holds_after_correction=is_conclusive and p <= LEVEL,
        num_pairs=len(differences),
        num_missing=len(values) - len(differences),
        differences=tuple(differences),
        baseline_mean=baseline_mean,
        baseline_std=baseline_std,
        direction=direction,
        margin=margin,
        equivalence_p=equivalence_p,
    )


def compare_losses(
    values: Mapping[str, Sequence[float]],
    baseline: str,
    *,
    direction: Direction = "higher",
    margin: float | None = None,
) -> dict[str, PairedComparison]:
    """Every other loss against the baseline, with p adjusted by Holm over these comparisons.

    ``values`` has the numbers of each loss, one per seed; the other arguments are those of :func:`paired_comparison`.

    Example:
        >>> seeds = {"ce": [1.0] * 6, "ls": [2.0, 2.1, 2.2, 2.0, 2.3, 2.1], "maxsup": [2.5, 2.6, 2.4, 2.5, 2.7, 2.4]}
        >>> found = compare_losses(seeds, "ce")
        >>> found["maxsup"].p, found["maxsup"].adjusted_p, found["maxsup"].holds_after_correction
        (0.03125, 0.0625, False)
    """
    if baseline not in values:
        raise ValueError(f"baseline must be one of the losses; got {baseline!r}. {hint(baseline, values)}")
    found = {
        name: paired_comparison(numbers, values[baseline], direction=direction, margin=margin)
        for name, numbers in values.items()
        if name != baseline
    }
    adjusted = zip(found.items(), holm([comparison.p for comparison in found.values()]), strict=True)
    return {
        name: each.model_copy(update={"adjusted_p": p, "holds_after_correction": each.is_conclusive and p <= LEVEL})
        for (name, each), p in adjusted
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down method, in the order given; nan stays nan and does not count."""
    order = sorted((index for index, p in enumerate(p_values) if not math.isnan(p)), key=lambda index: p_values[index])
    adjusted, running = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def smallest_p_value(num_seeds: int) -> float:
    """The smallest two-sided p of a sign-flip test: all seeds agree.

    Example:
        >>> smallest_p_value(5), smallest_p_value(6)
        (0.0625, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - num_seeds))


def seeds_needed(num_comparisons: int = 1) -> int:
    """The fewest seeds with which one of so many comparisons can pass 0.05 after Holm's correction.

    Example:
        >>> seeds_needed(1), seeds_needed(2), seeds_needed(5)
        (6, 7, 8)
    """
    if num_comparisons < 1:
        raise ValueError(
            f"num_comparisons must be at least 1; got {num_comparisons!r}. Count the losses without the baseline."
        )
    return math.ceil(1 + math.log2(num_comparisons / LEVEL))


def detectable_difference(std_difference: float, num_seeds: int) -> float:
    """The true difference that so many seeds find (print bold) in 80 % of cases; infinite below 6 seeds.

    ``std_difference`` is the standard deviation of the paired differences.

    Example:
        >>> round(detectable_difference(0.5, 6), 3), detectable_difference(0.5, 5)
        (0.717, inf)
        >>> round(detectable_difference(0.5, 20), 3)
        0.33
    """
    if not 0 <= std_difference < math.inf:
        raise ValueError(
            f"std_difference must be a number from 0 on; got {std_difference!r}. Use that of earlier runs."
        )
    if num_seeds < MIN_SEEDS:
        return math.inf
    from scipy.special import nctdtrinc, stdtrit

    # The noncentrality for which the statistic passes its bar with the wanted power; the other tail is negligible.
    noncentrality = nctdtrinc(num_seeds - 1, 1 - POWER, stdtrit(num_seeds - 1, 1 - LEVEL / 2))
    return float(noncentrality) / math.sqrt(num_seeds) * std_difference


def mean_and_std(values: Iterable[float]) -> tuple[float, float]:
    """Mean and standard deviation (n - 1 in the denominator) of the finite values; nan where there are too few."""
    numbers = [value for value in values if math.isfinite(value)]
    return fmean(numbers) if numbers else math.nan, stdev(numbers) if len(numbers) > 1 else math.nan


def student_interval(differences: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Return Student's interval of the mean; nan below two differences, without width where all are equal.

    It covers the mean with a chance of 1 - ``level``.
    """
    from scipy.special import stdtrit

    if len(differences) < 2:
        return math.nan, math.nan
    mean, std = mean_and_std(differences)
    half = float(stdtrit(len(differences) - 1, 1 - level / 2)) * std / math.sqrt(len(differences))
    return mean - half, mean + half


def student_p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p of Student's t test that the mean is 0; nan below two differences.

    Example:
        >>> round(student_p_value([1.0, 2.0, 3.0]), 4)
        0.0742
    """
    from scipy.special import stdtr

    if len(differences) < 2:
        return math.nan
    mean, std = mean_and_std(differences)
    if std == 0:
        return 0.0 if mean else 1.0
    return 2 * float(stdtr(len(differences) - 1, -abs(mean) / std * math.sqrt(len(differences))))


def _equivalence_p(differences: Sequence[float], margin: float) -> float:
    """The larger p of two one-sided t tests: that the mean is above -margin, and that it is below margin."""
    from scipy.special import stdtr

    if len(differences) < 2:
        return math.nan
    mean, std = mean_and_std(differences)
    room, error = margin - abs(mean), std / math.sqrt(len(differences))
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return float(stdtr(len(differences) - 1, -room / error))


def _sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p: the share of sign flips whose mean is at least as far from 0 as the observed one.

    Two losses that are equal in distribution give differences symmetric about 0, whatever that distribution is, so p is
    at most a level with at most that probability.
    """
    row = np.asarray(differences)
    signs = _signs(len(row))
    is_as_far = np.abs(signs @ row) >= abs(row.sum()) - _TIE * np.abs(row).sum()
    if len(row) <= _MAX_EXACT_FLIPS:
        return float(is_as_far.mean())
    # Of drawn flips the observed one counts as one, so that p is never 0.
    return float((1 + is_as_far.sum()) / (1 + len(signs)))


@lru_cache(maxsize=4)
def _signs(num_seeds: int) -> NDArray[np.float64]:
    """All sign patterns that keep the first sign (the others mirror them at equal distance); drawn if too many."""
    if num_seeds > _MAX_EXACT_FLIPS:
        return np.random.default_rng(_FLIP_SEED).choice([-1.0, 1.0], size=(_NUM_FLIPS, num_seeds))
    bits = (np.arange(2 ** (num_seeds - 1))[:, None] >> np.arange(num_seeds - 1)) & 1
    return np.concatenate([np.ones((len(bits), 1)), 1.0 - 2.0 * bits], axis=1)
