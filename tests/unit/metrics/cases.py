"""Predictions of every kind that a metric has to deal with."""

from collections.abc import Callable

import torch
from torch import Tensor

Case = tuple[Tensor, Tensor]


def usual(dtype: torch.dtype = torch.float64) -> Case:
    logits = 3 * torch.randn(400, 12, dtype=torch.float64)
    labels = torch.where(torch.rand(400) < 0.6, logits.argmax(dim=1), torch.randint(12, (400,)))
    return logits.to(dtype), labels


def certain() -> Case:
    logits = 200 * torch.eye(5)[torch.arange(40) % 5]
    return logits, torch.where(torch.arange(40) % 3 == 0, 0, torch.arange(40) % 5)


def repeated() -> Case:
    logits = torch.randn(4, 6, dtype=torch.float64)[torch.arange(60) % 4]
    return logits, torch.randint(6, (60,))


def thirty(chosen: Callable[..., Tensor]) -> Case:
    logits = torch.randn(30, 4, dtype=torch.float64)
    return logits, chosen(logits, dim=1)


def masked() -> Case:
    logits, labels = usual()
    logits[:, 3] = -torch.inf
    return logits, labels.where(labels != 3, 0)


def far_from_zero() -> Case:
    logits, labels = usual()
    return logits + 5000.0, labels


CASES: dict[str, Callable[[], Case]] = {
    "usual": usual,
    "float32": lambda: usual(torch.float32),
    "half": lambda: usual(torch.float16),
    "bfloat16": lambda: usual(torch.bfloat16),  # three digits: many equal logits within a row
    "certain": certain,  # confidences of exactly 1, right and wrong
    "uniform": lambda: (torch.zeros(12, 4), torch.arange(12) % 4),  # every row a tie of all classes
    "repeated": repeated,  # few distinct rows: ties between samples
    "all_correct": lambda: thirty(torch.argmax),
    "all_wrong": lambda: thirty(torch.argmin),
    "one_sample": lambda: (torch.tensor([[0.3, 2.0, -1.0]]), torch.tensor([2])),
    "two_classes": lambda: (torch.randn(50, 2), torch.randint(2, (50,))),
    "masked": masked,  # a class that cannot be chosen
    "far_from_zero": far_from_zero,  # probabilities ignore a shift; the largest of these would overflow
}
