"""How many directions features fill: effective rank, participation ratio and RankMe, of all samples and within classes.

With eigenvalues ``l`` of the covariance and their shares ``p = l / sum l``:

- effective rank (Roy and Vetterli 2007): ``exp(-sum p log p)``;
- participation ratio: ``(sum l)^2 / sum l^2``;
- RankMe (Garrido et al. 2023): the effective rank of the singular values of the features themselves, not centred.

Each is between 1 and the number of dimensions. Within classes the mean of its class is subtracted from each feature,
and every sample has the same weight.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from maxsup.metrics.predictions import check_samples, labels_of_features, not_finite, rows_at_a_time

_RANKME_FLOOR = 1e-7  # added to every share, as in its definition
_ROUNDING = 1e-13  # eigenvalues below this share of the largest second moment are rounding


class FeatureRank(NamedTuple):
    """Numbers of dimensions that features fill, ``nan`` where all features agree."""

    effective_rank: float
    effective_rank_within: float
    participation_ratio: float
    participation_ratio_within: float
    rankme: float
    rankme_within: float


def feature_rank(features: Tensor, labels: Tensor) -> FeatureRank:
    """Return the ranks of features ``(N, D)`` with labels ``(N,)``.

    Example:
        >>> corners = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> found = feature_rank(corners, torch.tensor([0, 0, 1, 1]))
        >>> round(found.effective_rank, 3), round(found.participation_ratio_within, 3), round(found.rankme, 3)
        (2.0, 2.0, 2.0)
    """
    sums = SpectrumSums()
    sums.update(features, labels)
    return sums.compute()


class SpectrumSums:
    """Accumulate :func:`feature_rank` over batches: a matrix ``(D, D)`` and a sum for each class.

    Example:
        >>> sums, others = SpectrumSums(), SpectrumSums()
        >>> sums.update(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 0]))
        >>> others.update(torch.tensor([[0.0, 1.0], [0.0, -1.0]]), torch.tensor([1, 1]))
        >>> round(sums.merge(others).compute().participation_ratio, 3)
        2.0
    """

    def __init__(self) -> None:
        self._products = torch.zeros(0, 0, dtype=torch.float64)
        self._vectors = torch.zeros(0, 0, dtype=torch.float64)
        self._sizes = torch.zeros(0, dtype=torch.float64)

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add a batch of features ``(B, D)`` and labels ``(B,)``."""
        labels = labels_of_features("features", features, labels)
        self._widen(int(labels.max()) + 1, features.shape[1])
        num_rows = rows_at_a_time(features)
        for start in range(0, len(features), num_rows):
            block = features[start : start + num_rows].detach().cpu().double()
            if not block.isfinite().all():
                raise not_finite("features", start + int((~block.isfinite().all(dim=1)).nonzero()[0]))
            self._products.addmm_(block.T, block)
            self._vectors.index_add_(0, labels[start : start + num_rows], block)
        self._sizes += labels.bincount(minlength=len(self._sizes))

    def merge(self, other: Self) -> Self:
        """Add the sums of another instance."""
        if len(other._sizes):
            self._widen(len(other._sizes), other._products.shape[1])
            self._products += other._products
            self._vectors[: len(other._vectors)] += other._vectors
            self._sizes[: len(other._sizes)] += other._sizes
        return self

    def compute(self) -> FeatureRank:
        """Return the ranks. Raise before any sample."""
        check_samples("features", self._sizes)
        total = self._sizes.sum()
        second = self._products / total
        mean = self._vectors.sum(dim=0) / total
        # The mean of the outer products of class means, each with the weight of its samples.
        scaled = self._vectors / (self._sizes.clamp(min=1.0) * total).sqrt().unsqueeze(1)
        raw, centred, within = (
            _eigenvalues(matrix, second)
            for matrix in (second, second - torch.outer(mean, mean), second - scaled.T @ scaled)
        )
        return FeatureRank(
            _effective_rank(centred),
            _effective_rank(within),
            _participation_ratio(centred),
            _participation_ratio(within),
            _effective_rank(raw.sqrt(), _RANKME_FLOOR),
            _effective_rank(within.sqrt(), _RANKME_FLOOR),
        )

    def _widen(self, num_classes: int, width: int) -> None:
        if len(self._sizes) == 0:
            self._products = torch.zeros(width, width, dtype=torch.float64)
            self._vectors = torch.zeros(0, width, dtype=torch.float64)
        known = self._products.shape[1]
        if known != width:
            raise ValueError(f"features must keep their width of {known}; got {width}. Count models apart.")
        num_new = max(0, num_classes - len(self._sizes))
        self._vectors, self._sizes = F.pad(self._vectors, (0, 0, 0, num_new)), F.pad(self._sizes, (0, num_new))


def _eigenvalues(matrix: Tensor, second: Tensor) -> Tensor:
    """Return the eigenvalues of a covariance; those that are rounding of the second moments become 0."""
    found: Tensor = torch.linalg.eigvalsh(matrix)
    return found.where(found > _ROUNDING * float(second.diagonal().sum()), 0.0)


def _effective_rank(values: Tensor, floor: float = 0.0) -> float:
    if not float(values.sum()) > 0:
        return math.nan
    shares = values / values.sum() + floor
    return math.exp(-float(torch.special.xlogy(shares, shares).sum()))


def _participation_ratio(values: Tensor) -> float:
    return float(values.sum().square() / values.square().sum()) if float(values.sum()) > 0 else math.nan
