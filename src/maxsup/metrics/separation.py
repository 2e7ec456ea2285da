r"""Class separation of features by cosine distance (Kornblith et al., 2021).

With the features scaled to unit length and ``m_k`` the mean of class ``k``, the mean over all pairs has a closed form:

.. math::
    within = 1 - \frac{1}{K} \sum_k \|m_k\|^2, \qquad
    total = 1 - \Big\|\frac{1}{K} \sum_k m_k\Big\|^2, \qquad
    R^2 = 1 - within / total

so one pass over the features is enough, instead of ``N^2 D`` multiplications for all pairs. Every class that occurs has
the same weight, whatever its size. A vector of zeros has a cosine of 0 with every vector, itself included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Self

from maxsup.metrics.predictions import check_matrix, check_samples, checked_labels, not_finite, rows_at_a_time

# A total below this is rounding error: all vectors point the same way.
MIN_TOTAL = 1e-12


class ClassSeparation(NamedTuple):
    """Mean cosine distance between samples of one class, between all samples, and ``1 - within / total``."""

    within: float
    total: float
    r_squared: float


def class_separation(features: Tensor, labels: Tensor, *, has_self_pairs: bool = True) -> ClassSeparation:
    """Return the mean cosine distance within classes and between all samples of features ``(N, D)``.

    With ``has_self_pairs`` a sample is also paired with itself, as in the published definition. Without, ``within`` of
    a class of ``n`` samples is larger by a factor of ``n / (n - 1)``, and a class of one sample has none. ``r_squared``
    is ``nan`` if all vectors point the same way.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [-3.0, 0.0]])
        >>> class_separation(features, torch.tensor([0, 0, 1, 1]))
        ClassSeparation(within=0.25, total=0.875, r_squared=0.7142857142857143)
    """
    sums = SeparationSums()
    sums.update(features, labels)
    check_samples("features", features)
    return sums.compute(has_self_pairs=has_self_pairs)


def unit_blocks(features: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of rows in float64, scaled to unit length (0 stays 0), each with its slice."""
    num_rows = rows_at_a_time(features)
    for start in range(0, len(features), num_rows):
        block = features[start : start + num_rows].detach().cpu().double()
        length = torch.linalg.vector_norm(block, dim=1, keepdim=True)
        yield slice(start, start + len(block)), block / length.where(length > 0, 1.0)


class SeparationSums:
    """Accumulate :func:`class_separation` over batches.

    Example:
        >>> sums, others = SeparationSums(), SeparationSums()
        >>> sums.update(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 1]))
        >>> others.update(torch.tensor([[0.0, 2.0], [-3.0, 0.0]]), torch.tensor([0, 1]))
        >>> sums.merge(others).compute().within
        0.25
    """

    def __init__(self) -> None:
        # For each class: the sum of its unit vectors, (classes, D), its samples and its nonzero samples.
        self.vectors = torch.zeros(0, 0, dtype=torch.float64)
        self._counts = torch.zeros(2, 0, dtype=torch.float64)

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch of features ``(B, D)`` and labels ``(B,)``."""
        check_matrix("features", features, "(samples, dimensions)")
        labels = checked_labels(labels, len(features))
        if len(labels) == 0:
            return
        self._widen(int(labels.max()) + 1, features.shape[1])
        # Sort by class, so that the rows of a class add up in one product.
        labels, order = labels.sort(stable=True)
        width, features = features.shape[1], features.detach()
        num_rows = min(len(labels), rows_at_a_time(features))
        gathered, block = features.new_empty(num_rows, width), self.vectors.new_empty(num_rows, width)
        lengths = []
        for rows, part in zip(order.split(num_rows), labels.split(num_rows), strict=True):
            torch.index_select(features, 0, rows.to(features.device), out=gathered[: len(rows)])
            lengths.append(self._add(block[: len(rows)].copy_(gathered[: len(rows)]), part, rows))
        size = torch.ones_like(labels, dtype=torch.float64)
        self._counts.index_add_(1, labels, torch.stack([size, (torch.cat(lengths) > 0).double()]))

    def merge(self, other: Self) -> Self:
        """Add the counts of another instance."""
        num_classes, width = other.vectors.shape
        if num_classes:
            self._widen(num_classes, width)
            self.vectors[:num_classes] += other.vectors
            self._counts[:, :num_classes] += other._counts
        return self

    def compute(self, *, has_self_pairs: bool = True) -> ClassSeparation:
        """Return the class separation, with ``nan`` where there is no pair to average over."""
        size, num_nonzero = self._counts
        num_classes = int((size > 0).sum())
        if num_classes == 0:
            return ClassSeparation(math.nan, math.nan, math.nan)
        # Squared length of each class mean, and of the sum of all means, without copying the sums.
        own = (torch.linalg.vector_norm(self.vectors, dim=1) / size.clamp(min=1.0)).square_()
        everything = float(torch.mv(self.vectors.T, 1.0 / size.clamp(min=1.0)).square_().sum())
        if has_self_pairs:
            num_own, own_sum = num_classes, float(own.sum())
        else:
            is_paired = size > 1
            pairs = (own * size.square() - num_nonzero)[is_paired] / (size * (size - 1.0))[is_paired]
            num_own, own_sum = len(pairs), float(pairs.sum())
        # Ordered pairs of different classes, plus the within-class pairs counted above.
        num_pairs = num_classes * (num_classes - 1) + num_own
        cosines = everything - float(own.sum()) + own_sum
        within = max(0.0, 1.0 - own_sum / num_own) if num_own else math.nan
        total = max(0.0, 1.0 - cosines / num_pairs) if num_pairs else math.nan
        return ClassSeparation(within, total, 1.0 - within / total if total > MIN_TOTAL else math.nan)

    def _add(self, block: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
        """Add rows sorted by label, and return their lengths."""
        length = torch.linalg.vector_norm(block, dim=1)
        if not math.isfinite(float(length.sum())):
            raise not_finite("features", int(rows[(~length.isfinite()).nonzero()[0]]))
        # The reciprocal is huge for a row of zeros, which stays 0.
        scale = length.clamp(min=torch.finfo(torch.float64).tiny).reciprocal_()
        classes, size = (found.tolist() for found in labels.unique_consecutive(return_counts=True))
        for number, members, scales in zip(classes, block.split(size), scale.split(size), strict=True):
            self.vectors[number].addmv_(members.T, scales)
        return length

    def _widen(self, num_classes: int, width: int) -> None:
        before = self.vectors
        if before.numel() and before.shape[1] != width:
            raise ValueError(f"features must keep their width of {before.shape[1]}; got {width}. Count models apart.")
        num_new = num_classes - len(before)
        if num_new > 0:
            self.vectors = F.pad(before, (0, width - before.shape[1], 0, num_new))
            self._counts = F.pad(self._counts, (0, num_new))
