"""Zipf label smoothing: a power law over the other classes, ranked by the sample itself.

**Formula.** ``CE + alpha KL(p || q~)``: ``q~`` is the softmax over the K - 1 other classes, ``p_k`` is proportional to
``rank_k^-power`` over them. Only ranks define the target, so no gradient flows through it.
**Ranks.** ``ranking="dense"``: every position of the last feature map votes for its top class and votes rank the
classes. Ties share the best rank, so classes without a vote share one. Give ``dense_logits`` of shape ``(N, K, ...)``.
``ranking="logits"``: ranks of the logits themselves. The true class keeps its rank and is then left out.
**Default** ``alpha=0.1`` (the authors' value for CIFAR-100 and ImageNet, 1.0 for TinyImageNet and iNaturalist).
**Source.** Liang et al. 2022; its published commands all use dense ranks.
**Interacts with** mixup: needs one true class, so probability targets are refused. Masked classes take no share.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_choice, check_number
from maxsup.losses.base import LOSSES, AlphaLoss, Strength
from maxsup.losses.penalized import penalized_cross_entropy
from maxsup.losses.reduction import LossOptions, ReductionOptions, class_rows, expected_log, num_classes, require_labels

Ranking = Literal["logits", "dense"]
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)


def dense_votes(dense_logits: Tensor) -> Tensor:
    """How many positions of ``(N, K, d1, ...)`` logits have each class on top, ``(N, K)``.

    Example:
        >>> dense_votes(torch.tensor([[[5.0, 4.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]]))
        tensor([[2., 1., 0.]])
    """
    winners = dense_logits.flatten(start_dim=2).argmax(dim=1)
    return F.one_hot(winners, dense_logits.shape[1]).sum(dim=1).to(torch.float32)


def competition_ranks(scores: Tensor) -> Tensor:
    """Rank of each entry in its row, 1 for the largest; equal entries share the smallest rank.

    Example:
        >>> competition_ranks(torch.tensor([[3.0, 0.0, 7.0, 0.0]]))
        tensor([[2, 3, 1, 3]])
    """
    descending, order = scores.sort(dim=-1, descending=True)
    return 1 + torch.zeros_like(order).scatter(-1, order, first_places(descending))


def first_places(ordered: Tensor) -> Tensor:
    """For every entry of rows that are sorted, the place of the first one that equals it.

    Example:
        >>> first_places(torch.tensor([[7.0, 3.0, 0.0, 0.0]]))
        tensor([[0, 1, 2, 2]])
    """
    is_new = F.pad(ordered[..., 1:] != ordered[..., :-1], (1, 0), value=True)
    group = is_new.cumsum(dim=-1) - 1
    places = torch.arange(ordered.shape[-1], device=ordered.device).expand_as(group)
    # Not cummax, which a compiler cannot trace for rows that a mask picks.
    return places.scatter_reduce(-1, group, places, "amin", include_self=False).gather(-1, group)


def zipf_divergence(rows: Tensor, labels: Tensor, scores: Tensor, power: float) -> Tensor:
    """KL divergence from the power law over the other classes to the prediction over them, per row."""
    classes = torch.arange(rows.shape[-1], device=rows.device)
    left_out = (labels.unsqueeze(-1) == classes) | (rows == -math.inf)
    shares = competition_ranks(scores).to(rows.dtype).pow(-power).masked_fill(left_out, 0.0)
    shares = shares / shares.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    # With a single class there is no other, and a row of -inf would be nan.
    alone = left_out.all(dim=-1, keepdim=True)
    log_probs = F.log_softmax(rows.masked_fill(left_out & ~alone, -math.inf), dim=-1)
    return torch.xlogy(shares, shares).sum(dim=-1) - expected_log(shares, log_probs)


def zipf_label_smoothing_cross_entropy(
    input: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    *,
    votes: Tensor | None = None,
    power: float = 1.0,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    r"""Cross-entropy plus the divergence from a power law over the other classes.

    .. math:: H(y, q) + \alpha \, KL(p \,\Vert\, \tilde q), \qquad p_k \propto \mathrm{rank}_k^{-power}, \; k \ne gt

    ``votes`` are scores of the shape of ``input`` that rank the classes; without them the logits do.

    Example:
        >>> zipf_label_smoothing_cross_entropy(torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4]))
        tensor(1.5825)
    """
    require_labels("zipf_ls", target)
    check_number("power", power)
    if votes is not None and votes.shape != input.shape:
        raise ValueError(
            f"votes must have the shape of input, {tuple(input.shape)}; got {tuple(votes.shape)}. "
            "Count one number per class and sample, as dense_votes does."
        )

    def penalty(rows: Tensor, log_probs: Tensor, labels: Tensor) -> Tensor:
        scores = rows.detach() if votes is None else class_rows(votes.detach().to(rows.dtype))
        return zipf_divergence(rows, labels, scores, power)

    return penalized_cross_entropy(input, target, alpha, penalty, **options)


@LOSSES.register(
    "zipf_ls",
    summary="Zipf label smoothing: soft targets by rank",
    formula="CE + alpha KL(rank^-power || softmax of others)",
    source="Liang et al. 2022",
)
class ZipfLabelSmoothingLoss(AlphaLoss):
    r"""Cross-entropy plus the divergence from a power law over the other classes (Zipf label smoothing).

    .. math:: H(y, q) + \alpha \, KL(p \,\Vert\, \tilde q), \qquad p_k \propto \mathrm{rank}_k^{-power}, \; k \ne gt

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        ranking: ``"logits"`` ranks the classes by the logits, ``"dense"`` by votes of the positions of a feature map,
            which ``forward`` takes as ``dense_logits``.
        power: Exponent of the power law.
        options: ``weight``, ``ignore_index``, ``reduction``, ``empty`` and ``z_loss``, as in :class:`MaxSupLoss`.

    Shape:
        Logits ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``. Targets are class indices without the class axis, or
        probabilities of the shape of the logits. The loss is a scalar; with ``reduction="none"`` it has the shape of
        the class indices.

    References:
        Liang et al., "Efficient One Pass Self-distillation with Zipf's Label Smoothing", ECCV 2022.

    Example:
        >>> criterion = ZipfLabelSmoothingLoss(alpha=0.1)
        >>> logits, target = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]]), torch.tensor([4])
        >>> criterion(logits, target)
        tensor(1.5825)
    """

    function = staticmethod(zipf_label_smoothing_cross_entropy)
    optional_needs = ("dense_logits",)

    def __init__(
        self, alpha: Strength = 0.1, *, ranking: Ranking = "logits", power: float = 1.0, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(alpha, **options)
        check_choice("ranking", ranking, RANKINGS)
        check_number("power", power)
        self.ranking, self.power = ranking, power
        self.needs = ("dense_logits",) if ranking == "dense" else ()

    def _objective(self, input: Tensor, target: Tensor, **options: Any) -> Tensor:
        votes = self._votes(input, options.pop("dense_logits")) if "dense_logits" in options else None
        alpha = options.pop("alpha", self._value)
        return zipf_label_smoothing_cross_entropy(input, target, alpha, votes=votes, power=self.power, **options)

    def _votes(self, input: Tensor, dense_logits: Tensor) -> Tensor:
        if self.ranking != "dense":
            raise ValueError(
                "dense_logits must go with ranking='dense'; got ranking='logits', which would ignore them. "
                "Build the loss with ranking='dense'."
            )
        if dense_logits.dim() < 3 or dense_logits.shape[:2] != (len(input), num_classes(input)):
            raise ValueError(
                f"dense_logits must have shape (N, K, d1, ...) = ({len(input)}, {num_classes(input)}, ...); "
                f"got {tuple(dense_logits.shape)}. Apply the classifier at every position of the last feature map."
            )
        return dense_votes(dense_logits.detach())
