"""Margin-based label smoothing (MbLS): pull down the top logit only from what lies further below it than a margin.

**Formula.** ``CE + alpha mean_k relu(z_max - z_k - margin)``. With ``margin=0`` every term is open and their mean is
``z_max - mean z``: MaxSup, computed by its own code and equal to it to the bit (docs/mbls.md).
**Use it** where MaxSup pushes the logits together more than you like: distances below the margin are free.
**Default** ``alpha=0.1``, ``margin=10``, as released. On data whose logits never spread that far the term is 0; the
monitor reports the share of logits beyond a margin.
**Source.** Liu et al. 2022 (CVPR). The released code keeps the term of rows whose label is a negative ``ignore_index``
and fails where a single row is left; here ignored rows always lose both terms.
**Interacts with** mixup, class weights, half precision and masked classes as MaxSup. **Ties** for the top logit: the
first index takes the gradient. A distance of exactly the margin counts as closed; at margin 0 MaxSup's rule holds.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_number
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.computing.closed_form import Factor
from maxsup.losses.computing.penalties import beyond_margin
from maxsup.losses.maxsup import top_gap
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import finite_mean
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions


def margin_gap(rows: Tensor, margin: float) -> Tensor:
    """Mean over classes of the distance below the top beyond ``margin``."""
    if margin == 0:
        return top_gap(rows)
    top = rows.max(dim=-1, keepdim=True).values
    return finite_mean((top - rows - margin).relu().masked_fill(rows == -math.inf, -math.inf))


def mbls_cross_entropy(
    input: Tensor, target: Tensor, alpha: Factor = 0.1, margin: float = 10.0, **options: Unpack[SplitReductionOptions]
) -> Tensor:
    r"""Cross-entropy with margin-based label smoothing; ``margin=0`` is :func:`maxsup_cross_entropy` to the bit.

    .. math:: H(y, q) + \frac{\alpha}{K} \sum_k \max(0, z_{max} - z_k - m)

    Example:
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> mbls_cross_entropy(logits, torch.tensor([4]), margin=1.0)
        tensor(1.6444)
    """
    check_margin(margin)
    return penalized_cross_entropy(
        input, target, alpha, lambda rows, *_: margin_gap(rows, margin), fused=beyond_margin(margin), **options
    )


def check_margin(margin: Any) -> None:
    """Raise unless ``margin`` is a number of at least 0."""
    check_number("margin", margin, at_low="for MaxSup")


@LOSSES.register(
    "mbls",
    summary="margin-based label smoothing: `margin=10`; margin 0 is MaxSup",
    formula="CE + alpha mean_k relu(z_max - z_k - margin)",
    source="Liu et al. 2022",
)
class MarginLabelSmoothingLoss(AlphaLoss):
    r"""Cross-entropy with margin-based label smoothing (MbLS), which is MaxSup at ``margin=0``.

    .. math:: H(y, q) + \frac{\alpha}{K} \sum_k \max(0, z_{max} - z_k - m)

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        margin: Distance from the top logit that is not penalised; 0 is MaxSup.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty``, ``z_loss``, ``group`` and ``vocab_start``, as
            in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Liu et al., "The Devil is in the Margin: Margin-based Label Smoothing for Network Calibration", CVPR 2022.

    Example:
        >>> criterion = MarginLabelSmoothingLoss(margin=1.0)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.6444)
    """

    function = staticmethod(mbls_cross_entropy)
    takes_parts = True
    own_options = ("margin",)

    def __init__(self, alpha: Strength = 0.1, margin: float = 10.0, **options: Unpack[SplitLossOptions]) -> None:
        super().__init__(alpha, **options)
        check_margin(margin)
        self.margin = margin

    def extra_repr(self) -> str:
        """The options, as ``print(criterion)`` shows them."""
        return super().extra_repr().replace(", ignore_index", f", margin={self.margin}, ignore_index")
