"""A loss that the package does not have: label smoothing with another share of error amplification."""

from __future__ import annotations

from torch import Tensor

from maxsup.losses import LOSSES
from maxsup.losses.base import AlphaLoss
from maxsup.losses.penalized import penalized_cross_entropy


def gained_label_smoothing(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, gain: float = 0.0, **options: object
) -> Tensor:
    """``CE + alpha (z_gt - mean z + gain (z_max - z_gt))``: label smoothing wherever a prediction is right.

    ``gain=0`` is label smoothing, ``gain=1`` MaxSup, and ``gain=-1`` the mirror image of MaxSup, whose error
    amplification is larger by what MaxSup takes away.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> [round(gained_label_smoothing(logits, torch.tensor([4]), gain=gain).item(), 4) for gain in (0, 1, -1)]
        [1.6244, 1.7244, 1.5244]
    """

    def penalty(rows: Tensor, _: Tensor, labels: Tensor) -> Tensor:
        true = rows.gather(1, labels[:, None]).squeeze(1)
        return true - rows.mean(dim=1) + gain * (rows.amax(dim=1) - true)

    return penalized_cross_entropy(input, target, alpha, penalty, **options)


class GainedLabelSmoothingLoss(AlphaLoss):
    """Label smoothing with a gain, as :func:`gained_label_smoothing` computes it."""

    function = staticmethod(gained_label_smoothing)
    own_options = ("gain",)

    def __init__(self, alpha: float = 0.1, gain: float = 0.0, **options: object) -> None:
        super().__init__(alpha, **options)
        self.gain = gain


def register_losses() -> None:
    """Make ``gained_ls`` a name that recipes know; only processes that train do this."""
    if "gained_ls" not in LOSSES:
        LOSSES.register(
            "gained_ls",
            summary="label smoothing with another share of error amplification: `gain`",
            formula="CE + alpha (z_gt - mean z + gain (z_max - z_gt))",
            source="tools/evidence",
        )(GainedLabelSmoothingLoss)
