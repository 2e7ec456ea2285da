"""Randomness that belongs to an image: one generator each, so that neighbours and batch sizes do not matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsup.core.repro import mixed_seed

Pixels = NDArray[np.floating[Any]]
"""RGB images in [0, 1], ``(N, H, W, 3)``."""


class Dice:
    """Draws arrays with one row an image, each row from the generator of its image.

    Example:
        >>> both, second = Dice(0, "noise", [7, 8]), Dice(0, "noise", [8])
        >>> bool((both.normal((2,))[1] == second.normal((2,))[0]).all())
        True
    """

    def __init__(self, seed: int, name: str, indices: Iterable[int]) -> None:
        self._generators = [np.random.default_rng(mixed_seed(seed, name, index)) for index in indices]

    def __len__(self) -> int:
        return len(self._generators)

    def normal(self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0) -> Pixels:
        """Normal numbers, ``(N, *shape)``."""
        return np.stack([each.normal(mean, std, shape) for each in self._generators]).astype(np.float32)

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> Pixels:
        """Uniform numbers, ``(N, *shape)``."""
        return np.stack([each.uniform(low, high, shape) for each in self._generators]).astype(np.float32)

    def integers(self, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.int64]:
        """Integers from ``low`` to ``high - 1``, ``(N, *shape)``."""
        return np.stack([each.integers(low, high, shape) for each in self._generators])

    def poisson(self, rates: NDArray[Any]) -> Pixels:
        """Counts with these rates, one row an image."""
        drawn = [each.poisson(rate) for each, rate in zip(self._generators, rates, strict=True)]
        return np.stack(drawn).astype(np.float32)
