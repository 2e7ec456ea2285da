"""The sign-flip test of paired differences, many comparisons at a time: one row a comparison, one column a seed.

Up to 16 seeds every flip is made, so that p is exact; beyond that flips are drawn with a fixed seed.
``scipy.stats.permutation_test(permutation_type="samples")`` gives the same exact p, but takes about ten times as
long for the thousands of rows of a simulation: it makes the flips one by one where this is one matrix product.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_EXACT_FLIPS = 16
NUM_FLIPS = 100_000

_SEED = 20250
# Numbers held at a time, whatever the number of comparisons.
_NUM_HELD = 2_000_000
# Sums of the same numbers in another order differ in the last bits; this share of their size counts as equal.
_TIE = 1e-12


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
    p_values, step = np.empty(len(differences)), max(1, _NUM_HELD // len(signs))
    for start in range(0, len(differences), step):
        rows = differences[start : start + step]
        bar = np.abs(rows.sum(axis=1)) - _TIE * np.abs(rows).sum(axis=1)
        is_as_far = np.abs(rows @ signs.T) >= bar[:, None]
        # Drawn flips: the observed one counts as one of them, so that p is never 0.
        share = is_as_far.mean(axis=1) if is_exact else (1 + is_as_far.sum(axis=1)) / (1 + len(signs))
        p_values[start : start + step] = share
    return p_values


@lru_cache(maxsize=4)
def _signs(num_seeds: int) -> Array:
    """Every pattern of signs with the first one kept: the others are these turned around, with the same distance."""
    bits = (np.arange(2 ** (num_seeds - 1))[:, None] >> np.arange(num_seeds - 1)) & 1
    return np.concatenate([np.ones((len(bits), 1)), 1.0 - 2.0 * bits], axis=1)


@lru_cache(maxsize=4)
def _drawn_signs(num_seeds: int) -> Array:
    return np.random.default_rng(_SEED).choice([-1.0, 1.0], size=(NUM_FLIPS, num_seeds))
