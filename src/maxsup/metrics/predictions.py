"""Reduce predictions to a few numbers per sample, from which every metric is computed without the logits.

Logits are read once, in float64 and in blocks that fit the cache. A logit of ``-inf`` masks a class; ``nan`` and
``inf`` raise. A tie for the top logit goes to the first index, here and in every loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

# A block in float64 and its exponentials should stay in the cache.
BLOCK_ELEMENTS = 1 << 16
# Likewise for a block of features.
FEATURE_ELEMENTS = 1 << 19
# Relative error of a sum of exponentials whose order of addition is unknown.
ROUNDING = 16 * torch.finfo(torch.float64).eps


class Predictions(NamedTuple):
    """One entry per sample: label, predicted class, rank of the true class, NLL, Brier score, top probability."""

    labels: Tensor
    predicted: Tensor
    rank: Tensor
    nll: Tensor
    brier: Tensor
    confidence: Tensor

    @property
    def is_correct(self) -> Tensor:
        """True where the top class is the true class, ``(N,)``."""
        return self.predicted == self.labels

    @property
    def num_wrong(self) -> int:
        """Number of wrong predictions."""
        return int((~self.is_correct).sum())


@dataclass(frozen=True)
class Tally:
    """Predictions sorted by descending confidence, with the number of times each one counts.

    ``levels`` are the distinct confidences and ``group`` the level of each sample. Samples of one level are tied, and
    no metric may depend on their order.
    """

    count: Tensor
    is_correct: Tensor
    rank: Tensor
    nll: Tensor
    brier: Tensor
    confidence: Tensor
    group: Tensor
    levels: Tensor

    @property
    def total(self) -> float:
        """Number of samples, with repeats."""
        return float(self.count.sum())

    @cached_property
    def accepted(self) -> tuple[Tensor, Tensor]:
        """The samples and the wrong samples at each level."""
        return self.by_level(self.count), self.by_level(self.count * (1.0 - self.is_correct))

    def mean(self, column: Tensor) -> float:
        """Return the mean of a column."""
        return float(self.count @ column) / self.total

    def by_level(self, values: Tensor) -> Tensor:
        """Return the sum of ``values`` over each level."""
        if len(self.levels) == len(values):
            return values
        return values.new_zeros(len(self.levels)).index_add_(0, self.group, values)


def tally(predictions: Predictions, confidence: Tensor | None = None) -> Tally:
    """Return a tally of predictions, sorted by their top probability or by the given confidence.

    Top probabilities that differ only by rounding are tied, because a permutation of the classes changes the last
    digits of a sum. Given confidences are compared exactly.
    """
    if confidence is None:
        confidence, tolerance = predictions.confidence, ROUNDING
    else:
        confidence, tolerance = checked_confidence(confidence, len(predictions.labels)), 0.0
    confidence, order = confidence.sort(descending=True, stable=True)
    is_new = torch.ones_like(confidence, dtype=torch.bool)
    is_new[1:] = confidence[1:] < confidence[:-1] * (1.0 - tolerance)
    group, levels = is_new.cumsum(0) - 1, confidence[is_new]
    is_correct = predictions.is_correct[order].double()
    rank, nll, brier = (column[order] for column in (predictions.rank, predictions.nll, predictions.brier))
    return Tally(torch.ones_like(confidence), is_correct, rank, nll, brier, confidence, group, levels)


def tallied(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> Tally:
    """Return the tally of a whole data set. Raise if it is empty."""
    predictions = predictions_of(logits, labels)
    check_samples("logits", logits)
    return tally(predictions, confidence)


@torch.no_grad()
def predictions_of(logits: Tensor, labels: Tensor) -> Predictions:
    """Reduce the logits of a batch to one entry per sample in each column.

    Example:
        >>> predictions_of(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])).rank
        tensor([0, 1])
    """
    labels = labels_of_logits(logits, labels)
    blocks = row_blocks(logits, labels, BLOCK_ELEMENTS // logits.shape[1])
    return concatenated([_columns(block, part, start) for start, block, part in blocks])


def concatenated(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions of several batches."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        index, value = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.float64)
        return Predictions(index, index, index, value, value, value)
    return Predictions(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def row_blocks(logits: Tensor, labels: Tensor, num_rows: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield blocks of rows on the CPU: the index of the first row, logits and labels."""
    num_rows = max(1, num_rows)
    for start in range(0, len(logits), num_rows):
        yield start, logits[start : start + num_rows].detach().cpu(), labels[start : start + num_rows]


