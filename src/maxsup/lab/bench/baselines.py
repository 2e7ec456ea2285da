"""Baseline losses for benchmarks, as they are usually written."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

# The default of torch: a label that no sample has.
NO_LABEL = -100


def torch_cross_entropy(logits: Tensor, target: Tensor, ignore_index: int = NO_LABEL) -> Tensor:
    """Return torch's cross-entropy of logits ``(N, K)`` and targets ``(N,)``."""
    return F.cross_entropy(logits, target, ignore_index=ignore_index)


def torch_label_smoothing(logits: Tensor, target: Tensor, ignore_index: int = NO_LABEL) -> Tensor:
    """Return torch's cross-entropy with ``label_smoothing=0.1``, the baseline of the benchmarks."""
    return F.cross_entropy(logits, target, ignore_index=ignore_index, label_smoothing=0.1)


def naive_maxsup(logits: Tensor, target: Tensor, ignore_index: int = NO_LABEL) -> Tensor:
    """Return MaxSup at 0.1 in plain torch: cross-entropy plus 0.1 times the mean gap of the samples not ignored.

    Example:
        >>> naive_maxsup(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.7244)
    """
    loss = F.cross_entropy(logits, target, ignore_index=ignore_index)
    gap = logits.max(dim=1).values - logits.mean(dim=1)
    if ignore_index == NO_LABEL:
        return loss + 0.1 * gap.mean()
    counts = target != ignore_index
    return loss + 0.1 * (gap * counts).sum() / counts.sum()
