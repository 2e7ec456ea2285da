"""Adaptive and conditional label smoothing (ACLS): a squared penalty beyond a margin, apart for the top and the others.

**Formula.** ``CE + alpha (top relu(z_max - margin)^2 + others mean_{k != top} relu(z_max - z_k - margin)^2)``, in which
the ``z_max`` of the second term is a constant of the gradient: it raises low logits, the first term lowers the top one.
**Use it** as the successor of MbLS in comparisons of calibration.
**Default** ``alpha=0.1``, ``margin=10``, ``top=1``, ``others=0.1``, those of the released code, where the last two are
called ``pos_lambda`` and ``neg_lambda``. **Source.** Park et al. 2023 (ICCV).
**Released code** counts the first term once for every class that ties for the top, and both terms for ignored rows,
whose label it accepts and does not use. Here the first of the tied classes is the top, and ignored rows count nothing.
**Interacts with** shifts: the first term looks at ``z_max`` itself, so a common offset of the logits matters. Mixup,
class weights and masked classes as MaxSup.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_number
from maxsup.losses.base import LOSSES, AlphaLoss, LossOptions, Strength
from maxsup.losses.mbls import check_margin
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import ReductionOptions


def acls_penalty(rows: Tensor, margin: float, top: float, others: float) -> Tensor:
    """The penalty of rows of logits."""
    highest = rows.max(dim=-1).values
    masked = rows == -math.inf
    # The distance of the top class to itself is 0, and a margin is not negative: it adds nothing to the sum.
    beyond = (highest.detach().unsqueeze(-1) - rows - margin).masked_fill(masked, 0.0).relu()
    num_others = ((~masked).sum(dim=-1) - 1).clamp(min=1)
    return top * (highest - margin).relu().square() + others * beyond.square().sum(dim=-1) / num_others


def acls_cross_entropy(
    input: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    margin: float = 10.0,
    *,
    top: float = 1.0,
    others: float = 0.1,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Cross-entropy with adaptive and conditional label smoothing.

    .. math::
        H(y, q) + \alpha \Bigl( \lambda_1 \max(0, z_{max} - m)^2
        + \frac{\lambda_2}{K - 1} \sum_{k \ne top} \max(0, \overline{z_{max}} - z_k - m)^2 \Bigr)

    Args:
        input: Logits.
        target: Class indices, or probabilities of the shape of ``input``.
        alpha: Strength.
        margin: What the top logit, and its distance to each other one, may be at no cost.
        top: Weight of the top logit's term.
        others: Weight of the others' term.
        options: Those of every loss.

    Example:
        >>> acls_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]), margin=1.0)
        tensor(1.6876)
    """
    check_margin(margin)
    for name, value in (("top", top), ("others", others)):
        check_number(name, value)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, log_probs, target: acls_penalty(rows, margin, top, others), **options
    )


@LOSSES.register(
    "acls",
    summary="adaptive and conditional label smoothing: squared, beyond `margin=10`",
    formula="CE + alpha (relu(z_max - margin)^2 + 0.1 mean_k relu(sg(z_max) - z_k - margin)^2)",
    source="Park et al. 2023; released code",
)
class AdaptiveConditionalLabelSmoothingLoss(AlphaLoss):
    """Module form of :func:`acls_cross_entropy`."""

    function = staticmethod(acls_cross_entropy)

    def __init__(
        self,
        alpha: Strength = 0.1,
        margin: float = 10.0,
        *,
        top: float = 1.0,
        others: float = 0.1,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(alpha, **options)
        check_margin(margin)
        for name, value in (("top", top), ("others", others)):
            check_number(name, value)
        self.margin, self.top, self.others = margin, top, others

    def _objective(self, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        return acls_cross_entropy(input, target, self._value, self.margin, top=self.top, others=self.others, **options)
