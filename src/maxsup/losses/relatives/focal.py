"""Focal loss, alone and with label smoothing or MaxSup on top.

**Formulas.** ``focal``: ``-(1 - q_gt)^gamma log q_gt``; ``focal_maxsup``: ``focal + alpha (z_max - mean z)``;
``focal_ls`` in three readings, because nobody defines it: ``additive`` ``focal + alpha (z_gt - mean z)`` (default, the
paper's view of "a loss plus a regulariser"), ``gt_modulated`` ``(1 - q_gt)^gamma H(s, q)``, ``per_class``
``-sum_k s_k (1 - q_k)^gamma log q_k`` with the smoothed target ``s``.
**Use them** for long-tailed data (paper, ``tab:lt``). **Default** ``gamma=2``, ``alpha=0.1``, no class balancing.
**Source.** Lin et al. 2017. Code for the paper's long-tailed table stops the gradient through ``(1 - q)^gamma``; that
is ``detach_modulation=True``, whose gradient is about 2.4 times weaker at ``q_gt`` near 0.5.
**Interacts with** mixup: ``sum_k t_k (1 - q_k)^gamma (-log q_k)``, so that mixing labels is mixing losses. Class
weights scale the whole sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_choice, check_number
from maxsup.losses.base import LOSSES, AlphaLoss, RegularizedLoss, Strength, named_strength
from maxsup.losses.computing.closed_form import Factor
from maxsup.losses.computing.plain import plain_cross_entropy
from maxsup.losses.label_smoothing import target_gap
from maxsup.losses.maxsup import top_gap
from maxsup.losses.reduction import (
    LossOptions,
    ReductionOptions,
    check_strength,
    reduced_loss,
    require_labels,
    target_columns,
    target_values,
)

Mode = Literal["additive", "gt_modulated", "per_class"]
MODES: tuple[Mode, ...] = get_args(Mode)
LOG_OF_ZERO = -1000.0
OfTarget = Callable[[Tensor, Tensor], Tensor]


def modulation(log_probs: Tensor, gamma: float | Tensor) -> Tensor:
    """``(1 - q)^gamma``, exact for q close to 1 and with a finite slope at q = 1 for every gamma."""
    # Below this, q is 0 in every precision; the slope there would be 0 times inf.
    return (-torch.expm1(log_probs.clamp_min(LOG_OF_ZERO))).clamp_min(torch.finfo(log_probs.dtype).tiny).pow(gamma)


def focal_costs(log_probs: Tensor, gamma: float | Tensor, detach_modulation: bool = False) -> Tensor:
    """``-(1 - q_k)^gamma log q_k`` of classes; inf, without gradient, for a masked one."""
    masked = log_probs == -math.inf
    log_probs = log_probs.masked_fill(masked, 0.0)
    factor = modulation(log_probs, gamma)
    return (-(factor.detach() if detach_modulation else factor) * log_probs).masked_fill(masked, math.inf)


def modulated_cross_entropy(
    input: Tensor, target: Tensor, gamma: Factor, costs: OfTarget, **options: Unpack[ReductionOptions]
) -> Tensor:
    """The loss of class costs that ``gamma`` modulates; a gamma of 0 is ``F.cross_entropy`` to the bit."""
    check_strength("gamma", gamma)
    if not isinstance(gamma, Tensor) and gamma == 0:
        return plain_cross_entropy(input, target, **options)

    def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, None]:
        return costs(F.log_softmax(rows, dim=-1), target).expand_as(rows), None

    return reduced_loss(input, target, terms, **options)


def _focal_plus(gap: OfTarget, input: Tensor, target: Tensor, alpha: Factor, gamma: float, **options: Any) -> Tensor:
    """Focal loss plus ``alpha`` times a gap between logits."""

    def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = F.log_softmax(rows, dim=-1)
        costs = focal_costs(target_columns(log_probs, target), gamma).expand_as(rows)
        return costs, alpha * gap(rows, target)

    return reduced_loss(input, target, terms, **options)


def focal_cross_entropy(
    input: Tensor,
    target: Tensor,
    gamma: float | Tensor = 2.0,
    *,
    detach_modulation: bool = False,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Focal loss.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt}

    Example:
        >>> focal_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(0.9898)
    """

    def costs(log_probs: Tensor, target: Tensor) -> Tensor:
        return focal_costs(target_columns(log_probs, target), gamma, detach_modulation)

    return modulated_cross_entropy(input, target, gamma, costs, **options)


