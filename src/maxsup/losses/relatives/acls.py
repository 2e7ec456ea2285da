"""Adaptive and conditional label smoothing (ACLS): squared penalties beyond a margin, for the top and for the others.

**Formula.** ``CE + alpha (top relu(z_max - margin)^2 + others mean_{k != top} relu(z_max - z_k - margin)^2)``, in which
the ``z_max`` of the second term is a constant of the gradient: it raises low logits, the first term lowers the top one.
**Use it** as the successor of MbLS in comparisons of calibration.
**Default** ``alpha=0.1``, ``margin=10``, ``top=1``, ``others=0.1``, as in the released code, which calls the last two
``pos_lambda`` and ``neg_lambda``. **Source.** Park et al. 2023 (ICCV).
**Released code** counts the first term once for every class that ties for the top, and both terms for ignored rows,
whose label it accepts and does not use. Here the first of the tied classes is the top, and ignored rows count nothing.
**Interacts with** shifts: the first term depends on ``z_max`` itself, so a common offset of the logits matters. Mixup,
class weights and masked classes as MaxSup.
"""

from __future__ import annotations

import math

from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_number
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.mbls import check_margin
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions


def acls_penalty(rows: Tensor, margin: float, top: float, others: float) -> Tensor:
    """The penalty of rows of logits."""
    highest = rows.max(dim=-1).values
    masked = rows == -math.inf
    # The top class adds nothing to the sum: its distance to itself is 0, and a margin is not negative.
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

    ``margin`` is what the top logit, and its distance to each other one, may be at no cost; ``top`` and ``others`` are
    the weights of the two terms.

    Example:
        >>> acls_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]), margin=1.0)
        tensor(1.6876)
    """
    _check_own_options(margin, top, others)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, *_: acls_penalty(rows, margin, top, others), **options
    )


def _check_own_options(margin: float, top: float, others: float) -> None:
    check_margin(margin)
    check_number("top", top)
    check_number("others", others)


@LOSSES.register(
    "acls",
    summary="adaptive and conditional label smoothing: squared, beyond `margin=10`",
    formula="CE + alpha (relu(z_max - margin)^2 + 0.1 mean_k relu(sg(z_max) - z_k - margin)^2)",
    source="Park et al. 2023; released code",
)
class AdaptiveConditionalLabelSmoothingLoss(AlphaLoss):
    r"""Cross-entropy with adaptive and conditional label smoothing (ACLS).

    .. math::
        H(y, q) + \alpha \Bigl( \lambda_1 \max(0, z_{max} - m)^2
        + \frac{\lambda_2}{K - 1} \sum_{k \ne top} \max(0, \overline{z_{max}} - z_k - m)^2 \Bigr)

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        margin: Size of the top logit, and of its distance to another one, that is not penalised.
        top: Weight of the penalty on the top logit.
        others: Weight of the penalty on the distances to the other logits.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Park et al., "ACLS: Adaptive and Conditional Label Smoothing for Network Calibration", ICCV 2023.

    Example:
        >>> criterion = AdaptiveConditionalLabelSmoothingLoss(margin=1.0)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.6876)
    """

    function = staticmethod(acls_cross_entropy)
    own_options = ("margin", "top", "others")

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
        _check_own_options(margin, top, others)
        self.margin, self.top, self.others = margin, top, others
