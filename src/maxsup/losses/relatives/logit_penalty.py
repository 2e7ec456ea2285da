"""Logit Penalty: keep all logits small.

**Formula.** ``CE + beta/2 ||z||^2``, summed over classes.
**Use it** as the regulariser that shrinks features most; the paper's comparison.
**Default** ``beta=2e-3``, from the configuration released with the paper; the paper itself states no value.
**Source.** Dauphin and Cubuk 2021; Kornblith et al. 2021.
**Interacts with** shifts: unlike most losses it is not invariant to a common offset of the logits but pulls their mean
to 0. Mixup, ignored targets and class weights as MaxSup. In fp16 the sum would overflow at a typical logit of 8; it is
computed in float32.
"""

from __future__ import annotations

import math

from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss, Strength, named_strength
from maxsup.losses.computing.penalties import LOGIT_PENALTY
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions


def logit_penalty_cross_entropy(
    input: Tensor, target: Tensor, beta: float | Tensor = 2e-3, **options: Unpack[SplitReductionOptions]
) -> Tensor:
    r"""Cross-entropy with a penalty on the squared norm of the logits.

    .. math:: H(y, q) + \frac{\beta}{2} \sum_k z_k^2

    Example:
        >>> logit_penalty_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.5807)
    """

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        return rows.masked_fill(rows == -math.inf, 0.0).square().sum(dim=-1) / 2

    return penalized_cross_entropy(input, target, beta, penalty, fused=LOGIT_PENALTY, name="beta", **options)


@LOSSES.register(
    "logit_penalty",
    summary="squared norm of the logits",
    formula="CE + beta/2 ||z||^2",
    source="Dauphin & Cubuk 2021; released config",
)
class LogitPenaltyLoss(RegularizedLoss):
    r"""Cross-entropy with a penalty on the squared norm of the logits.

    .. math:: H(y, q) + \frac{\beta}{2} \sum_k z_k^2

    Args:
        beta: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty``, ``z_loss``, ``group`` and ``vocab_start``, as
            in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Dauphin and Cubuk, "Deconstructing the Regularization of BatchNorm", ICLR 2021; Kornblith et al., "Why Do Better
        Loss Functions Lead to Less Transferable Features?", NeurIPS 2021.

    Example:
        >>> criterion = LogitPenaltyLoss(beta=0.002)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.5807)
    """

    function = staticmethod(logit_penalty_cross_entropy)
    takes_parts = True
    strength = "beta"
    beta = named_strength()

    def __init__(self, beta: Strength = 2e-3, **options: Unpack[SplitLossOptions]) -> None:
        super().__init__(beta, **options)
