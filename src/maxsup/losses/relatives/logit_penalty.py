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
from maxsup.losses.reduction import LossOptions, ReductionOptions


def logit_penalty_cross_entropy(
    input: Tensor, target: Tensor, beta: float | Tensor = 2e-3, **options: Unpack[ReductionOptions]
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
    """Module form of :func:`logit_penalty_cross_entropy`."""

    function = staticmethod(logit_penalty_cross_entropy)
    strength = "beta"
    beta = named_strength()

    def __init__(self, beta: Strength = 2e-3, **options: Unpack[LossOptions]) -> None:
        super().__init__(beta, **options)
