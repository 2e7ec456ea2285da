"""Confidence Penalty: reward the entropy of the prediction.

**Formula.** ``CE - beta H(q)``.
**Use it** as the label-free relative of label smoothing in the paper's appendix.
**Default** ``beta=0.1`` (paper, appendix; the best value of Pereyra et al. 2017 for CIFAR-10 without augmentation).
**Interacts with** mixup, ignored targets and class weights as MaxSup: the term does not depend on the label.
"""

from __future__ import annotations

from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss, Strength, named_strength
from maxsup.losses.computing.penalties import CONFIDENCE_PENALTY
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions, expected_log


def confidence_penalty_cross_entropy(
    input: Tensor, target: Tensor, beta: float | Tensor = 0.1, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy minus a share of the entropy of the prediction.

    .. math:: H(y, q) - \beta H(q)

    Example:
        >>> confidence_penalty_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.4538)
    """

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        return expected_log(log_probs.exp(), log_probs)

    return penalized_cross_entropy(input, target, beta, penalty, fused=CONFIDENCE_PENALTY, name="beta", **options)


@LOSSES.register("confidence_penalty", summary="entropy bonus", formula="CE - beta H(q)", source="Pereyra et al. 2017")
class ConfidencePenaltyLoss(RegularizedLoss):
    r"""Cross-entropy minus a share of the entropy of the prediction (confidence penalty).

    .. math:: H(y, q) - \beta H(q)

    Args:
        beta: Share of the entropy, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Pereyra et al., "Regularizing Neural Networks by Penalizing Confident Output Distributions", 2017.

    Example:
        >>> criterion = ConfidencePenaltyLoss(beta=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.4538)
    """

    function = staticmethod(confidence_penalty_cross_entropy)
    strength = "beta"
    beta = named_strength()

    def __init__(self, beta: Strength = 0.1, **options: Unpack[LossOptions]) -> None:
        super().__init__(beta, **options)
