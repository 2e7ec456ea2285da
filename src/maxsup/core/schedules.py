"""Strength as a function of training progress: frozen values that print, compare and travel in a config.

Progress runs from 0 (first epoch) to 1 (last epoch); :func:`epoch_progress` is the paper's reading of ``t/T``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import ClassVar

from maxsup.core.checks import check_number, require_number


@dataclass(frozen=True)
class Schedule:
    """Base of all schedules: called with progress in [0, 1], gives the strength."""

    def __call__(self, progress: float) -> float:
        """The strength at ``progress``."""
        require_number("progress", progress)
        if not 0.0 <= progress <= 1.0:
            fix = "Pass epoch / max(num_epochs - 1, 1)."
            raise ValueError(f"progress must be between 0 and 1; got {progress!r}. {fix}")
        return self._value(progress)

    def _value(self, progress: float) -> float:
        raise TypeError("Schedule is abstract; use Constant, Linear, Cosine or Piecewise.")


@dataclass(frozen=True)
class Constant(Schedule):
    """The same strength throughout.

    Example:
        >>> Constant(0.1)(0.7)
        0.1
    """

    value: float

    def __post_init__(self) -> None:
        check_number("value", self.value)

    def _value(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class _Ramp(Schedule):
    start: float
    end: float

    def __post_init__(self) -> None:
        check_number("start", self.start)
        check_number("end", self.end)


@dataclass(frozen=True)
class Linear(_Ramp):
    """A straight line from ``start`` to ``end``; ``Linear(0.1, 0.2)`` is the paper's main setting.

    Example:
        >>> [round(Linear(0.1, 0.2)(p), 3) for p in (0.0, 0.5, 1.0)]
        [0.1, 0.15, 0.2]
    """

    def _value(self, progress: float) -> float:
        return self.start + (self.end - self.start) * progress


@dataclass(frozen=True)
class Cosine(_Ramp):
    """Half a cosine from ``start`` to ``end``: flat at both ends.

    Example:
        >>> [round(Cosine(0.0, 0.2)(p), 3) for p in (0.0, 0.25, 1.0)]
        [0.0, 0.029, 0.2]
    """

    def _value(self, progress: float) -> float:
        return self.start + (self.end - self.start) * (1.0 - math.cos(math.pi * progress)) / 2.0


@dataclass(frozen=True)
class Piecewise(Schedule):
    """Straight lines through ``(progress, value)`` points; two points at one progress make a step.

    Example:
        >>> step = Piecewise(((0.0, 0.1), (0.5, 0.1), (0.5, 0.3), (1.0, 0.3)))
        >>> [step(p) for p in (0.0, 0.49, 0.5, 1.0)]
        [0.1, 0.1, 0.3, 0.3]
    """

    _EXAMPLE: ClassVar[str] = "Write for instance ((0, 0.1), (1, 0.2))."

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        try:
            points = [(at, value) for at, value in self.points]
        except (TypeError, ValueError):
            raise TypeError(
                f"points must be pairs of progress and value; got {self.points!r}. {self._EXAMPLE}"
            ) from None
        for at, value in points:
            require_number("progress", at)
            check_number("value", value)
        # A list from a config becomes the tuple that hashing and comparing need.
        object.__setattr__(self, "points", tuple((float(at), float(value)) for at, value in points))
        positions = [at for at, _ in self.points]
        is_forward = all(before <= after for before, after in pairwise(positions))  # false of nan
        if len(positions) < 2 or positions[0] != 0.0 or positions[-1] != 1.0 or not is_forward:
            raise ValueError(
                f"points must run from progress 0 to progress 1 without going back; got {self.points!r}. "
                f"{self._EXAMPLE}"
            )

    def _value(self, progress: float) -> float:
        left = max(index for index, (at, _) in enumerate(self.points) if at <= progress)
        if left == len(self.points) - 1:
            return self.points[left][1]
        (start, low), (end, high) = self.points[left], self.points[left + 1]
        return low + (high - low) * (progress - start) / (end - start)


PAPER_SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {
        "constant": Constant(0.1),
        "linear": Linear(0.1, 0.2),
        "linear_from_zero": Linear(0.0, 0.1),
        "linear_high": Linear(0.2, 0.3),
    }
)
"""The paper's four schedules (``tab:alpha``, ``tab:ablation_alpha``); ``linear`` is that of its main tables."""


def epoch_progress(epoch: int, num_epochs: int) -> float:
    """Progress at a 0-based epoch, so that the last epoch reaches 1.

    Example:
        >>> [epoch_progress(epoch, 3) for epoch in range(3)], epoch_progress(0, 1)
        ([0.0, 0.5, 1.0], 0.0)
    """
    return epoch / max(num_epochs - 1, 1)
