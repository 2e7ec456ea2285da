"""Accuracy, confidence and confusions of each class, with intervals of the shares."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.metrics.predictions import Predictions, check_count, check_samples, predictions_of

LEVEL = 0.95


class ClassScores(NamedTuple):
    """Columns of one entry per class, ``nan`` where a class has no sample (``confidence_wrong``: no error).

    Attributes:
        size: Samples of the class.
        accuracy: Share of them that are predicted right.
        low: Lower bound of the accuracy.
        high: Upper bound of the accuracy.
        confidence: Mean top probability of the samples of the class.
        confidence_wrong: The same, of those predicted wrong.
    """

    size: Tensor
    accuracy: Tensor
    low: Tensor
    high: Tensor
    confidence: Tensor
    confidence_wrong: Tensor

    @property
    def worst(self) -> int:
        """The class of lowest accuracy; of several, the one with most samples, then the first."""
        lowest = self.accuracy == self.accuracy[self.size > 0].min()
        return int(self.size.where(lowest, -1).argmax())


class ConfusionPair(NamedTuple):
    """How often samples of one class are predicted as another.

    ``share`` is ``num_confused / size``, with its bounds ``low`` and ``high``.
    """

    label: int
    predicted: int
    num_confused: int
    size: int
    share: float
    low: float
    high: float


def class_scores(logits: Tensor, labels: Tensor, *, level: float = LEVEL, is_simultaneous: bool = False) -> ClassScores:
    """Return accuracy and mean confidence of each class, with the Wilson interval of the accuracy.

    Each interval covers its own class at ``level``. With ``is_simultaneous`` all of them cover at once (Bonferroni), as
    needed for a statement about the worst class.

    Example:
        >>> scores = class_scores(torch.eye(3)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 2]))
        >>> scores.accuracy, scores.worst
        (tensor([1., 1., 0.], dtype=torch.float64), 2)
    """
    predictions = predictions_of(logits, labels)
    check_samples("logits", logits)
    sums = class_sums(predictions, logits.shape[1])
    return class_scores_of(sums, level=level, is_simultaneous=is_simultaneous)


def confusion_pairs(
    logits: Tensor, labels: Tensor, num_pairs: int = 10, *, level: float = LEVEL, is_simultaneous: bool = False
) -> list[ConfusionPair]:
    """Return pairs of a true class and the wrong class predicted for it, with their share of the true class.

    Pairs are sorted by the lower bound of their share, so one error in a class of two samples does not come first.
    With ``is_simultaneous`` the intervals of all ``K (K - 1)`` pairs cover at once (Bonferroni).

    Example:
        >>> pairs = confusion_pairs(torch.eye(3)[[0, 1, 1, 1]], torch.tensor([0, 0, 0, 1]))
        >>> [(pair.label, pair.predicted, pair.num_confused, pair.size) for pair in pairs]
        [(0, 1, 2, 3)]
    """
    predictions = predictions_of(logits, labels)
    check_samples("logits", logits)
    num_classes = logits.shape[1]
    return confusion_pairs_of(predictions, num_classes, num_pairs, level=level, is_simultaneous=is_simultaneous)


def worst_class_accuracy(logits: Tensor, labels: Tensor) -> float:
    """Return the accuracy of the class of lowest accuracy, among the classes that occur.

    Example:
        >>> worst_class_accuracy(torch.eye(3)[[0, 0, 1, 1]], torch.tensor([0, 0, 1, 2]))
        0.0
    """
    scores = class_scores(logits, labels)
    return float(scores.accuracy[scores.worst])


def top_confusion(logits: Tensor, labels: Tensor) -> float:
    """Return the share of the first of :func:`confusion_pairs`, 0 without an error.

    Example:
        >>> top_confusion(torch.eye(3)[[0, 1, 1, 1]], torch.tensor([0, 0, 0, 0]))
        0.75
    """
    pairs = confusion_pairs(logits, labels, 1)
    return pairs[0].share if pairs else 0.0


def wilson_interval(count: Tensor, total: Tensor, *, level: float = LEVEL) -> tuple[Tensor, Tensor]:
    """Return the Wilson score interval of ``count`` out of ``total``, ``nan`` where ``total`` is 0.

    Example:
        >>> low, high = wilson_interval(torch.tensor(2.0), torch.tensor(10.0))
        >>> round(float(low), 4), round(float(high), 4)
        (0.0567, 0.5098)
    """
    if isinstance(level, bool) or not isinstance(level, float) or not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}. 0.95 is usual.")
    count, total = count.double(), total.double()
    squared = float(torch.special.ndtri(torch.tensor((1.0 + level) / 2, dtype=torch.float64))) ** 2
    share = count / total
    centre = (share + squared / (2 * total)) / (1 + squared / total)
    half = (squared * (share * (1 - share) / total + squared / (4 * total.square()))).sqrt() / (1 + squared / total)
    # Exact at the ends, where centre and half differ only by rounding.
    low, high = (centre - half).masked_fill(count == 0, 0.0), (centre + half).masked_fill(count == total, 1.0)
    return low.where(total > 0, torch.nan), high.where(total > 0, torch.nan)


def class_sums(predictions: Predictions, num_classes: int) -> Tensor:
    """Return, for each class: samples, correct ones, their confidence, and that of the wrong ones, ``(4, K)``."""
    is_correct, confidence = predictions.is_correct.double(), predictions.confidence
    columns = torch.stack([torch.ones_like(confidence), is_correct, confidence, confidence * (1.0 - is_correct)])
    return torch.zeros(4, num_classes, dtype=torch.float64).index_add_(1, predictions.labels, columns)


def class_scores_of(sums: Tensor, *, level: float = LEVEL, is_simultaneous: bool = False) -> ClassScores:
    """Return the scores of the sums of :func:`class_sums`."""
    count, correct, confidence, confidence_wrong = sums
    num_compared = int((count > 0).sum()) if is_simultaneous else 1
    low, high = wilson_interval(correct, count, level=_shared_level(level, num_compared))
    return ClassScores(
        count.long(), correct / count, low, high, confidence / count, confidence_wrong / (count - correct)
    )


def confusion_pairs_of(
    predictions: Predictions,
    num_classes: int,
    num_pairs: int = 10,
    *,
    level: float = LEVEL,
    is_simultaneous: bool = False,
) -> list[ConfusionPair]:
    """See :func:`confusion_pairs`."""
    check_count("num_pairs", num_pairs, usual=10)
    labels, predicted = predictions.labels, predictions.predicted
    is_wrong = predicted != labels
    codes, num_confused = (labels * num_classes + predicted)[is_wrong].unique(return_counts=True)
    size = labels.bincount(minlength=num_classes)
    count = size[codes // num_classes]
    num_compared = int((size > 0).sum()) * (num_classes - 1) if is_simultaneous else 1
    low, high = wilson_interval(num_confused, count, level=_shared_level(level, max(1, num_compared)))
    order = low.sort(descending=True, stable=True).indices[:num_pairs]
    columns = (codes // num_classes, codes % num_classes, num_confused, count, num_confused / count.double(), low, high)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return [ConfusionPair(*row) for row in rows]


def _shared_level(level: float, num_compared: int) -> float:
    """Return the level of one interval of several that are to cover at once."""
    return level if num_compared <= 1 else 1.0 - (1.0 - level) / num_compared
