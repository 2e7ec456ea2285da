"""The terms of a loss that trainer callbacks log."""

from __future__ import annotations

import math
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor

from maxsup.losses.base import RegularizedLoss
from maxsup.losses.head.rows import Objective
from maxsup.losses.monitor import DecompositionMonitor

# Computing the terms for a whole vocabulary would take longer than the loss.
_NUMEL = 2**21


class LoggedTerms:
    """Accumulate the strength of a loss and the terms of label smoothing between two logs.

    The names are ``maxsup/alpha``, ``maxsup/wrong_share`` and so on. In batches of more than two million logits only
    every n-th row is used, from another first row each time; ``maxsup/num_samples`` is the number of rows used.
    ``monitor=False`` logs only the strength.

    Example:
        >>> import maxsup
        >>> terms = LoggedTerms(maxsup.MaxSupLoss(alpha=0.1))
        >>> terms.update(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        >>> logged = terms.collected()
        >>> logged["maxsup/alpha"], logged["maxsup/wrong_share"], logged["maxsup/gap_on_errors"]
        (0.1, 1.0, 1.0)
    """

    def __init__(self, criterion: RegularizedLoss, *, monitor: bool = True) -> None:
        self.criterion = criterion
        self._monitor = DecompositionMonitor.of(criterion) if monitor else None
        self._has_met_mixed_labels = False
        self._turn = -1

    def update(self, logits: Tensor, target: Tensor) -> None:
        """Add a training batch. Batches with mixed labels are skipped, with one warning."""
        if self._monitor is None:
            return
        if target.is_floating_point():
            if not self._has_met_mixed_labels:
                self._has_met_mixed_labels = True
                warnings.warn(
                    "Batches with mixed labels are left out of what is logged, because they have no single true class. "
                    "Give the callback monitor=False if all batches are mixed.",
                    UserWarning,
                    stacklevel=2,
                )
            return
        if logits.dim() == 1:
            logits, target = logits.unsqueeze(0), target.unsqueeze(0)
        chosen = self._chosen(len(logits), logits.numel())
        self._monitor.update(logits[chosen], target[chosen], alpha=getattr(self.criterion, "alpha", 1.0))

    @torch.no_grad()
    def update_head(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, shape: Objective
    ) -> None:
        """Add a training batch ``hidden (N, D)`` of a linear head, and compute logits only for the sampled rows."""
        if self._monitor is not None:
            chosen = self._chosen(len(hidden), len(hidden) * len(weight))
            logits = shape.shaped(F.linear(hidden[chosen], weight, bias))
            self._monitor.update(logits, target[chosen], alpha=getattr(self.criterion, "alpha", 1.0))

    def _chosen(self, num_rows: int, numel: int) -> slice:
        step = max(1, min(-(-numel // _NUMEL), num_rows))
        self._turn += 1
        return slice(self._turn % step, None, step)

    def reset(self) -> None:
        """Discard the accumulated terms."""
        if self._monitor is not None:
            self._monitor.reset()

    def collected(self, device: torch.device | str = "cpu") -> dict[str, float]:
        """Return the values to log and reset. They are summed over all processes, each of which must call this."""
        values = {str(self.criterion.strength): self.criterion.current_strength}
        if self._monitor is not None:
            self._monitor.sync(device)
            values |= self._monitor.compute()
            self._monitor.reset()
        return {f"maxsup/{name}": value for name, value in values.items() if not math.isnan(value)}
