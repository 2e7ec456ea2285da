"""The loss of a causal language model as a layer without state, called like ``ForCausalLMLoss`` of transformers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .losses.maxsup import maxsup_cross_entropy


class MaxSupForCausalLMLossLayer(nn.Module):
    """Cross-entropy with Max Suppression of shifted labels; ``alpha=0`` is the loss of transformers."""

    can_torch_compile = True

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        vocab_size: int,
        num_items_in_batch: int | Tensor | None = None,
        ignore_index: int = -100,
        shift_labels: Tensor | None = None,
        alpha: float | Tensor = 0.1,
        **kwargs: Any,
    ) -> Tensor:
        """Return the mean over the labels that count, or their sum over ``num_items_in_batch``."""
        if shift_labels is None:
            shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
        target = shift_labels.reshape(-1).to(logits.device)
        items = num_items_in_batch
        if isinstance(items, torch.Tensor):
            items = items.to(logits.device)
        rows = logits.reshape(-1, vocab_size)
        return maxsup_cross_entropy(rows, target, alpha, ignore_index=ignore_index, num_items=items)
