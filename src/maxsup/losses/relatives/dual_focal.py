"""Dual focal loss: weigh a sample by how far its true class is ahead of the next lower one.

**Formula.** ``-(1 - q_gt + q_j)^gamma log q_gt`` with ``q_j`` the largest probability strictly below ``q_gt``, 0 where
there is none.
**Use it** for calibration: it lies between cross-entropy and focal loss, which leaves a network underconfident.
**Default** ``gamma=5``, which the authors list for ResNet-50 on CIFAR-10 and CIFAR-100 (2.3 to 6.1 for others).
**Source.** Tao et al. 2023 (ICML). The released class has ``gamma=0``, which is cross-entropy, and sums over the batch;
a negative ``ignore_index`` is an index out of bounds there. Here ignored rows count nothing.
**Interacts with** mixup: ``sum_k t_k (1 - q_k + q_j(k))^gamma (-log q_k)``, so that mixing labels is mixing losses.
Class weights scale the whole sample. **Ties** with the true class do not count as lower; the first of several next
lower classes takes the gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss, Strength, named_strength
from maxsup.losses.reduction import LossOptions, ReductionOptions, target_columns
from maxsup.losses.relatives.focal import LOG_OF_ZERO, modulated_cross_entropy
from maxsup.losses.relatives.zipf_label_smoothing import first_places


def next_lower(log_probs: Tensor) -> Tensor:
    """For every class, the largest probability strictly below its own; 0 where there is none.

    Example:
        >>> next_lower(torch.tensor([[0.5, 0.2, 0.2, 0.1]]).log())
        tensor([[0.2000, 0.1000, 0.1000, 0.0000]])
    """
    # From the last class to the first, so that of equal classes the first stands next to the higher ones.
    ascending, order = log_probs.detach().flip(-1).sort(dim=-1, stable=True)
    order = log_probs.shape[-1] - 1 - order
    place = torch.zeros_like(order).scatter(-1, order, first_places(ascending)) - 1
    index = order.gather(-1, place.clamp(min=0))
    return log_probs.exp().gather(-1, index).masked_fill(place < 0, 0.0)


def dual_focal_costs(log_probs: Tensor, target: Tensor, gamma: float | Tensor) -> Tensor:
    """``-(1 - q_k + q_j)^gamma log q_k`` of the classes of the target; inf, without gradient, for a masked one."""
    own = target_columns(log_probs, target)
    if target.is_floating_point():
        lower = next_lower(log_probs)
    else:  # one class per row does not need all classes sorted
        lower = log_probs.masked_fill(log_probs >= own, -math.inf).max(dim=-1, keepdim=True).values.exp()
    masked = own == -math.inf
    present = own.masked_fill(masked, 0.0)
    lead = (lower - torch.expm1(present.clamp_min(LOG_OF_ZERO))).clamp_min(torch.finfo(log_probs.dtype).tiny)
    return (-lead.pow(gamma) * present).masked_fill(masked, math.inf)


def dual_focal_cross_entropy(
    input: Tensor, target: Tensor, gamma: float | Tensor = 5.0, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Dual focal loss.

    .. math:: -(1 - q_{gt} + q_j)^\gamma \log q_{gt}, \qquad q_j = \max \{ q_k : q_k < q_{gt} \}

    Example:
        >>> dual_focal_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.0293)
    """
    return modulated_cross_entropy(input, target, gamma, lambda log_q, y: dual_focal_costs(log_q, y, gamma), **options)


@LOSSES.register(
    "dual_focal",
    summary="focal loss that looks at the next lower class too",
    formula="-(1 - q_gt + q_j)^gamma log q_gt, q_j next lower",
    source="Tao et al. 2023",
)
class DualFocalLoss(RegularizedLoss):
    r"""Focal loss that also weighs the largest probability below that of the true class.

    .. math:: -(1 - q_{gt} + q_j)^\gamma \log q_{gt}, \qquad q_j = \max \{ q_k : q_k < q_{gt} \}

    Args:
        gamma: Exponent, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Tao et al., "Dual Focal Loss for Calibration", ICML 2023.

    Example:
        >>> criterion = DualFocalLoss(gamma=5.0)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.0293)
    """

    function = staticmethod(dual_focal_cross_entropy)
    strength = "gamma"
    gamma = named_strength()

    def __init__(self, gamma: Strength = 5.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(gamma, **options)
