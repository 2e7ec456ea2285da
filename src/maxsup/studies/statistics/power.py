"""What a number of seeds can show, known before anything is trained.

The rule that prints a result bold (see ``paired``) is a t test of the paired differences. In 80 % of cases it finds a
true difference of this size, in standard deviations of normally distributed differences.

======  ====  ====  ====  ====  ====  ====  ====
seeds      6     7     8     9    10    12    16
size    1.43  1.27  1.16  1.07  1.00  0.89  0.75
======  ====  ====  ====  ====  ====  ====  ====
"""

from __future__ import annotations

import math

LEVEL = 0.05
MIN_SEEDS = 6
"""Fewer seeds cannot reach p <= 0.05 in a sign-flip test: 5 give 2/32."""

POWER = 0.8


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
