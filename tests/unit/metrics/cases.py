"""Predictions of every kind that a metric has to deal with."""

from collections.abc import Callable

import torch
from torch import Tensor

Case = tuple[Tensor, Tensor]


def usual() -> Case:
    logits = 3 * torch.randn(400, 12, dtype=torch.float64)
    labels = torch.where(torch.rand(400) < 0.6, logits.argmax(dim=1), torch.randint(12, (400,)))
    return logits, labels


def float32() -> Case:
    logits, labels = usual()
    return logits.float(), labels


def half() -> Case:
    logits, labels = usual()
    return logits.half(), labels


def bfloat16() -> Case:
    # Three digits: many equal logits within a row.
    logits, labels = usual()
    return logits.bfloat16(), labels


def certain() -> Case:
    """Confidences of exactly 1, right and wrong."""
    logits = 200 * torch.eye(5)[torch.arange(40) % 5]
    return logits, torch.where(torch.arange(40) % 3 == 0, 0, torch.arange(40) % 5)


def uniform() -> Case:
    """Every row a tie of all classes."""
    return torch.zeros(12, 4), torch.arange(12) % 4


def repeated() -> Case:
    """Few distinct rows: ties between samples."""
    logits = torch.randn(4, 6, dtype=torch.float64)[torch.arange(60) % 4]
    return logits, torch.randint(6, (60,))


def all_correct() -> Case:
    logits = torch.randn(30, 4, dtype=torch.float64)
    return logits, logits.argmax(dim=1)


def all_wrong() -> Case:
    logits = torch.randn(30, 4, dtype=torch.float64)
    return logits, logits.argmin(dim=1)


def one_sample() -> Case:
    return torch.tensor([[0.3, 2.0, -1.0]]), torch.tensor([2])


def two_classes() -> Case:
    return torch.randn(50, 2), torch.randint(2, (50,))


def masked() -> Case:
    """Classes that cannot be chosen."""
    logits, labels = usual()
    logits[:, 3] = -torch.inf
    return logits, labels.where(labels != 3, 0)


def far_from_zero() -> Case:
    """Probabilities do not see a shift; the largest of these would overflow."""
    logits, labels = usual()
    return logits + 5000.0, labels


CASES: dict[str, Callable[[], Case]] = {
    function.__name__: function
    for function in (
        usual,
        float32,
        half,
        bfloat16,
        certain,
        uniform,
        repeated,
        all_correct,
        all_wrong,
        one_sample,
        two_classes,
        masked,
        far_from_zero,
    )
}