def focal_maxsup_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, gamma: float = 2.0, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Focal loss with Max Suppression.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt} + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    Example:
        >>> focal_maxsup_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.1398)
    """
    if _is_plain(alpha, gamma):
        return plain_cross_entropy(input, target, **options)
    return _focal_plus(lambda rows, target: top_gap(rows), input, target, alpha, gamma, **options)


def focal_label_smoothing_cross_entropy(
    input: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    gamma: float = 2.0,
    *,
    mode: Mode = "additive",
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Focal loss with label smoothing, by default added as ``alpha (z_gt - mean z)``.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt} + \alpha \Bigl( z_{gt} - \frac{1}{K} \sum_k z_k \Bigr)

    Example:
        >>> focal_label_smoothing_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.0398)
    """
    if _is_plain(alpha, gamma):
        return plain_cross_entropy(input, target, **options)
    check_choice("mode", mode, MODES)
    if mode == "additive":
        return _focal_plus(target_gap, input, target, alpha, gamma, **options)
    if mode == "gt_modulated":
        require_labels("focal_ls with mode='gt_modulated'", target)

    def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = F.log_softmax(rows, dim=-1)
        costs = focal_costs(log_probs, gamma)
        if mode == "gt_modulated":
            return costs, alpha * modulation(target_values(log_probs, target), gamma) * target_gap(rows, target)
        present = costs.masked_fill(rows == -math.inf, 0.0)
        mean_cost = present.sum(dim=-1) / (rows != -math.inf).sum(dim=-1)
        return costs, alpha * (mean_cost - target_values(costs, target))

    return reduced_loss(input, target, terms, **options)


def _is_plain(alpha: float | Tensor, gamma: float) -> bool:
    """Check both strengths, and say whether both are 0."""
    check_number("gamma", gamma)
    check_strength("alpha", alpha)
    return not isinstance(alpha, Tensor) and alpha == 0 and gamma == 0


@LOSSES.register("focal", summary="focal loss", formula="-(1 - q_gt)^gamma log q_gt", source="Lin et al. 2017")
class FocalLoss(RegularizedLoss):
    r"""Focal loss: cross-entropy in which samples that are nearly right count less.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt}

    Args:
        gamma: Exponent; 0 is cross-entropy, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        detach_modulation: Stop the gradient through the factor ``(1 - q)^gamma``.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017.

    Example:
        >>> criterion = FocalLoss(gamma=2.0)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(0.9898)
    """

    function = staticmethod(focal_cross_entropy)
    strength = "gamma"
    own_options = ("detach_modulation",)
    gamma = named_strength()

    def __init__(
        self, gamma: Strength = 2.0, *, detach_modulation: bool = False, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(gamma, **options)
        self.detach_modulation = detach_modulation


@LOSSES.register(
    "focal_maxsup",
    summary="focal loss and MaxSup",
    formula="focal + alpha (z_max - mean z)",
    source="tab:lt, our reading",
)
class FocalMaxSupLoss(AlphaLoss):
    r"""Focal loss with Max Suppression.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt} + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        gamma: Exponent of the focal loss; 0 leaves MaxSup.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017; the combination is from ``tab:lt`` of the MaxSup
        paper.

    Example:
        >>> criterion = FocalMaxSupLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.1398)
    """

    function = staticmethod(focal_maxsup_cross_entropy)
    own_options: ClassVar[tuple[str, ...]] = ("gamma",)

    def __init__(self, alpha: Strength = 0.1, gamma: float = 2.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(alpha, **options)
        check_number("gamma", gamma)
        self.gamma = gamma


@LOSSES.register(
    "focal_ls",
    summary="focal loss and label smoothing",
    formula="focal + alpha (z_gt - mean z)",
    source="tab:lt, our reading",
)
class FocalLabelSmoothingLoss(FocalMaxSupLoss):
    r"""Focal loss with label smoothing.

    .. math:: -(1 - q_{gt})^\gamma \log q_{gt} + \alpha \Bigl( z_{gt} - \frac{1}{K} \sum_k z_k \Bigr)

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        gamma: Exponent of the focal loss; 0 leaves label smoothing.
        mode: ``"additive"`` (the formula above), ``"gt_modulated"`` (one factor for the smoothed cross-entropy) or
            ``"per_class"`` (a factor for each class).
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017; the combination is from ``tab:lt`` of the MaxSup
        paper.

    Example:
        >>> criterion = FocalLabelSmoothingLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.0398)
    """

    function = staticmethod(focal_label_smoothing_cross_entropy)
    own_options = ("gamma", "mode")

    def __init__(
        self, alpha: Strength = 0.1, gamma: float = 2.0, *, mode: Mode = "additive", **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(alpha, gamma, **options)
        check_choice("mode", mode, MODES)
        self.mode = mode
