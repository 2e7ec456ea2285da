"""Repair confidence without training: a temperature for calibration, a logit norm for ranking errors.

Neither changes a prediction.

**Temperature** (Guo et al. 2017): logits are divided by the number that maximises the likelihood.
**Norm** (Xia et al., Cattelan and Silva): confidence is the largest mean-centred logit over their p-norm, with the p
from 1 to 10 that has the smallest AURC. The top probability stays if no p beats it, or if there are too few errors to
tell. Label smoothing enlarges the logits of wrong predictions, and dividing by their norm undoes that.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.metrics import aurc

POWERS = tuple(range(1, 11))

MIN_ERRORS = 10
"""With fewer wrong predictions no norm is chosen, because one of ten candidates always wins by chance."""

_MAX_STEPS = 60
_MAX_RATIO = 400.0
_TOLERANCE = 1e-10


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
    rows = logits.detach().double().cpu()
    rows = rows - rows.max(dim=1, keepdim=True).values
    spread = float(rows.square().mean().sqrt()) or 1.0
    rows = rows / spread
    target = rows.gather(1, labels.cpu().unsqueeze(1)).squeeze(1)

    def derivatives(beta: float) -> tuple[float, float]:
        probs = F.softmax(beta * rows, dim=1)
        mean = (probs * rows).sum(dim=1)
        second = (probs * rows.square()).sum(dim=1) - mean.square()
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


def normalized_confidence(logits: Tensor, power: int) -> Tensor:
    """Return the largest mean-centred logit over their p-norm, a float64 score ``(N,)`` for ranking.

    Example:
        >>> normalized_confidence(torch.tensor([[3.0, 0.0, 0.0], [30.0, 0.0, 0.0]]), power=2)
        tensor([0.8165, 0.8165], dtype=torch.float64)
    """
    centred = logits.detach().double().cpu()
    centred = centred - centred.mean(dim=1, keepdim=True)
    norm = torch.linalg.vector_norm(centred, ord=power, dim=1)
    return centred.max(dim=1).values / norm.where(norm > 0, 1.0)


def fit_norm(logits: Tensor, labels: Tensor) -> int | None:
    """Return the power whose :func:`normalized_confidence` has the smallest AURC.

    Return None if the top probability is as good, or if fewer than ``MIN_ERRORS`` predictions are wrong.
    """
    if int((logits.argmax(dim=1) != labels).sum()) < MIN_ERRORS:
        return None
    best, chosen = aurc(logits, labels), None
    for power in POWERS:
        value = aurc(logits, labels, normalized_confidence(logits, power))
        if value < best:
            best, chosen = value, power
    return chosen
