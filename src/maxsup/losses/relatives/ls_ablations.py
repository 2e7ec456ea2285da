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


def _mean_gap(rows: Tensor, labels: Tensor, compare: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Mean of ``z_gt - z_k`` over the logits ``z_k`` that compare to ``z_gt``; 0 where there are none."""
    z_gt = target_values(rows, labels).unsqueeze(-1)
    chosen = compare(rows, z_gt) & (rows != -math.inf)
    # Divided first: the sum of large gaps may be inf where their mean is not.
    return (torch.where(chosen, z_gt - rows, 0) / chosen.sum(dim=-1, keepdim=True).clamp(min=1)).sum(dim=-1)


def regularization_only_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the regularisation part of label smoothing only.

    .. math:: H(y, q) + \frac{\alpha}{M} \sum_{z_m < z_{gt}} (z_{gt} - z_m)

    Example:
        >>> regularization_only_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.6911)
    """
    require_labels("reg_only", target)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, _, y: _mean_gap(rows, y, torch.lt), limit=1.0, **options
    )


def error_amplification_mean_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the error amplification of label smoothing only, averaged over the logits above the true one.

    .. math:: H(y, q) + \frac{\alpha}{N} \sum_{z_n > z_{gt}} (z_{gt} - z_n)

    Example:
        >>> error_amplification_mean_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.4744)
    """
    require_labels("err_amp_mean", target)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, _, y: _mean_gap(rows, y, torch.gt), limit=1.0, **options
    )


def error_amplification_max_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy with the error amplification of label smoothing only, towards the top logit.

    .. math:: H(y, q) + \alpha (z_{gt} - z_{max})

    Example:
        >>> error_amplification_max_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.4744)
    """
    require_labels("err_amp_max", target)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, _, y: target_values(rows, y) - rows.max(dim=-1).values, limit=1.0, **options
    )


@LOSSES.register(
    "reg_only",
    summary="the part of label smoothing below the true logit only",
    formula="CE + alpha/M sum_{z_m<z_gt} (z_gt - z_m)",
    source="tab:pre",
)
class RegularizationOnlyLoss(AlphaLoss):
    r"""Cross-entropy with the part of label smoothing that regularises right predictions.

    .. math:: H(y, q) + \frac{\alpha}{M} \sum_{z_m < z_{gt}} (z_{gt} - z_m)

    Args:
        alpha: Strength, at most 1, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Zhou et al., "MaxSup: Overcoming Representation Collapse in Label Smoothing", 2025, ``tab:pre``.

    Example:
        >>> criterion = RegularizationOnlyLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.6911)
    """

    function = staticmethod(regularization_only_cross_entropy)
    strength_limit = 1.0


@LOSSES.register(
    "err_amp_mean",
    summary="the part of label smoothing above the true logit only, averaged",
    formula="CE + alpha/N sum_{z_n>z_gt} (z_gt - z_n)",
    source="tab:pre",
)
class ErrorAmplificationMeanLoss(AlphaLoss):
    r"""Cross-entropy with the part of label smoothing that amplifies errors, averaged over higher logits.

    .. math:: H(y, q) + \frac{\alpha}{N} \sum_{z_n > z_{gt}} (z_{gt} - z_n)

    Args:
        alpha: Strength, at most 1, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Zhou et al., "MaxSup: Overcoming Representation Collapse in Label Smoothing", 2025, ``tab:pre``.

    Example:
        >>> criterion = ErrorAmplificationMeanLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.4744)
    """

    function = staticmethod(error_amplification_mean_cross_entropy)
    strength_limit = 1.0


@LOSSES.register(
    "err_amp_max",
    summary="the part of label smoothing above the true logit only, against the top",
    formula="CE + alpha (z_gt - z_max)",
    source="tab:pre",
)
class ErrorAmplificationMaxLoss(AlphaLoss):
    r"""Cross-entropy with the part of label smoothing that amplifies errors, against the top logit.

    .. math:: H(y, q) + \alpha (z_{gt} - z_{max})

    Args:
        alpha: Strength, at most 1, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Zhou et al., "MaxSup: Overcoming Representation Collapse in Label Smoothing", 2025, ``tab:pre``.

    Example:
        >>> criterion = ErrorAmplificationMaxLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.4744)
    """

    function = staticmethod(error_amplification_max_cross_entropy)
    strength_limit = 1.0
