"""What label smoothing would do to the training batches, whatever loss trains on them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional
from typing_extensions import Self

from maxsup.losses.base import RegularizedLoss
from maxsup.losses.head.linear import LinearMaxSupLoss
from maxsup.losses.label_smoothing import decomposition
from maxsup.losses.mbls import MarginLabelSmoothingLoss, margin_gap
from maxsup.losses.reduction import check_options, class_rows, require_labels, target_values

_SUMS = (
    "num_samples", "num_wrong", "regularization", "error_amplification", "gap_on_errors", "confidence_correct",
    "confidence_wrong", "ce", "penalty", "z_loss", "beyond_margin",
)  # fmt: skip
_MEANS = ("regularization", "error_amplification", "ce", "penalty", "z_loss", "beyond_margin")
_NUM_FIRST_SUMS = 9  # checkpoints of the first version have only these
# Margin of ``beyond_margin`` where the loss has none: the default of margin-based label smoothing.
MARGIN = 10.0


class DecompositionMonitor:
    """Running means of the two label-smoothing terms and of confidence on right and wrong predictions.

    ``update`` adds to a few sums on the device of the logits and never waits for it; ``compute`` reads them.

    Args:
        ignore_index: Label of samples that do not count.
        margin: ``beyond_margin`` is the share of logits further below the top than this, which MbLS would pull up.
        z_loss: Factor of the z-loss, whose mean is reported beside the penalty.
        penalty_margin: Margin of the reported ``penalty``: 0 for MaxSup, otherwise that of MbLS.

    Example:
        >>> monitor = DecompositionMonitor()
        >>> monitor.update(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]] * 2), torch.tensor([4, 0]), alpha=0.1)
        >>> result = monitor.compute()
        >>> result["wrong_share"], result["gap_on_errors"], round(result["error_amplification"], 3)
        (0.5, 1.0, -0.1)
    """

    def __init__(
        self, ignore_index: int = -100, *, margin: float = MARGIN, z_loss: float = 0.0, penalty_margin: float = 0.0
    ) -> None:
        self.ignore_index, self.margin, self.z_loss, self.penalty_margin = ignore_index, margin, z_loss, penalty_margin
        self._sums: Tensor | None = None
        # The part of the sums that already includes all processes.
        self._shared: Tensor | None = None

    @classmethod
    def of(cls, criterion: RegularizedLoss) -> Self:
        """The monitor with the ignored label, the margin, the penalty and the z-loss of a loss."""
        margin = getattr(criterion, "margin", 0.0)
        own = margin if isinstance(criterion, MarginLabelSmoothingLoss | LinearMaxSupLoss) else 0.0
        return cls(criterion.ignore_index, margin=margin or MARGIN, z_loss=criterion.z_loss, penalty_margin=own)

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor, alpha: float | Tensor = 1.0) -> None:
        """Count a batch of logits ``(N, K)`` or ``(N, K, d1, ...)`` with class indices."""
        require_labels("DecompositionMonitor", target)
        check_options(logits, target)
        rows = class_rows(logits.detach())
        labels = target.reshape(-1).long()
        valid = labels != self.ignore_index
        labels = labels.where(valid, 0)
        rows = torch.where(valid.unsqueeze(-1), rows, 0)
        z_gt = target_values(rows, labels)
        z_max, top = rows.max(dim=-1)
        log_sum = rows.logsumexp(dim=-1)
        confidence = (z_max - log_sum).exp()
        is_wrong = top != labels
        terms = decomposition(rows, labels)
        columns = torch.stack(
            [
                torch.ones_like(z_gt),
                is_wrong.to(z_gt),
                terms.regularization,
                terms.error_amplification,
                (z_max - z_gt).where(is_wrong, 0),
                confidence.where(~is_wrong, 0),
                confidence.where(is_wrong, 0),
                log_sum - z_gt,
                alpha * margin_gap(rows, self.penalty_margin),
                self.z_loss * log_sum.square(),
                _share_beyond(rows, self.margin),
            ]
        )
        # float64 where the device has it: an epoch of ImageNet is a sum of a million numbers.
        precise = torch.float32 if columns.device.type == "mps" else torch.float64
        batch = columns.where(valid, 0).to(precise).sum(dim=1)
        self._sums = batch if self._sums is None else self._sums.to(batch.device) + batch

    def compute(self) -> dict[str, float]:
        """The means so far; ``nan`` where nothing was counted."""
        sums = dict(zip(_SUMS, self._sums.tolist() if self._sums is not None else [0.0] * len(_SUMS), strict=True))
        total, wrong = sums["num_samples"], sums["num_wrong"]
        over_all = {key: _ratio(sums[key], total) for key in _MEANS}
        return {
            "num_samples": total,
            "wrong_share": _ratio(wrong, total),
            "gap_on_errors": _ratio(sums["gap_on_errors"], wrong),
            "confidence_correct": _ratio(sums["confidence_correct"], total - wrong),
            "confidence_wrong": _ratio(sums["confidence_wrong"], wrong),
            **over_all,
            "penalty_to_ce": _ratio(over_all["penalty"], over_all["ce"]),
        }

    def reset(self) -> None:
        """Forget everything."""
        self._sums = self._shared = None

    def merge(self, other: DecompositionMonitor) -> None:
        """Add what another monitor has counted."""
        self._sums = _added(self._sums, other._sums)
        self._shared = _added(self._shared, other._shared)

    def state_dict(self) -> dict[str, Tensor]:
        """What was counted so far, for a checkpoint."""
        state = {"sums": self._sums, "shared": self._shared}
        return {name: sums.clone() for name, sums in state.items() if sums is not None}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a :meth:`state_dict`."""
        for sums in state.values():
            if sums.shape not in ((_NUM_FIRST_SUMS,), (len(_SUMS),)):
                raise ValueError(
                    f"state of a DecompositionMonitor must have {len(_SUMS)} sums; got shape {tuple(sums.shape)}. "
                    "Load the result of its state_dict."
                )
        self._sums, self._shared = (_completed(state.get(name)) for name in ("sums", "shared"))

    def sync(self, device: torch.device | str = "cpu") -> None:
        """Add up the counts of all processes, each of which must call this.

        Counting may continue afterwards; the next call adds only what is new. ``device`` is the backend's device, which
        a process without counts uses.
        """
        if not dist.is_available() or not dist.is_initialized():
            return
        if self._sums is None:
            self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)
        new = self._sums.clone() if self._shared is None else self._sums - self._shared.to(self._sums.device)
        dist.all_reduce(new)
        self._sums = self._shared = _added(self._shared, new)


def _share_beyond(rows: Tensor, margin: float) -> Tensor:
    present = rows != -math.inf
    beyond = present & (rows.max(dim=-1, keepdim=True).values - rows > margin)
    return beyond.sum(dim=-1) / present.sum(dim=-1).to(rows.dtype)


def _completed(sums: Tensor | None) -> Tensor | None:
    """A copy of a state, with ``nan`` for sums that an older version did not count."""
    return None if sums is None else functional.pad(sums, (0, len(_SUMS) - len(sums)), value=math.nan)


def _added(sums: Tensor | None, others: Tensor | None) -> Tensor | None:
    if others is None:
        return sums
    return others.clone() if sums is None else sums + others.to(sums.device)


def _ratio(value: float, count: float) -> float:
    return value / count if count else math.nan
