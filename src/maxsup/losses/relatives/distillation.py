"""Distillation: learn from the labels and from the softened predictions of a teacher.

**Formula.** ``(1 - alpha) CE + alpha T^2 KL(softmax(teacher / T) || softmax(z / T))``.
**Use it** to train a small network from a large one. Teachers trained with label smoothing reveal less about which
classes are alike (Mueller et al. 2019); the study ``distillation`` asks the same of MaxSup and MbLS.
**Needs** ``teacher_logits`` of the same inputs (same augmented view), from a teacher in evaluation mode.
**Default** ``alpha=0.9``, ``temperature=4``, the usual pair on CIFAR. ``T^2`` keeps the size of the second term's
gradient independent of the temperature. **Source.** Hinton et al. 2015.
**Interacts with** mixup: the mixed label goes into the cross-entropy, the teacher sees the mixed image. Class weights
scale the whole sample. A class that is masked in the student does not count, whatever the teacher predicts for it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_number
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions, class_rows, expected_log, target_values
from maxsup.losses.relatives.adaptive_label_smoothing import check_teacher


def distillation_cross_entropy(
    input: Tensor,
    target: Tensor,
    teacher_logits: Tensor,
    alpha: float | Tensor = 0.9,
    temperature: float = 4.0,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Cross-entropy mixed with the divergence from a teacher's softened prediction.

    .. math:: (1 - \alpha) H(y, q) + \alpha T^2 \, KL(p^T_{teacher} \,\Vert\, q^T)

    ``teacher_logits`` have the shape of ``input`` and get no gradient; ``alpha`` is the share of the teacher, from 0 to
    1. The larger the ``temperature`` ``T``, the more the teacher's small probabilities count.

    Example:
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> distillation_cross_entropy(logits, torch.tensor([4]), teacher_logits=torch.zeros(1, 5), alpha=0.5)
        tensor(1.0360)
    """
    check_number("temperature", temperature, above=True)
    check_teacher(teacher_logits, input)
    teacher = F.softmax(class_rows(teacher_logits).detach() / temperature, dim=-1)
    certainty = torch.xlogy(teacher, teacher).sum(dim=-1)

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        softened = F.log_softmax(rows / temperature, dim=-1)
        divergence = certainty - expected_log(teacher, softened)
        return temperature**2 * divergence + target_values(log_probs, target)

    return penalized_cross_entropy(input, target, alpha, penalty, limit=1.0, **options)


@LOSSES.register(
    "distillation",
    summary="labels and a teacher's softened predictions",
    formula="(1 - alpha) CE + alpha T^2 KL(teacher/T || z/T)",
    source="Hinton et al. 2015",
)
class DistillationLoss(AlphaLoss):
    r"""Cross-entropy mixed with the divergence from the softened prediction of a teacher.

    .. math:: (1 - \alpha) H(y, q) + \alpha T^2 \, KL(p^T_{teacher} \,\Vert\, q^T)

    Args:
        alpha: Share of the teacher, from 0 to 1, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress``
            advances.
        temperature: ``T``, by which both networks' logits are divided. Larger values give small probabilities more
            weight.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Hinton, Vinyals and Dean, "Distilling the Knowledge in a Neural Network", 2015.

    Example:
        >>> criterion = DistillationLoss(alpha=0.5)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target, teacher_logits=torch.zeros(1, 5))
        tensor(1.0360)
    """

    function = staticmethod(distillation_cross_entropy)
    strength_limit = 1.0
    own_options = ("temperature",)
    needs = ("teacher_logits",)

    def __init__(self, alpha: Strength = 0.9, temperature: float = 4.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(alpha, **options)
        check_number("temperature", temperature, above=True)
        self.temperature = temperature
