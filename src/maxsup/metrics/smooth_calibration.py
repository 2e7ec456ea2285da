"""Smooth calibration error: no bins, and so no jumps where a confidence crosses the edge of one.

Błasiok and Nakkiran (2023): the gaps between confidence and correctness are smoothed by a Gaussian kernel that is
reflected at 0 and 1, and the error is the mean absolute value of what remains. Its width is the one that equals the
error itself, so nothing is chosen.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from maxsup.metrics.predictions import Tally, tallied

# Confidences are shared between the two nearest points of a grid with so many intervals.
_NUM_INTERVALS = 2048
_MAX_STEPS = 20


def smooth_calibration_error(logits: Tensor, labels: Tensor, width: float | None = None) -> float:
    """Return the smooth calibration error of top probabilities, with a kernel of its own width or a given one.

    Example:
        >>> logits = torch.tensor([[0.0, 100.0], [100.0, 0.0], [100.0, 0.0], [100.0, 0.0]])
        >>> round(smooth_calibration_error(logits, torch.tensor([1, 0, 0, 1])), 3)
        0.25
    """
    if width is not None and not 0.0 < width < math.inf:
        raise ValueError(f"width must be a number above 0; got {width!r}. Leave it out for the usual one.")
    return smooth_error_of(tallied(logits, labels), width)


def smooth_error_of(samples: Tally, width: float | None = None) -> float:
    """See :func:`smooth_calibration_error`."""
    waves = _waves(samples)
    if width is not None:
        return _error(waves, width)
    # The error falls as the width grows, so the two are equal at one width.
    low, high = 0.0, 1.0
    for _ in range(_MAX_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _error(waves, middle) > middle else (low, middle)
    return _error(waves, high)


def _waves(samples: Tally) -> Tensor:
    """Return the cosine transform of the gaps on the grid: of a reflected kernel, cosines are the eigenfunctions."""
    gaps = samples.count * (samples.confidence - samples.is_correct) / samples.total
    place = samples.confidence.clamp(0.0, 1.0) * _NUM_INTERVALS
    left = place.long().clamp(max=_NUM_INTERVALS - 1)
    share = place - left
    grid = gaps.new_zeros(_NUM_INTERVALS + 1)
    grid.index_add_(0, left, gaps * (1.0 - share)).index_add_(0, left + 1, gaps * share)
    # The ends stand for half an interval on each side of the mirror.
    grid[0] *= 2.0
    grid[-1] *= 2.0
    return torch.fft.rfft(torch.cat([grid, grid[1:-1].flip(0)])).real


def _error(waves: Tensor, width: float) -> float:
    """Return the mean absolute value of the gaps after smoothing."""
    decay = torch.exp(-0.5 * (math.pi * width * torch.arange(len(waves), dtype=torch.float64)) ** 2)
    smoothed = torch.fft.irfft((waves * decay).to(torch.complex128), n=2 * _NUM_INTERVALS)[: _NUM_INTERVALS + 1].abs()
    # Trapezoids: the ends are half as wide.
    return float(smoothed.sum() - (smoothed[0] + smoothed[-1]) / 2)
