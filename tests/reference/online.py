"""Online label smoothing: the state of one epoch and what becomes of it, for the three published variants."""

import math
from collections.abc import Sequence

from tests.reference.losses import argmax, softmax

VARIANTS = ("original", "fine_grained", "reimplementation")
FREEZE_AT = 0.88


def initial_matrix(variant: str, num_classes: int) -> list[list[float]]:
    """Rows before the first epoch: zeros, uniform, or a label-smoothing matrix of 0.1 over the other classes."""
    if variant == "original":
        return [[0.0] * num_classes for _ in range(num_classes)]
    if variant == "fine_grained":
        return [[1.0 / num_classes] * num_classes for _ in range(num_classes)]
    return [[0.9 if j == k else 0.1 / (num_classes - 1) for j in range(num_classes)] for k in range(num_classes)]


def accumulate(
    rows: Sequence[Sequence[float]], labels: Sequence[int], num_classes: int, ignore_index: int = -100
) -> tuple[list[list[float]], list[float]]:
    """Sum of the predicted probabilities and count of the samples predicted correctly, one row per class."""
    total = [[0.0] * num_classes for _ in range(num_classes)]
    counts = [0.0] * num_classes
    for z, label in zip(rows, labels, strict=True):
        if label != ignore_index and argmax(z) == label:
            for k, value in enumerate(softmax(z)):
                total[label][k] += value
            counts[label] += 1.0
    return total, counts


def next_matrix(
    variant: str, matrix: Sequence[Sequence[float]], total: Sequence[Sequence[float]], counts: Sequence[float]
) -> list[list[float]]:
    """Mean prediction of each class; what a class without a correct sample gets depends on the variant."""
    num_classes = len(matrix)
    updated = []
    for c in range(num_classes):
        if counts[c] == 0:
            updated.append([0.0 if variant == "reimplementation" else 1.0 / num_classes] * num_classes)
        elif variant == "fine_grained" and max(matrix[c]) >= FREEZE_AT:
            updated.append(list(matrix[c]))
        else:
            updated.append([value / counts[c] for value in total[c]])
    return updated


def largest_difference(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> float:
    return max(math.fabs(a - b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))
