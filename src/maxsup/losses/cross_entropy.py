"""Plain cross-entropy, the baseline.

**Formula.** ``lse(z) - z_gt``.
**Use it** as the reference of every comparison, and always in evaluation.
**Interacts with** nothing: it is ``F.cross_entropy`` with ``num_items`` and ``empty``, and ignored rows may be nan.
"""

from __future__ import annotations

from torch import Tensor
from typing_extensions import Never, Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss
from maxsup.losses.computing.penalties import NO_PENALTY
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions


def cross_entropy(input: Tensor, target: Tensor, **options: Unpack[SplitReductionOptions]) -> Tensor:
    r"""Cross-entropy, bit-equal to ``F.cross_entropy``.

    .. math:: \log \sum_k e^{z_k} - z_{gt}

    Example:
        >>> cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.5744)
    """
    return penalized_cross_entropy(
        input, target, 0.0, lambda rows, *_: rows.new_zeros(len(rows)), fused=NO_PENALTY, **options
    )


@LOSSES.register("ce", summary="cross-entropy", formula="lse(z) - z_gt", source="standard")
class CrossEntropyLoss(RegularizedLoss):
    r"""Plain cross-entropy, bit-equal to ``nn.CrossEntropyLoss``.

    .. math:: \log \sum_k e^{z_k} - z_{gt}

    Args:
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty``, ``z_loss``, ``group`` and ``vocab_start``, as
            in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    Example:
        >>> criterion = CrossEntropyLoss()
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.5744)
    """

    function = staticmethod(cross_entropy)
    takes_parts = True
    strength = None

    def __init__(self, *unnamed: Never, **options: Unpack[SplitLossOptions]) -> None:
        super().__init__(*unnamed, **options)
