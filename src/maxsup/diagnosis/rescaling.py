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

from maxsup.metrics import aurc
from maxsup.metrics.temperature import fit_temperature as fit_temperature

POWERS = tuple(range(1, 11))

MIN_ERRORS = 10
"""With fewer wrong predictions no norm is chosen, because one of ten candidates always wins by chance."""


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
