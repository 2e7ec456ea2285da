"""Max Suppression (MaxSup): penalise the top logit instead of the true one.

**Formula.** ``CE + alpha (z_max - mean z)`` (paper, ``eq:maxsup-uni``). On a correct prediction that is label
smoothing; on a wrong one it is larger by ``alpha (z_max - z_gt)``: the true logit is spared, the wrong one pushed down.
**Use it** wherever ``nn.CrossEntropyLoss(label_smoothing=0.1)`` stands, with the same number as ``alpha``.
**Default** ``alpha=0.1`` (``tab:pre``); the paper's main tables raise it, ``alpha=Linear(0.1, 0.2)``.
**Interacts with** mixup and cutmix: the mixed label goes into the cross-entropy and the penalty ignores it; switch
smoothing off in the mixing. Class weights scale the whole sample, so they do not change how much is suppressed. Ignored
targets lose both terms. Half precision is computed in float32. ``-inf`` logits stay out of the mean.
**Ties** for the maximum: the first index takes the whole gradient.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from typing_extensions import Never, Unpack

from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.computing.penalties import MAXSUP
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import EmptyMean, ReductionName, confidence_weights, finite_mean, per_sample
from maxsup.losses.shards.loss import SplitLossOptions, SplitReductionOptions


def maxsup_penalty(input: Tensor) -> Tensor:
    r"""Gap between the top logit and the mean logit, one value per sample.

    .. math:: z_{max} - \frac{1}{K} \sum_k z_k

    Example:
        >>> maxsup_penalty(torch.tensor([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
        tensor([2., 0.])
    """
    return per_sample(input, top_gap)


def top_gap(rows: Tensor) -> Tensor:
    """The penalty of rows of logits."""
    # max(dim), not amax: amax splits the gradient between tied logits, but the paper gives all of it to one.
    return rows.max(dim=-1).values - finite_mean(rows)


def maxsup_cross_entropy(
    input: Tensor, target: Tensor, alpha: float | Tensor = 0.1, **options: Unpack[SplitReductionOptions]
) -> Tensor:
    r"""Cross-entropy with Max Suppression.

    .. math:: H(y, q) + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    Args:
        input: Logits, ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``.
        target: Class indices, or probabilities of the shape of ``input``.
        alpha: Strength; 0 is ``F.cross_entropy`` to the bit.
        options: ``weight``, ``ignore_index`` and ``reduction`` as in ``F.cross_entropy``; ``num_items``: denominator of
            the mean in place of the number of targets; ``empty``: ``"nan"`` as torch or ``"zero"``, the mean when no
            target is left; ``z_loss``: factor of ``(log sum_k exp z_k)^2``. Every loss takes them. ``group`` and
            ``vocab_start``: see :class:`maxsup.losses.shards.loss.SplitOptions`.

    Example:
        >>> logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]])
        >>> maxsup_cross_entropy(logits, torch.tensor([4]), alpha=0.1)  # wrong: the top class is 0
        tensor(1.7244)
    """
    return penalized_cross_entropy(input, target, alpha, lambda rows, *_: top_gap(rows), fused=MAXSUP, **options)


@LOSSES.register(
    "maxsup", summary="Max Suppression", formula="CE + alpha (z_max - mean z)", source="Zhou et al. 2025, eq:maxsup-uni"
)
class MaxSupLoss(AlphaLoss):
    r"""Cross-entropy with Max Suppression, instead of ``nn.CrossEntropyLoss(label_smoothing=alpha)``.

    .. math:: H(y, q) + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    In ``eval()`` mode it is ``F.cross_entropy``.

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        weight: One factor per class, which scales the whole sample.
        ignore_index: Label of targets that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        adaptive: Scale alpha by ``1 - H(q) / log K`` of each sample, without gradient. The paper reports a run with
            "adaptive alpha" (``tab:ablation_alpha``) and does not define it; this is our reading.
        empty: The mean when no target is left: ``"nan"``, as in torch, or ``"zero"``, which keeps the graph.
        z_loss: Factor of ``(log sum_k exp z_k)^2``, which is added to every sample that is not ignored; 0 adds nothing.
        group: Processes that hold parts of the classes in their logits, with the same labels; each gets the loss of the
            whole. Class weights are those of all classes, probability targets are split like the logits.
        vocab_start: Index of the first class of this process, if the parts are not in the order of the ranks.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Zhou et al., "MaxSup: Overcoming Representation Collapse in Label Smoothing", 2025.

    Example:
        >>> criterion = MaxSupLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target), criterion.eval()(logits, target)
        (tensor(1.7244), tensor(1.5744))
    """

    function = staticmethod(maxsup_cross_entropy)
    takes_parts = True

    def __init__(
        self,
        alpha: Strength = 0.1,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: ReductionName = "mean",
        *,
        adaptive: bool = False,
        empty: EmptyMean = "nan",
        z_loss: float = 0.0,
        group: Any = None,
        vocab_start: int | None = None,
        **unknown: Never,
    ) -> None:
        shared: SplitLossOptions = {
            "weight": weight, "ignore_index": ignore_index, "reduction": reduction, "empty": empty, "z_loss": z_loss,
            "group": group, "vocab_start": vocab_start,
        }  # fmt: skip
        super().__init__(alpha, **shared, **unknown)
        self.adaptive = adaptive

    def _objective(self, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        if not self.adaptive:
            return maxsup_cross_entropy(input, target, options.pop("alpha", self._value), **options)

        def penalty(rows: Tensor, log_probs: Tensor, target: Tensor) -> Tensor:
            return confidence_weights(rows, log_probs).detach() * top_gap(rows)

        return penalized_cross_entropy(input, target, options.pop("alpha", self._value), penalty, **options)
