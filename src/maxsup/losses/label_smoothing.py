"""Label smoothing (LS), and what it does to wrong predictions.

**Formula.** ``CE + alpha (z_gt - mean z)`` (paper, ``th:ce_ls``), the same number as
``F.cross_entropy(label_smoothing=alpha)``.
**Use it** as the method MaxSup is compared with.
**Default** ``alpha=0.1``; ``alpha`` may be a schedule.
**Conventions.** ``convention="k"`` spreads alpha over all K classes (paper, torch, timm), ``"k-1"`` over the K - 1
others (fairseq, Megatron), which is the same loss at ``alpha K / (K - 1)``.
**Interacts with** class weights: torch weights the smoothing part of each class, so that weights change how much is
smoothed; here they scale the whole sample (``weight_mode="sample"``), ``weight_mode="torch"`` keeps torch's arithmetic.
Mixup and cutmix: the mixed label is smoothed here, so it must not be smoothed there.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_choice, check_number
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.computing.penalties import LABEL_SMOOTHING
from maxsup.losses.computing.plain import plain_cross_entropy
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import (
    HALF,
    check_strength,
    class_rows,
    finite_mean,
    num_classes,
    require_labels,
    sample_shape,
    target_values,
)
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions, refuse_split

Convention = Literal["k", "k-1"]
WeightMode = Literal["sample", "torch"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
WEIGHT_MODES: tuple[WeightMode, ...] = get_args(WeightMode)


class LabelSmoothingTerms(NamedTuple):
    """The two parts of ``z_gt - mean z`` per sample (paper, ``eq:decomp``, without alpha)."""

    regularization: Tensor
    error_amplification: Tensor


def label_smoothing_terms(input: Tensor, target: Tensor) -> LabelSmoothingTerms:
    r"""What label smoothing penalises, split into a helpful and a harmful part.

    .. math::
        \frac{1}{K} \sum_{z_m < z_{gt}} (z_{gt} - z_m), \qquad \frac{1}{K} \sum_{z_n > z_{gt}} (z_{gt} - z_n)

    The second is 0 on a correct prediction and negative on a wrong one, where lowering the true logit lowers the loss.

    Example:
        >>> terms = label_smoothing_terms(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        >>> terms.regularization, terms.error_amplification
        (tensor([0.7000]), tensor([-0.2000]))
    """
    require_labels("label_smoothing_terms", target)
    rows = class_rows(input)
    parts = decomposition(rows, target.reshape(-1).long())
    return LabelSmoothingTerms(*(part.reshape(sample_shape(input)) for part in parts))


def decomposition(rows: Tensor, labels: Tensor) -> LabelSmoothingTerms:
    """The two terms of rows of logits."""
    masked = rows == -math.inf
    gap = (target_values(rows, labels).unsqueeze(-1) - rows).masked_fill(masked, 0.0)
    count = (~masked).sum(dim=-1)
    return LabelSmoothingTerms(gap.clamp(min=0).sum(dim=-1) / count, gap.clamp(max=0).sum(dim=-1) / count)


def target_gap(rows: Tensor, target: Tensor) -> Tensor:
    """``z_gt - mean z`` of rows of logits; ``z_gt`` is the expected logit under probability targets."""
    return target_values(rows, target) - finite_mean(rows)


def label_smoothing_cross_entropy(
    input: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    *,
    convention: Convention = "k",
    weight_mode: WeightMode = "sample",
    **options: Unpack[SplitReductionOptions],
) -> Tensor:
    r"""Cross-entropy with label smoothing.

    .. math:: H(y, q) + \alpha \Bigl( z_{gt} - \frac{1}{K} \sum_k z_k \Bigr)

    Example:
        >>> label_smoothing_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.6244)
    """
    check_choice("convention", convention, CONVENTIONS)
    check_choice("weight_mode", weight_mode, WEIGHT_MODES)
    check_strength("alpha", alpha, high=1.0, input=None if weight_mode == "torch" else input)
    if not isinstance(alpha, Tensor) and alpha == 0:
        return plain_cross_entropy(input, target, **options)
    if convention == "k-1":
        if options.get("group") is not None:
            refuse_split("convention='k-1'")
        alpha = alpha * num_classes(input) / max(num_classes(input) - 1, 1)
    if weight_mode == "torch":
        _check_torch_mode(options.get("z_loss", 0))
        check_number("alpha", float(alpha), high=1.0)
        rows = input.float() if input.dtype in HALF else input
        return plain_cross_entropy(rows, target, float(alpha), **options)

    return penalized_cross_entropy(
        input, target, alpha, lambda rows, log_probs, target: target_gap(rows, target), fused=LABEL_SMOOTHING, **options
    )


def _check_torch_mode(z_loss: float) -> None:
    if z_loss != 0:
        raise ValueError(
            f"z_loss must be 0 with weight_mode='torch', which is torch's own arithmetic; got {z_loss!r}. "
            "Use weight_mode='sample'."
        )


@LOSSES.register(
    "ls", summary="label smoothing", formula="CE + alpha (z_gt - mean z)", source="Szegedy et al. 2016; th:ce_ls"
)
class LabelSmoothingLoss(AlphaLoss):
    r"""Cross-entropy with label smoothing, as ``nn.CrossEntropyLoss(label_smoothing=alpha)``.

    .. math:: H(y, q) + \alpha \Bigl( z_{gt} - \frac{1}{K} \sum_k z_k \Bigr)

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        convention: ``"k"`` spreads ``alpha`` over all classes, as torch and timm do; ``"k-1"`` over all but the true
            one, as fairseq and Megatron do.
        weight_mode: ``"sample"``: class weights scale the whole sample. ``"torch"``: they also weigh each class's share
            of the smoothing, as in torch.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty``, ``z_loss``, ``group`` and ``vocab_start``, as
            in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016.

    Example:
        >>> criterion = LabelSmoothingLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.6244)
    """

    function = staticmethod(label_smoothing_cross_entropy)
    takes_parts = True
    strength_limit = 1.0
    own_options = ("convention", "weight_mode")

    def __init__(
        self,
        alpha: Strength = 0.1,
        *,
        convention: Convention = "k",
        weight_mode: WeightMode = "sample",
        **options: Unpack[SplitLossOptions],
    ) -> None:
        super().__init__(alpha, **options)
        check_choice("convention", convention, CONVENTIONS)
        check_choice("weight_mode", weight_mode, WEIGHT_MODES)
        if weight_mode == "torch":
            _check_torch_mode(self.z_loss)
        self.convention, self.weight_mode = convention, weight_mode
