"""The parts of label smoothing on their own: the ablation of the paper's first table (``tab:pre``).

**Formulas.** ``reg_only``: ``CE + alpha/M sum_{z_m < z_gt} (z_gt - z_m)``; ``err_amp_mean``:
``CE + alpha/N sum_{z_n > z_gt} (z_gt - z_n)``; ``err_amp_max``: ``CE + alpha (z_gt - z_max)``. M and N are the numbers
of logits strictly below and above the true one; an empty sum is 0.
**Use them** to see which part of label smoothing helps. **Default** ``alpha=0.1``.
**Interacts with** mixup and cutmix: undefined without one true class, so probability targets are refused. The two error
amplification losses reward wrong predictions for being more wrong; they are bounded below only for ``alpha < 1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.base import LOSSES, AlphaLoss
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import ReductionOptions, require_labels, target_values

Part = Callable[[Tensor, Tensor], Tensor]


def mean_gap_below(rows: Tensor, labels: Tensor) -> Tensor:
    """Mean distance of the true logit to those below it; 0 where there is none."""
    z_gt = target_values(rows, labels).unsqueeze(-1)
    return _mean_where((rows < z_gt) & (rows != -math.inf), z_gt - rows)


def mean_gap_above(rows: Tensor, labels: Tensor) -> Tensor:
    """Mean (negative) distance of the true logit to those above it; 0 where there is none."""
    z_gt = target_values(rows, labels).unsqueeze(-1)
    return _mean_where(rows > z_gt, z_gt - rows)


def max_gap_above(rows: Tensor, labels: Tensor) -> Tensor:
    """(Negative) distance of the true logit to the top one; 0 on a correct prediction."""
    return target_values(rows, labels) - rows.max(dim=-1).values


def regularization_only_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the regularisation part of label smoothing only.

    .. math:: H(y, q) + \frac{\alpha}{M} \sum_{z_m < z_{gt}} (z_{gt} - z_m)

    Example:
        >>> regularization_only_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.6911)
    """
    return _with_part("reg_only", mean_gap_below, input, target, alpha, options)


def error_amplification_mean_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the error amplification of label smoothing only, averaged over the logits above the true one.

    .. math:: H(y, q) + \frac{\alpha}{N} \sum_{z_n > z_{gt}} (z_{gt} - z_n)

    Example:
        >>> error_amplification_mean_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.4744)
    """
    return _with_part("err_amp_mean", mean_gap_above, input, target, alpha, options)


def error_amplification_max_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the error amplification of label smoothing only, towards the top logit.

    .. math:: H(y, q) + \alpha (z_{gt} - z_{max})

    Example:
        >>> error_amplification_max_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.4744)
    """
    return _with_part("err_amp_max", max_gap_above, input, target, alpha, options)


def _mean_where(chosen: Tensor, values: Tensor) -> Tensor:
    return torch.where(chosen, values, 0).sum(dim=-1) / chosen.sum(dim=-1).clamp(min=1)


def _with_part(
    name: str, part: Part, input: Tensor, target: Tensor, alpha: float | Tensor, options: ReductionOptions
) -> Tensor:
    require_labels(name, target)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, log_probs, labels: part(rows, labels), limit=1.0, **options
    )


class _PartLoss(AlphaLoss):
    strength_limit = 1.0


@LOSSES.register(
    "reg_only",
    summary="the part of label smoothing below the true logit only",
    formula="CE + alpha/M sum_{z_m<z_gt} (z_gt - z_m)",
    source="tab:pre",
)
class RegularizationOnlyLoss(_PartLoss):
    """Module form of :func:`regularization_only_cross_entropy`."""

    function = staticmethod(regularization_only_cross_entropy)


@LOSSES.register(
    "err_amp_mean",
    summary="the part of label smoothing above the true logit only, averaged",
    formula="CE + alpha/N sum_{z_n>z_gt} (z_gt - z_n)",
    source="tab:pre",
)
class ErrorAmplificationMeanLoss(_PartLoss):
    """Module form of :func:`error_amplification_mean_cross_entropy`."""

    function = staticmethod(error_amplification_mean_cross_entropy)


@LOSSES.register(
    "err_amp_max",
    summary="the part of label smoothing above the true logit only, against the top",
    formula="CE + alpha (z_gt - z_max)",
    source="tab:pre",
)
class ErrorAmplificationMaxLoss(_PartLoss):
    """Module form of :func:`error_amplification_max_cross_entropy`."""

    function = staticmethod(error_amplification_max_cross_entropy)
