"""Conformal prediction sets: how many classes must be named so that the true one is among them in 90 % of cases?

A threshold on a score is chosen on calibration samples, and the set of a sample holds all classes below it. With
``p`` sorted from the top:

- LAC (Sadinle et al. 2019): the score is ``1 - p_y``; the smallest sets on average, often too small for hard samples.
- APS (Romano et al. 2020): the sum of all probabilities from the top down to the class, inclusive. Without its random
  part, so sets are a little larger and never change.
- RAPS (Angelopoulos et al. 2021): APS plus ``0.01`` for every class beyond the fifth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.metrics.predictions import BLOCK_ELEMENTS, check_samples, exponentials, labels_of_logits, row_blocks

PENALTY, FREE_CLASSES = 0.01, 5


class PredictionSets(NamedTuple):
    """Size and coverage of the prediction sets of judged samples.

    Attributes:
        threshold: Largest score of a class in a set.
        size: Mean number of classes in a set.
        coverage: Share of samples whose set holds the true class.
        class_coverage: The same for each class, ``(K,)``; ``nan`` for a class without samples.
        class_size: Mean size of the sets of the samples of each class, ``(K,)``.
    """

    threshold: float
    size: float
    coverage: float
    class_coverage: Tensor
    class_size: Tensor


@torch.no_grad()
def prediction_sets(
    logits: Tensor, labels: Tensor, *, fitted_on: tuple[Tensor, Tensor], method: str = "lac", level: float = 0.9
) -> PredictionSets:
    """Return size and coverage of conformal sets that are to hold the true class with probability ``level``.

    Args:
        logits: Judged logits, ``(N, K)``.
        labels: Judged labels, ``(N,)``.
        fitted_on: Logits and labels of the samples that choose the threshold.
        method: ``lac``, ``aps`` or ``raps``.
        level: Wanted coverage.

    Raises:
        ValueError: If there are too few samples in ``fitted_on`` for the level.

    Example:
        >>> logits, labels = torch.eye(4).repeat(10, 1) * 5, torch.arange(40) % 4
        >>> found = prediction_sets(logits, labels, fitted_on=(logits, labels))
        >>> found.size, found.coverage
        (1.0, 1.0)
    """
    if method not in _METHODS:
        raise ValueError(f"method must be lac, aps or raps; got {method!r}. lac has the smallest sets.")
    if isinstance(level, bool) or not isinstance(level, float) or not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}. 0.9 is usual.")
    check_samples("logits", logits)
    own = torch.cat([scores.gather(1, part.unsqueeze(1)).squeeze(1) for scores, part in _scored(*fitted_on, method)])
    rank = math.ceil((len(own) + 1) * level - 1e-9)
    if rank > len(own):
        raise ValueError(
            f"fitted_on must be at least {least_samples(level)} samples for sets at {level:g}; got {len(own)}. "
            "Give more, or a lower level."
        )
    threshold = float(own.sort().values[rank - 1])
    sizes, hits = [], []
    for scores, part in _scored(logits, labels, method):
        # Rounding must not drop a class whose score is the threshold.
        chosen = scores <= threshold + 1e-12
        sizes.append(chosen.sum(dim=1).double())
        hits.append(chosen.gather(1, part.unsqueeze(1)).squeeze(1).double())
    size, hit, labels = torch.cat(sizes), torch.cat(hits), labels_of_logits(logits, labels)
    columns = torch.stack([torch.ones_like(size), hit, size])
    count, covered, named = columns.new_zeros(3, logits.shape[1]).index_add_(1, labels, columns)
    return PredictionSets(threshold, float(size.mean()), float(hit.mean()), covered / count, named / count)


def least_samples(level: float) -> int:
    """Return the fewest samples that can choose a threshold.

    Example:
        >>> least_samples(0.9), least_samples(0.95)
        (9, 19)
    """
    return math.ceil(level / (1.0 - level) - 1e-9)


def _scored(logits: Tensor, labels: Tensor, method: str) -> list[tuple[Tensor, Tensor]]:
    labels = labels_of_logits(logits, labels)
    found = []
    for start, block, part in row_blocks(logits, labels, BLOCK_ELEMENTS // logits.shape[1]):
        probs, _ = exponentials(block, start)
        found.append((_METHODS[method](probs / probs.sum(dim=1, keepdim=True)), part))
    return found


def _lac(probs: Tensor) -> Tensor:
    return 1.0 - probs


def _aps(probs: Tensor) -> Tensor:
    ordered, classes = probs.sort(dim=1, descending=True, stable=True)
    return torch.empty_like(probs).scatter_(1, classes, ordered.cumsum(dim=1))


def _raps(probs: Tensor) -> Tensor:
    ordered, classes = probs.sort(dim=1, descending=True, stable=True)
    place = torch.arange(1, probs.shape[1] + 1, dtype=probs.dtype)
    scores = ordered.cumsum(dim=1) + PENALTY * (place - FREE_CLASSES).clamp(min=0)
    return torch.empty_like(probs).scatter_(1, classes, scores)


_METHODS: dict[str, Callable[[Tensor], Tensor]] = {"lac": _lac, "aps": _aps, "raps": _raps}
METHODS = tuple(_METHODS)
