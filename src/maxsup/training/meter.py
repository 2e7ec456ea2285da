"""Running numbers of a training epoch: exact sums that survive being cut."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist


@dataclass
class EpochMeter:
    """Sums over steps of an epoch in this process; ``num_items`` is the denominator of their loss.

    Example:
        >>> meter = EpochMeter()
        >>> meter.add(EpochMeter(loss_sum=8.0, num_items=4, num_correct=3, num_labels=4, grad_norm=1.5, num_steps=1))
        >>> meter.means()
        {'loss': 2.0, 'accuracy': 0.75, 'grad_norm': 1.5}
    """

    loss_sum: float = 0.0
    num_items: float = 0.0
    num_correct: float = 0.0
    num_labels: float = 0.0
    grad_norm: float = 0.0
    num_steps: float = 0.0

    def add(self, step: EpochMeter) -> None:
        """Count the sums of a step."""
        for name, value in asdict(step).items():
            setattr(self, name, getattr(self, name) + value)

    def summed(self, device: torch.device) -> EpochMeter:
        """The sums over all processes."""
        if not (dist.is_available() and dist.is_initialized()):
            return self
        sums = torch.tensor(list(asdict(self).values()), dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        return EpochMeter(*sums.tolist())

    def means(self) -> dict[str, float]:
        """Loss over its denominators, accuracy over labels, gradient norm over steps; ``nan`` where there are none."""
        ratios = {
            "loss": (self.loss_sum, self.num_items),
            "accuracy": (self.num_correct, self.num_labels),
            "grad_norm": (self.grad_norm, self.num_steps),
        }
        return {name: total / count if count else math.nan for name, (total, count) in ratios.items()}
