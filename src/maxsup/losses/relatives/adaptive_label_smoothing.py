"""Adaptive label smoothing with self-knowledge: smooth towards an earlier self, more where the model is sure.

**Formula.** ``H((1 - a_i) y + a_i p_teacher, q)`` with ``a_i = 1 - H(q_i) / log K``, without gradient through ``a_i``.
**Use it** as a method of the paper's appendix; the teacher is the best validation checkpoint of the same model.
**Needs** ``teacher_logits`` of the same inputs (same augmented view), from the teacher in evaluation mode.
**Source.** Lee, Cheung and Zhang 2022. They published no code: formula from the literature, temperature 1.
**Interacts with** mixup: the mixed label takes the place of ``y``, the teacher sees the mixed image. Late in training
most weight is on the teacher. Class weights scale the whole sample.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Never, Unpack

from maxsup.losses.base import LOSSES, RegularizedLoss
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import (
    LossOptions,
    ReductionOptions,
    class_rows,
    confidence_weights,
    expected_log,
    per_sample,
    target_values,
)


def adaptive_alpha(input: Tensor) -> Tensor:
    r"""How sure each prediction is, from 0 (uniform) to 1.

    .. math:: 1 - \frac{H(q)}{\log K}

    Example:
        >>> adaptive_alpha(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]))
        tensor([0.2504, 0.0000])
    """
    return per_sample(input, lambda rows: confidence_weights(rows, F.log_softmax(rows, dim=-1)))


def adaptive_label_smoothing_cross_entropy(
    input: Tensor, target: Tensor, teacher_logits: Tensor, **options: Unpack[ReductionOptions]
) -> Tensor:
    r"""Cross-entropy to a target mixed with the teacher's prediction.

    .. math:: (1 - a_i) H(y, q) + a_i H(p_{teacher}, q), \qquad a_i = 1 - \frac{H(q_i)}{\log K}

    Example:
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> adaptive_label_smoothing_cross_entropy(logits, torch.tensor([4]), teacher_logits=torch.zeros(1, 5))
        tensor(1.6996)
    """
    check_teacher(teacher_logits, input)
    teacher = F.softmax(class_rows(teacher_logits).detach(), dim=-1)

    def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
        towards_teacher = target_values(log_probs, target) - expected_log(teacher, log_probs)
        return confidence_weights(rows, log_probs).detach() * towards_teacher

    return penalized_cross_entropy(input, target, 1.0, penalty, **options)


def check_teacher(teacher_logits: Tensor, input: Tensor) -> None:
    """Raise unless the teacher's logits have the shape of the student's."""
    if teacher_logits.shape != input.shape:
        raise ValueError(
            f"teacher_logits must have the shape of input, {tuple(input.shape)}; got {tuple(teacher_logits.shape)}. "
            "Run a teacher of the same classes on the same batch."
        )


@LOSSES.register(
    "adaptive_ls",
    summary="self-distillation with a strength from the model's own certainty",
    formula="H((1 - a_i) y + a_i p_teacher, q), a_i = 1 - H(q_i)/log K",
    source="Lee et al. 2022",
)
class AdaptiveLabelSmoothingLoss(RegularizedLoss):
    r"""Cross-entropy to a target that is mixed with the prediction of a teacher.

    .. math:: (1 - a_i) H(y, q) + a_i H(p_{teacher}, q), \qquad a_i = 1 - \frac{H(q_i)}{\log K}

    Args:
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`. There
            is no strength: each sample has its own, from its entropy.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Lee, Cheung and Zhang, "Adaptive Label Smoothing with Self-Knowledge in Natural Language Generation", EMNLP
        2022.

    Example:
        >>> criterion = AdaptiveLabelSmoothingLoss()
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target, teacher_logits=torch.zeros(1, 5))
        tensor(1.6996)
    """

    function = staticmethod(adaptive_label_smoothing_cross_entropy)
    strength = None
    needs = ("teacher_logits",)

    def __init__(self, *unnamed: Never, **options: Unpack[LossOptions]) -> None:
        super().__init__(*unnamed, **options)
