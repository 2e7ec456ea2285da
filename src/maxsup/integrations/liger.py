"""MaxSup on Liger's fused linear cross-entropy, which never materialises the logits of the whole batch.

**Formula.** ``MaxSup(alpha) = LS(alpha) + alpha (z_max - z_gt)``. Liger gives the first term, with label smoothing, and
the index of the top logit; the second is ``hidden . (W[top] - W[y])`` over the wrongly predicted rows.
**Use it** if you run Liger anyway. ``maxsup.losses.LinearMaxSupLoss`` takes the same arguments, computes the same loss
and works on any device without Liger.
**Not supported**, because the identity does not hold or could not be checked: class weights (Liger weights each class
of the smoothed target separately), soft cap, z-loss, token scaling, probability targets. ``LigerCrossEntropyLoss``
overwrites its logits before the top one is known; on logits use ``maxsup_cross_entropy``, which also needs one pass.
**Schedules**: Liger compiles its kernel for each value of the smoothing, so change alpha per epoch, not per step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import Never

from maxsup.core.checks import check_number
from maxsup.integrations.checks import not_installed
from maxsup.losses.head.linear import HeadLoss, check_head
from maxsup.losses.reduction import ReductionName, raise_if_out_of_range

__all__ = ["LigerMaxSupLoss", "liger_maxsup_cross_entropy"]


def liger_maxsup_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: ReductionName = "mean",
    num_items: float | Tensor | None = None,
) -> Tensor:
    """Return cross-entropy with Max Suppression of ``hidden @ weight.T + bias``, computed by Liger's kernel.

    Args:
        hidden: Inputs of the head, ``(N, D)``.
        weight: Weight of the head, ``(K, D)``.
        target: Class indices, ``(N,)``.
        alpha: Strength, at most 1.
        bias: Bias of the head, ``(K,)``.
        ignore_index: Class index of rows to ignore.
        reduction: ``mean``, ``sum`` or ``none``.
        num_items: Denominator of the mean; by default the number of rows that are not ignored.
    """
    check_head(hidden, weight, target, bias, reduction, num_items)
    alpha = float(alpha)
    check_number("alpha", alpha, high=1.0)
    if target.device.type == "cpu":
        raise_if_out_of_range(target, ignore_index, len(weight))
    is_trained = weight.requires_grad or (bias is not None and bias.requires_grad)
    if torch.is_grad_enabled() and is_trained and not hidden.requires_grad:
        raise ValueError(
            "hidden must require a gradient, because Liger gives none to the head otherwise; got detached hidden "
            "states. Use LinearMaxSupLoss to train a head alone, or call hidden.requires_grad_() first."
        )
    result = _fused_linear_cross_entropy()(
        hidden,
        weight,
        target,
        bias,
        ignore_index=ignore_index,
        label_smoothing=alpha,
        reduction="sum" if reduction == "mean" else reduction,
        return_predicted_tokens=True,
    )
    loss = result.loss
    if alpha > 0:
        gaps = _gaps(hidden, weight, bias, target, result.predicted_tokens, ignore_index)
        loss = loss + alpha * (gaps if reduction == "none" else gaps.sum())
    if reduction == "mean":
        loss = loss / ((target != ignore_index).sum() if num_items is None else num_items)
    return loss


class LigerMaxSupLoss(HeadLoss):
    """Cross-entropy with Max Suppression of a linear head, by Liger's kernel.

    The loss is plain cross-entropy in ``eval()`` mode, and ``alpha`` may be a schedule. The arguments are those of
    :func:`liger_maxsup_cross_entropy`.
    """

    function = staticmethod(liger_maxsup_cross_entropy)
    strength_limit = 1.0

    def __init__(
        self, alpha: Any = 0.1, ignore_index: int = -100, reduction: ReductionName = "mean", **unknown: Never
    ) -> None:
        super().__init__(alpha, ignore_index=ignore_index, reduction=reduction, **unknown)
        _fused_linear_cross_entropy()

    def forward(  # type: ignore[override]
        self, hidden: Tensor, weight: Tensor, target: Tensor, *, bias: Tensor | None = None, num_items: Any = None
    ) -> Tensor:
        """Return the loss of a head ``weight (K, D)``, ``bias (K,)`` on ``hidden (N, D)`` with ``target (N,)``."""
        return self._of_head(hidden, weight, target, bias=bias, num_items=num_items)


def _fused_linear_cross_entropy() -> Any:
    # Imported late: Liger loads Triton and transformers, which tools that only inspect this module do not need.
    try:
        from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy
    except ImportError as error:
        raise not_installed("liger", "liger-kernel") from error
    return liger_fused_linear_cross_entropy


def _gaps(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, top: Tensor, ignore_index: int
) -> Tensor:
    """Return ``z_max - z_gt`` of each row, 0 for correct predictions and ignored rows."""
    is_wrong = (target != ignore_index) & (top != target)
    # Other rows use class 0 twice. Their hidden values are zeroed, because ignored rows may hold nan.
    top, true = top.where(is_wrong, 0), target.where(is_wrong, 0)
    rows = torch.where(is_wrong.unsqueeze(1), hidden, 0).float()
    gaps = (rows * (weight[top].float() - weight[true].float())).sum(dim=1)
    return gaps if bias is None else gaps + (bias[top] - bias[true]).float()
