"""Known factors within classes: how much of them features still hold.

A ridge regression from features to a factor, its strength chosen on validation data, then fitted on both; what counts
is the share of the factor's variance that it explains on test data. A factor that goes round in a circle (``hue``) is
regressed as a point on a circle.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

STRENGTHS = tuple(10 ** (step / 2) for step in range(-12, 11))
"""Of the penalty, in units of the mean variance of a feature times the number of samples."""

CIRCULAR = {"hue": 1.0}
"""Factors that end where they begin, and after how much."""


def factor_r_squared(
    name: str, train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> float:
    """Share of a factor's variance that a linear map of the features explains on ``test``; below 0 if it misleads.

    Each part is features ``(N, D)`` and the factor ``(N,)``; the strength of the penalty is chosen on ``val``.

    Example:
        >>> features = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> parts = [(part, part[:, 0] - 2 * part[:, 1]) for part in features.split(100)]
        >>> round(factor_r_squared("x", *parts), 3)
        1.0
    """
    rows = [(features.double(), _points(name, factor)) for features, factor in (train, val, test)]
    fits = _ridge_path(*rows[0])
    scores = [_explained(fit, *rows[1]) for fit in fits]
    best = max(range(len(scores)), key=lambda place: scores[place])
    both = [torch.cat(pair) for pair in zip(rows[0], rows[1], strict=True)]
    return _explained(_ridge_path(both[0], both[1], (STRENGTHS[best],))[0], *rows[2])


def _points(name: str, factor: Tensor) -> Tensor:
    values = factor.double()
    if name not in CIRCULAR:
        return values.unsqueeze(1)
    angle = 2 * math.pi * values / CIRCULAR[name]
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def _ridge_path(
    features: Tensor, targets: Tensor, strengths: tuple[float, ...] = STRENGTHS
) -> list[tuple[Tensor, Tensor]]:
    """Weight and offset for each strength, from one decomposition."""
    centre, level = features.mean(dim=0), targets.mean(dim=0)
    centred = features - centre
    variances, axes = torch.linalg.eigh(centred.T @ centred)
    rotated = axes.T @ (centred.T @ (targets - level))
    unit = float(variances.clamp(min=0).mean()) or 1.0
    fits = []
    for strength in strengths:
        weight = axes @ (rotated / (variances.clamp(min=0) + strength * unit).unsqueeze(1))
        fits.append((weight, level - centre @ weight))
    return fits


def _explained(fit: tuple[Tensor, Tensor], features: Tensor, targets: Tensor) -> float:
    weight, offset = fit
    rest = (targets - features @ weight - offset).square().sum()
    total = (targets - targets.mean(dim=0)).square().sum()
    return float(1 - rest / total)
