"""Neural collapse: the four properties of Papyan, Han and Donoho (2020), each as a number that tends to 0.

Every class among the labels has the same weight, whatever its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.metrics.predictions import check_matrix, labels_of_features, not_finite, rows_at_a_time


class NeuralCollapse(NamedTuple):
    """Measures of neural collapse, each 0 at full collapse.

    Attributes:
        nc1: Within-class relative to between-class covariance, ``tr(S_W pinv(S_B)) / K``.
        nc2_norm: Coefficient of variation of the norms of the centred class means.
        nc2_angle: Mean of ``|cos + 1 / (K - 1)|`` over pairs of centred class means.
        nc3: Squared distance between the classifier and the centred class means, each scaled to a Frobenius norm of 1.
        nc4: Share of samples, averaged over classes, that the classifier does not assign to the nearest class mean.
    """

    nc1: float
    nc2_norm: float
    nc2_angle: float
    nc3: float
    nc4: float


@torch.no_grad()
def neural_collapse(
    features: Tensor, labels: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
) -> NeuralCollapse:
    """Return NC1 to NC4 of features ``(N, D)`` and of their linear classifier, ``weight (K, D)`` and ``bias (K,)``.

    Without a weight, ``nc3`` and ``nc4`` are ``nan``. If all class means agree, undefined numbers are ``nan``.

    Example:
        >>> corners = torch.eye(3)[torch.tensor([0, 0, 1, 1, 2, 2])]
        >>> found = neural_collapse(corners, torch.tensor([0, 0, 1, 1, 2, 2]), weight=torch.eye(3))
        >>> [round(value, 3) for value in found]
        [0.0, 0.0, 0.0, 0.367, 0.0]
    """
    labels, features = labels_of_features("features", features, labels), features.detach().cpu()
    weight, bias = _checked_classifier(weight, bias, features.shape[1], int(labels.max()) + 1)
    classes, place, size = labels.unique(return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"labels must hold at least two classes; got only class {int(classes[0])}. Add other samples.")
    means = torch.zeros(len(classes), features.shape[1], dtype=torch.float64)
    for rows, part in _blocks(features, place):
        means.index_add_(0, part, rows)
    means /= size.unsqueeze(1)
    if not means.isfinite().all():
        raise not_finite("features", int((~features.isfinite().all(dim=1)).nonzero()[0]))
    centred = means - means.mean(dim=0)
    lengths = torch.linalg.vector_norm(centred, dim=1)
    nc1 = _variability(features, place, size, means, centred)
    nc2_norm, nc2_angle = float(lengths.std(correction=0) / lengths.mean()), _angles(centred, lengths)
    if weight is None:
        return NeuralCollapse(nc1, nc2_norm, nc2_angle, math.nan, math.nan)
    own, of_means = (matrix / torch.linalg.matrix_norm(matrix) for matrix in (weight[classes], centred))
    nc3 = float((own - of_means).square().sum())
    return NeuralCollapse(nc1, nc2_norm, nc2_angle, nc3, _disagreement(features, place, classes, means, weight, bias))


def _variability(features: Tensor, place: Tensor, size: Tensor, means: Tensor, centred: Tensor) -> float:
    """Return ``tr(S_W pinv(S_B)) / K``: the within-to-between variance ratios, summed over the axes of ``S_B``."""
    _, between, axes = torch.linalg.svd(centred / math.sqrt(len(means)), full_matrices=False)
    is_spanned = between > between.max() * max(centred.shape) * torch.finfo(torch.float64).eps
    if not between.max() > 0:
        return math.nan
    scaled = (axes[is_spanned] / between[is_spanned].unsqueeze(1)).T
    sums = torch.zeros(len(means), dtype=torch.float64)
    for rows, part in _blocks(features, place):
        sums.index_add_(0, part, ((rows - means[part]) @ scaled).square_().sum(dim=1))
    return float((sums / size).mean()) / len(means)


def _angles(centred: Tensor, lengths: Tensor) -> float:
    num_classes = len(centred)
    if not lengths.min() > 0:
        return math.nan
    directions = centred / lengths.unsqueeze(1)
    gaps = (directions @ directions.T + 1.0 / (num_classes - 1)).abs_()
    return float(gaps.sum() - gaps.diagonal().sum()) / (num_classes * (num_classes - 1))


def _disagreement(
    features: Tensor, place: Tensor, classes: Tensor, means: Tensor, weight: Tensor, bias: Tensor | None
) -> float:
    shift = means.square().sum(dim=1) / 2
    offset = torch.zeros(len(weight), dtype=torch.float64) if bias is None else bias
    sums = torch.zeros(len(classes), dtype=torch.float64)
    for rows, part in _blocks(features, place):
        # |h - m|^2 is smallest where h m - |m|^2 / 2 is largest.
        nearest = classes[(rows @ means.T - shift).argmax(dim=1)]
        sums.index_add_(0, part, (torch.addmm(offset, rows, weight.T).argmax(dim=1) != nearest).double())
    return float((sums / place.bincount()).mean())


def _blocks(features: Tensor, place: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    num_rows = rows_at_a_time(features)
    for rows, part in zip(features.split(num_rows), place.split(num_rows), strict=True):
        yield rows.double(), part


def _checked_classifier(
    weight: Tensor | None, bias: Tensor | None, width: int, num_classes: int
) -> tuple[Tensor | None, Tensor | None]:
    if weight is None:
        if bias is not None:
            raise ValueError("bias must come with a weight. Give both or neither.")
        return None, None
    check_matrix("weight", weight, "(classes, dimensions)")
    if weight.shape[1] != width or len(weight) < num_classes:
        raise ValueError(
            f"weight must have a row for each of {num_classes} classes and {width} columns; "
            f"got shape {tuple(weight.shape)}. Use the weight of the layer that follows these features."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape ({len(weight)},); got shape {tuple(bias.shape)}. Give one per class.")
    return weight.detach().cpu().double(), None if bias is None else bias.detach().cpu().double()
