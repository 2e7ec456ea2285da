"""Calibration before and after a temperature, and what of a loss the temperature removes.

Whoever deploys a network can divide its logits by a temperature, fitted on validation data. The loss that remains on
other data is the refinement part, which comes from predictions that do not separate the classes. The loss that went
away is the calibration part. (Berta, Holzmüller, Jordan and Bach 2025 define both by the best recalibration; a
temperature is one of its forms, so the refinement part is an upper bound of theirs.)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.metrics.calibration import calibration_gaps, error_of
from maxsup.metrics.predictions import (
    BLOCK_ELEMENTS,
    Predictions,
    check_samples,
    concatenated,
    labels_of_logits,
    predictions_of,
    row_blocks,
    tally,
)

_MAX_STEPS = 60
_MAX_RATIO = 400.0
_TOLERANCE = 1e-10


class Recalibration(NamedTuple):
    """Losses and ECE before and after a temperature.

    The loss after the temperature is its refinement part. ``nll_calibration`` and ``brier_calibration`` are the
    calibration parts, before minus after; negative if the temperature did not suit the judged samples.
    """

    temperature: float
    nll_before: float
    nll_after: float
    nll_calibration: float
    brier_before: float
    brier_after: float
    brier_calibration: float
    ece_before: float
    ece_after: float


def recalibration(logits: Tensor, labels: Tensor, *, fitted_on: tuple[Tensor, Tensor]) -> Recalibration:
    """Return NLL, Brier score and ECE before and after the temperature that suits ``fitted_on`` best.

    Args:
        logits: Judged logits, ``(N, K)``.
        labels: Judged labels, ``(N,)``.
        fitted_on: Logits and labels of other samples, usually the validation split.

    Example:
        >>> logits, labels = torch.tensor([[5.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
        >>> found = recalibration(logits, labels, fitted_on=(logits, labels))
        >>> round(found.nll_before, 3), round(found.nll_after, 3), round(found.nll_calibration, 3)
        (1.257, 0.562, 0.694)
    """
    temperature = fit_temperature(*fitted_on)
    return recalibration_of(predictions_of(logits, labels), predictions_at(logits, labels, temperature), temperature)


def recalibration_of(before: Predictions, after: Predictions, temperature: float) -> Recalibration:
    """Return the losses of the same samples before and after a temperature."""
    check_samples("logits", before.labels)
    (nll, brier, ece), (cool_nll, cool_brier, cool_ece) = (
        (float(each.nll.mean()), float(each.brier.mean()), error_of(calibration_gaps(tally(each))))
        for each in (before, after)
    )
    return Recalibration(
        temperature, nll, cool_nll, nll - cool_nll, brier, cool_brier, brier - cool_brier, ece, cool_ece
    )


def predictions_at(logits: Tensor, labels: Tensor, temperature: float) -> Predictions:
    """Return the predictions of ``logits / temperature``, divided in float64 and block by block."""
    labels = labels_of_logits(logits, labels)
    blocks = row_blocks(logits, labels, BLOCK_ELEMENTS // logits.shape[1])
    return concatenated([predictions_of(block.double() / temperature, part) for _, block, part in blocks])


@torch.no_grad()
def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """Return the temperature that maximises the likelihood of ``softmax(logits / temperature)``.

    ``logits`` are ``(N, K)`` and ``labels`` ``(N,)``. The negative log-likelihood is convex in the inverse temperature,
    and a bracketed Newton method finds its minimum to ten digits. If there is none, because all predictions are correct
    or worse than chance, the result is a bound: the spread of the logits divided or multiplied by 400.

    Example:
        >>> logits = torch.tensor([[1.0, 0.0]] * 4)
        >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 4)  # 1 / log 3
        0.9102
    """
    labels = labels_of_logits(logits, labels)
    rows = logits.detach().double().cpu()
    rows = rows - rows.max(dim=1, keepdim=True).values
    is_finite = rows.isfinite()
    spread = float(rows[is_finite].square().mean().sqrt()) or 1.0
    rows = rows / spread
    # A masked class has probability 0 and no part in a mean, but 0 * inf is nan.
    finite = rows if is_finite.all() else rows.masked_fill(~is_finite, 0.0)
    target = rows.gather(1, labels.unsqueeze(1)).squeeze(1)

    def derivatives(beta: float) -> tuple[float, float]:
        probs = F.softmax(beta * rows, dim=1)
        mean = (probs * finite).sum(dim=1)
        second = (probs * finite.square()).sum(dim=1) - mean.square()
        return float((mean - target).mean()), float(second.mean())

    low, high = 1 / _MAX_RATIO, _MAX_RATIO
    if derivatives(high)[0] <= 0:
        return spread / high
    if derivatives(low)[0] >= 0:
        return spread / low
    beta = 1.0
    for _ in range(_MAX_STEPS):
        slope, curvature = derivatives(beta)
        low, high = (low, beta) if slope > 0 else (beta, high)
        step = beta - slope / curvature if curvature > 0 else low
        after = step if low < step < high else (low * high) ** 0.5
        if abs(after - beta) <= _TOLERANCE * beta:
            break
        beta = after
    return spread / beta