def rows_at_a_time(features: Tensor) -> int:
    """Return how many rows of features to convert to float64 at a time."""
    return max(1, FEATURE_ELEMENTS // max(1, features.shape[1]))


def exponentials(block: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Return ``exp(z - max z)`` of some rows in float64, and the index of each maximum."""
    top, position = block.max(dim=1)
    if not top.isfinite().all():
        row = int((~top.isfinite()).nonzero()[0])
        raise ValueError(
            f"logits must be finite numbers, or -inf for a class that cannot be chosen; "
            f"got {_first_bad(block[row])} in row {start + row}. Check the model's output for that sample."
        )
    return block.double().sub(top.double().unsqueeze(1)).exp_(), position


def _columns(block: Tensor, labels: Tensor, start: int) -> Predictions:
    chosen = labels.unsqueeze(1)
    powers, predicted = exponentials(block, start)
    total = powers.sum(dim=1)
    target = block.gather(1, chosen)
    gap = (target.double() - block.gather(1, predicted.unsqueeze(1)).double()).squeeze(1)
    true_probability = powers.gather(1, chosen).squeeze(1) / total
    # Sum of squared probabilities, with (1 - p)^2 instead of p^2 for the true class.
    brier = powers.square().sum(dim=1).div_(total.square()).sub_(2 * true_probability).add_(1.0)
    rank, nll = _ranks(block, target, chosen), total.log().sub_(gap)
    return Predictions(labels, predicted, rank, nll, brier.clamp_(min=0.0), 1.0 / total)


def _ranks(block: Tensor, target: Tensor, chosen: Tensor) -> Tensor:
    """Count the classes ranked before the true one. Among equal logits the lower index comes first."""
    rank = (block > target).sum(dim=1)
    tied = ((block >= target).sum(dim=1) > rank + 1).nonzero().squeeze(1)
    if len(tied):
        is_before = torch.arange(block.shape[1]) < chosen[tied]
        rank[tied] += ((block[tied] == target[tied]) & is_before).sum(dim=1)
    return rank


def labels_of_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the labels as int64 on the CPU. Raise if shapes or labels do not fit. Logits are checked when read."""
    check_matrix("logits", logits, "(samples, classes)")
    labels = checked_labels(labels, len(logits))
    num_classes = logits.shape[1]
    if num_classes == 0:
        raise ValueError(f"logits must have at least one class; got shape {tuple(logits.shape)}. Add a column.")
    if len(labels) and int(labels.max()) >= num_classes:
        row = int((labels >= num_classes).nonzero()[0])
        raise ValueError(
            f"labels must be classes of the logits, from 0 to {num_classes - 1}; got {int(labels[row])} in row {row}. "
            "Check the label mapping or the width of the logits."
        )
    return labels


def check_samples(name: str, matrix: Tensor) -> None:
    """Raise unless there is at least one sample."""
    if len(matrix) == 0:
        raise ValueError(f"{name} must hold at least one sample; got shape {tuple(matrix.shape)}. Add rows.")


def check_matrix(name: str, values: Tensor, axes: str) -> None:
    """Raise unless ``values`` is a floating-point matrix."""
    _check_tensor(name, values)
    if values.ndim != 2:
        raise ValueError(f"{name} must have shape {axes}; got shape {tuple(values.shape)}. Reshape to two axes.")
    if not values.is_floating_point():
        raise ValueError(f"{name} must be floating-point numbers; got {values.dtype}. Use {name}.float() if they are.")


def labels_of_features(name: str, features: Tensor, labels: Tensor) -> Tensor:
    """Return the labels as int64 on the CPU. Raise unless there is one for each row of features, and at least one."""
    check_matrix(name, features, "(samples, dimensions)")
    labels = checked_labels(labels, len(features))
    check_samples(name, features)
    return labels


def not_finite(name: str, row: int) -> ValueError:
    """Return the error for a row of features that is not finite."""
    return ValueError(f"{name} must be finite; got nan or inf in row {row}. Check the model's output for it.")


def class_indices(name: str, values: Tensor) -> Tensor:
    """Return the values as int64, because products and comparisons overflow in narrower types."""
    _check_tensor(name, values)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"{name} must be class indices; got {values.dtype}. Use {name}.long() if they are.")
    return values.detach().long()


def checked_labels(labels: Tensor, num_samples: int) -> Tensor:
    """Return the labels as int64 on the CPU. Raise unless there is one for each of ``num_samples``."""
    labels = class_indices("labels", labels)
    if labels.shape != (num_samples,):
        raise ValueError(
            f"labels must have one entry per sample, shape ({num_samples},); got shape {tuple(labels.shape)}. "
            "Give the index of the true class of each row."
        )
    labels = labels.cpu()
    if num_samples and int(labels.min()) < 0:
        row = int((labels < 0).nonzero()[0])
        raise ValueError(
            f"labels must be class indices of at least 0; got {int(labels[row])} in row {row}. Leave such samples out."
        )
    return labels


def checked_confidence(confidence: Tensor, num_samples: int) -> Tensor:
    """Return the confidence of each sample in float64 on the CPU. Raise if its shape does not fit or one is nan."""
    if not isinstance(confidence, Tensor) or confidence.shape != (num_samples,) or not confidence.is_floating_point():
        got = f"{confidence.dtype} of shape {tuple(confidence.shape)}" if isinstance(confidence, Tensor) else confidence
        raise ValueError(
            f"confidence must be one floating-point number per sample, shape ({num_samples},); got {got!r}. "
            "Higher means more certain."
        )
    if confidence.isnan().any():
        raise ValueError("confidence must be numbers that can be ordered; got nan. Leave those samples out.")
    return confidence.detach().cpu().double()


def check_count(name: str, value: int, usual: int, least: int = 1) -> None:
    """Raise unless ``value`` is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}. {usual} is usual.")


def _check_tensor(name: str, values: Tensor) -> None:
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} must be a tensor; got {type(values).__name__}. Use torch.as_tensor({name}).")


def _first_bad(row: Tensor) -> float:
    bad = row[row.isnan() | (row == torch.inf)]
    return float(bad[0]) if len(bad) else -torch.inf
