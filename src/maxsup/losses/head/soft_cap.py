"""Soft cap: ``s tanh(z / s)`` keeps logits within ``(-s, s)``."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def soft_capped(logits: Tensor, cap: float) -> Tensor:
    """``cap * tanh(logits / cap)``; a masked class (``-inf``) stays masked.

    Example:
        >>> soft_capped(torch.tensor([0.0, 1.0, 100.0]), 2.0)
        tensor([0.0000, 0.9242, 2.0000])
    """
    return torch.where(logits == -math.inf, logits, cap * (logits / cap).tanh())


def cap_in_place(logits: Tensor, valid: Tensor | None, cap: float) -> Tensor | None:
    """Cap rows of logits in their own memory and return the slope ``1 - tanh(z / cap)^2``; None where ``cap`` is 0.

    The slope is 0 in rows that are not valid, which may hold nan.
    """
    if cap == 0:
        return None
    logits.copy_(soft_capped(logits, cap))
    slope = 1 - (logits / cap).square()
    slope = slope.masked_fill_(logits == -math.inf, 0.0)
    return slope if valid is None else slope.masked_fill_(~valid, 0.0)
