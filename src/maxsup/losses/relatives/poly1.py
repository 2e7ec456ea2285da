"""Poly-1: the first term of cross-entropy's expansion in ``1 - q_gt``, with a weight of its own.

**Formula.** ``CE + epsilon (1 - q_gt)``. Cross-entropy is ``sum_j (1 - q_gt)^j / j``; the term adds to ``j = 1``.
**Use it** as the cheapest variation of cross-entropy: one number to tune. It pushes all samples, right or wrong, and
smooths nothing.
**Default** ``epsilon=1``, as in the code printed with the paper; optax has 2. Negative values, which the paper uses for
detection, are refused: they reward uncertainty as the confidence penalty does.
**Source.** Leng et al. 2022 (ICLR).
**Interacts with** mixup: ``q_gt`` is the mean probability under the mixed label. Class weights scale the whole sample.
"""

from __future__ import annotations

from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss, Strength, named_strength
from maxsup.losses.computing.penalties import POLY1
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions, target_values


def poly1_cross_entropy(
    input: Tensor, target: Tensor, epsilon: float | Tensor = 1.0, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy plus a share of the probability that the true class does not get.

    .. math:: H(y, q) + \epsilon (1 - q_{gt})

    Example:
        >>> poly1_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(2.3673)
    """

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        return 1 - target_values(log_probs.exp(), target)

    return penalized_cross_entropy(input, target, epsilon, penalty, fused=POLY1, name="epsilon", **options)


@LOSSES.register(
    "poly1",
    summary="cross-entropy plus the probability the true class does not get",
    formula="CE + epsilon (1 - q_gt)",
    source="Leng et al. 2022",
)
class Poly1Loss(RegularizedLoss):
    r"""Cross-entropy plus a share of the probability that the true class does not get (Poly-1).

    .. math:: H(y, q) + \epsilon (1 - q_{gt})

    Args:
        epsilon: Strength; at least 0, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Leng et al., "PolyLoss: A Polynomial Expansion Perspective of Classification Loss Functions", ICLR 2022.

    Example:
        >>> criterion = Poly1Loss(epsilon=1.0)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(2.3673)
    """

    function = staticmethod(poly1_cross_entropy)
    strength = "epsilon"
    epsilon = named_strength()

    def __init__(self, epsilon: Strength = 1.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(epsilon, **options)
