"""Resampling of paired differences, many comparisons at a time: one row a comparison, one column a seed.

Up to 8 seeds the bootstrap is complete (every resample with its probability), up to 16 seeds so are the sign flips:
those numbers are exact and involve no dice. Beyond that both are drawn with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_EXACT_BOOTSTRAP = 8
MAX_EXACT_FLIPS = 16
NUM_RESAMPLES = 100_000
NUM_FLIPS = 100_000

_SEED = 20250
# Numbers held at a time, whatever the number of comparisons.
_NUM_HELD = 2_000_000
# Sums of the same numbers in another order differ in the last bits; this share of their size counts as equal.
_TIE = 1e-12


def bca_intervals(differences: Array, level: float = 0.95) -> tuple[Array, Array]:
    """Bias-corrected and accelerated bootstrap interval of the mean of each row (Efron 1987).

    Rows whose entries are all equal get an interval without width.

    Args:
        differences: ``(comparisons, seeds)``, at least 2 seeds, all finite.
        level: Nominal coverage.

    Example:
        >>> low, high = bca_intervals(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 9.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]]))
        >>> low.round(2).tolist(), high.round(2).tolist()
        ([2.33, 2.0], [6.67, 2.0])
    """
    from scipy.special import ndtr, ndtri

    low, high = np.empty(len(differences)), np.empty(len(differences))
    weights, probabilities = _resamples(differences.shape[1])
    for part in _parts(len(differences), len(weights)):
        rows = differences[part]
        observed = rows.mean(axis=1)
        means = rows @ weights.T
        tie = _TIE * np.abs(rows).sum(axis=1, keepdims=True)
        is_below, is_above = means < observed[:, None] - tie, means > observed[:, None] + tie
        share_below = 0.5 * (1 + is_below @ probabilities - is_above @ probabilities)
        bias = ndtri(share_below)
        acceleration = _acceleration(rows)
        order = np.argsort(means, axis=1)
        cumulative = np.cumsum(probabilities[order], axis=1)
        for end, tail in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
            shifted = bias + ndtri(tail)
            quantile = ndtr(bias + shifted / (1 - acceleration * shifted))
            place = (cumulative < quantile[:, None] - _TIE).sum(axis=1).clip(max=means.shape[1] - 1)
            end[part] = means[np.arange(len(rows)), order[np.arange(len(rows)), place]]
    is_constant = np.ptp(differences, axis=1) <= _TIE * np.abs(differences).max(axis=1)
    low[is_constant] = high[is_constant] = differences[is_constant, 0]
    return low, high


def sign_flip_p_values(differences: Array) -> Array:
    """Two-sided p of each row: the share of sign flips whose mean is at least as far from 0 as the observed one.

    Two losses that are the same in distribution give differences symmetric about 0, whatever that distribution is, so
    the share of rows with p <= level is then at most the level.

    Example:
        >>> sign_flip_p_values(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, -3.0], [0.0, 0.0, 0.0]])).tolist()
        [0.25, 1.0, 1.0]
    """
    num_seeds = differences.shape[1]
    is_exact = num_seeds <= MAX_EXACT_FLIPS
    signs = _signs(num_seeds) if is_exact else _drawn_signs(num_seeds)
    p_values = np.empty(len(differences))
    for part in _parts(len(differences), len(signs)):
        rows = differences[part]
        bar = np.abs(rows.sum(axis=1)) - _TIE * np.abs(rows).sum(axis=1)
        is_as_far = np.abs(rows @ signs.T) >= bar[:, None]
        # Drawn flips: the observed one counts as one of them, so that p is never 0.
        share = is_as_far.mean(axis=1) if is_exact else (1 + is_as_far.sum(axis=1)) / (1 + len(signs))
        p_values[part] = share
    return p_values


def _parts(num_rows: int, num_each: int) -> Iterator[slice]:
    step = max(1, _NUM_HELD // num_each)
    return (slice(start, start + step) for start in range(0, num_rows, step))


def _acceleration(rows: Array) -> Array:
    """From the jackknife: leaving one seed out moves the mean in proportion to how far that seed is from it."""
    spread = rows - rows.mean(axis=1, keepdims=True)
    squares = (spread**2).sum(axis=1)
    return (spread**3).sum(axis=1) / (6 * np.where(squares > 0, squares, 1) ** 1.5)


@lru_cache(maxsize=4)
def _resamples(num_seeds: int) -> tuple[Array, Array]:
    """Weight of every seed in every resample, and the probability of the resample."""
    if num_seeds > MAX_EXACT_BOOTSTRAP:
        dice = np.random.default_rng(_SEED)
        counts = dice.multinomial(num_seeds, [1 / num_seeds] * num_seeds, size=NUM_RESAMPLES)
        return counts / num_seeds, np.full(NUM_RESAMPLES, 1 / NUM_RESAMPLES)
    draws = combinations_with_replacement(range(num_seeds), num_seeds)
    table = np.array([np.bincount(draw, minlength=num_seeds) for draw in draws])
    factorials = np.array([math.factorial(count) for count in range(num_seeds + 1)], dtype=np.float64)
    ways = factorials[num_seeds] / factorials[table].prod(axis=1)
    return table / num_seeds, ways / ways.sum()


@lru_cache(maxsize=4)
def _signs(num_seeds: int) -> Array:
    """Every pattern of signs with the first one kept: the others are these turned around, with the same distance."""
    bits = (np.arange(2 ** (num_seeds - 1))[:, None] >> np.arange(num_seeds - 1)) & 1
    return np.concatenate([np.ones((len(bits), 1)), 1.0 - 2.0 * bits], axis=1)


@lru_cache(maxsize=4)
def _drawn_signs(num_seeds: int) -> Array:
    return np.random.default_rng(_SEED).choice([-1.0, 1.0], size=(NUM_FLIPS, num_seeds))
