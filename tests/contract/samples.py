"""Logits without ties, targets, and what a loss needs besides."""

import torch
from torch import Tensor

from tests.reference.cases import CASE_OF

NUM_CLASSES = 4
WEIGHT = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)


def distinct_logits(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Logits whose classes lie at least 0.1 apart, so that a finite difference crosses no tie."""
    num_classes = shape[0] if len(shape) == 1 else shape[1]
    axis = 0 if len(shape) == 1 else 1
    order = torch.rand(*shape, dtype=torch.float64).argsort(axis).double()
    spread = order - (num_classes - 1) / 2
    return (spread + 0.3 * torch.rand(*shape, dtype=torch.float64)).to(dtype)


def labels_for(logits: Tensor) -> Tensor:
    """Labels that visit all classes, some predicted correctly and some not."""
    shape = logits.shape[:1] + logits.shape[2:] if logits.dim() > 1 else ()
    return (torch.arange(max(1, shape.numel() if shape else 1)) % NUM_CLASSES).reshape(shape)


def mixed_for(logits: Tensor) -> Tensor:
    """Mixed targets: two classes share the mass of a sample."""
    axis = 0 if logits.dim() == 1 else 1
    one_hot = torch.nn.functional.one_hot(labels_for(logits), NUM_CLASSES).movedim(-1, axis).to(logits.dtype)
    return 0.75 * one_hot + 0.25 * one_hot.roll(1, axis)


def scattered(shape: tuple[int, ...]) -> Tensor:
    """Numbers between -2 and 2 without a random generator, which vmap does not allow."""
    # Not by arange: torch 2.4 cannot export one whose length is not known.
    numbers = torch.ones(shape, dtype=torch.float64).flatten().cumsum(0) - 1.0
    return 2.0 * (1.7 * numbers + 0.3).sin().reshape(shape)


def soft_matrix(dtype: torch.dtype = torch.float64) -> Tensor:
    """A row-stochastic matrix for online label smoothing."""
    return scattered((NUM_CLASSES, NUM_CLASSES)).softmax(-1).to(dtype)


def needs_of(name: str, logits: Tensor) -> dict[str, Tensor]:
    """What the module takes besides logits and targets, shaped like the logits."""
    return {need: scattered(logits.shape).to(logits.dtype) for need in CASE_OF[name].needs}
