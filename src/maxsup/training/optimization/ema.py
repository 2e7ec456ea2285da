"""A moving average of the weights.

``torch.optim.swa_utils.AveragedModel`` does not fit: its first update copies the weights where this average starts at
the initial ones, and it wraps the model, so that every name in its state has another prefix than in a checkpoint.
"""

from __future__ import annotations

import copy

import torch
from torch import nn


class MovingAverage:
    """Keeps ``average <- decay * average + (1 - decay) * weights``, running statistics included.

    It starts as a copy of ``model``.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> average = MovingAverage(layer, decay=0.9)
        >>> _ = nn.init.ones_(layer.weight)
        >>> average.update(layer)
        >>> average.model.weight.item()
        0.100...
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights as they are now; counters are copied."""
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, weights = [average for average, _ in floating], [weight for _, weight in floating]
        torch._foreach_lerp_(averages, weights, 1.0 - self.decay)
        for average, weight in pairs:
            if not average.is_floating_point():
                average.copy_(weight)
