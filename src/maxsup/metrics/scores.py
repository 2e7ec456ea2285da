"""Accuracy, negative log-likelihood, Brier score, and the confidence of correct and wrong predictions."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from maxsup.metrics.predictions import Tally, check_count, tallied


class Confidence(NamedTuple):
    """Mean top probability of correct and of wrong predictions, ``nan`` if there are none."""

    correct: float
    wrong: float


def accuracy(logits: Tensor, labels: Tensor, k: int = 1) -> float:
    """Return the share of rows of ``logits (N, K)`` with the true class among the ``k`` largest.

    Among equal logits the lower class index comes first.

    Example:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
        >>> accuracy(logits, torch.tensor([0, 1])), accuracy(logits, torch.tensor([0, 1]), k=2)
        (0.5, 1.0)
    """
    return accuracy_of(tallied(logits, labels), k)


def negative_log_likelihood(logits: Tensor, labels: Tensor) -> float:
    """Return the mean of ``-log q_true``, which is plain cross-entropy whatever the training loss was.

    Example:
        >>> round(negative_log_likelihood(torch.tensor([[1.0, 1.0, 1.0, 1.0]]), torch.tensor([2])), 4)
        1.3863
    """
    samples = tallied(logits, labels)
    return samples.mean(samples.nll)


def brier_score(logits: Tensor, labels: Tensor) -> float:
    """Return the mean squared distance between probabilities and one-hot labels, summed over classes (0 to 2).

    Example:
        >>> brier_score(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        0.5
    """
    samples = tallied(logits, labels)
    return samples.mean(samples.brier)


def mean_confidence(logits: Tensor, labels: Tensor) -> Confidence:
    """Return the mean top probability of correct predictions and of wrong ones.

    Example:
        >>> mean_confidence(torch.tensor([[0.0, 0.0], [100.0, 0.0]]), torch.tensor([0, 1]))
        Confidence(correct=0.5, wrong=1.0)
    """
    return confidence_of(tallied(logits, labels))


def accuracy_of(samples: Tally, k: int = 1) -> float:
    """See :func:`accuracy`."""
    check_count("k", k, usual=1)
    return samples.mean((samples.rank < k).double())


def confidence_of(samples: Tally) -> Confidence:
    """See :func:`mean_confidence`."""
    right = samples.count * samples.is_correct
    wrong = samples.count - right
    return Confidence(*(ratio(float(part @ samples.confidence), float(part.sum())) for part in (right, wrong)))


def ratio(value: float, count: float) -> float:
    """Return ``value / count``, or ``nan`` if the count is 0."""
    return value / count if count else math.nan
