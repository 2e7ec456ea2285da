"""MaxSup, and MbLS, on a linear head without the logits of the batch, unless they take less than a few MiB on a CPU.

``hidden (N, D)`` times ``weight (K, D)`` is computed for some rows at a time. Each block of logits gives its part of
the loss and is overwritten by its gradient, which gives the gradients of hidden, weight and bias at once. The peak
memory is the gradient of the weight plus one block, for every N.

**Use it** in place of ``criterion(F.linear(hidden, weight, bias), target)`` where K is large, such as a vocabulary.
**Interacts with** a frozen head (its gradient is not computed), tied embeddings (gradients add up as usual), bf16 and
autocast (products in that precision, row arithmetic and the gradient of the weight in float32), and a head whose
classes are split over processes (``group``).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Never

from maxsup.core.checks import check_choice, check_count, check_number
from maxsup.losses.base import AlphaLoss, Strength
from maxsup.losses.computing.closed_form import working_dtype
from maxsup.losses.computing.fused import is_ordinary
from maxsup.losses.head.blocks import Head, Plan, head_loss, held_loss, is_small
from maxsup.losses.head.metrics import HeadMetrics
from maxsup.losses.head.rows import Objective
from maxsup.losses.mbls import check_margin
from maxsup.losses.reduction import (
    REDUCTIONS,
    ReductionName,
    check_num_items,
    check_strength,
    single,
    strength_of_rows,
    whole,
)
from maxsup.losses.shards.exchange import check_group


def linear_maxsup_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: ReductionName = "mean",
    num_items: float | Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    margin: float = 0.0,
    z_loss: float = 0.0,
    soft_cap: float = 0.0,
    logit_scale: float = 1.0,
    block_rows: int | None = None,
    return_metrics: bool = False,
) -> Any:  # a tensor, or a pair with return_metrics; overloads would repeat every argument
    """Cross-entropy with Max Suppression of ``hidden @ weight.T + bias``, without the logits in memory.

    Args:
        hidden: Inputs of the head, ``(N, D)``.
        weight: ``(K, D)``, as ``nn.Linear`` holds it.
        target: Class indices ``(N,)``.
        alpha: Strength, one number or one a row.
        bias: ``(K,)`` or None.
        ignore_index: Label of rows that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        num_items: Denominator of the mean in place of the number of targets.
        group: Processes that hold consecutive parts of the classes in ``weight`` and ``bias``, with the same ``hidden``
            and ``target``; each gets the loss of the whole head.
        margin: Distance from the top logit that costs nothing, as in ``mbls``.
        z_loss: Factor of ``(log sum_k exp z_k)^2``.
        soft_cap: ``s`` of a head whose logits are ``s tanh(z / s)``; 0 leaves them as they are.
        logit_scale: Number by which the head multiplies its logits, before a soft cap.
        block_rows: Rows whose logits are in memory at a time. Fewer take less memory and more time; None chooses.
        return_metrics: Return the loss and :class:`HeadMetrics`: token accuracy, entropy, z-loss, number of targets.

    Example:
        >>> hidden, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> linear_maxsup_cross_entropy(hidden, weight, torch.tensor([0]))
        tensor(1.5076)
        >>> loss, metrics = linear_maxsup_cross_entropy(hidden, weight, torch.tensor([0]), return_metrics=True)
        >>> metrics.accuracy, metrics.entropy
        (tensor(0.), tensor(0.8324))
    """
    check_strength("alpha", alpha, input=hidden)
    if isinstance(alpha, Tensor) and alpha.dim() > 0:
        alpha = strength_of_rows(alpha, working_dtype(hidden))
    hidden, weight, target, bias = whole(hidden), whole(weight), whole(target), whole(bias)
    check_head(hidden, weight, target, bias, reduction, num_items)
    num_items = single(num_items)
    objective = checked_objective(margin, z_loss, soft_cap, logit_scale)
    if block_rows is not None:
        check_count("block_rows", block_rows)
    if group is not None:
        check_group(group, None)
        if return_metrics:
            raise ValueError(
                "return_metrics must be False on a head that is split over processes; got True. Leave it out, or "
                "compute the metrics from a sample of the rows."
            )
    device = hidden.device.type
    is_cast = not hidden.is_meta and torch.is_autocast_enabled(device)
    products = torch.get_autocast_dtype(device) if is_cast else hidden.dtype
    head = Head(hidden, weight, bias)
    plan = Plan(
        target, alpha, objective, ignore_index, reduction, num_items, products, None, block_rows, return_metrics
    )
    loss, metrics = _loss_and_metrics(head, plan, group)
    return loss if metrics is None else (loss, metrics)


def _loss_and_metrics(head: Head, plan: Plan, group: dist.ProcessGroup | None) -> tuple[Tensor, HeadMetrics | None]:
    (hidden, weight, bias), (target, alpha, num_items) = head, (plan.target, plan.alpha, plan.num_items)
    if group is None and plan.block_rows is None and is_small(head):
        return held_loss(head, plan)
    is_learnt = any(isinstance(value, Tensor) and value.requires_grad for value in (alpha, num_items))
    if is_learnt or hidden.is_meta or not is_ordinary(hidden, weight, target, alpha, bias, num_items):
        if group is not None:
            raise ValueError(
                "A head that is split over processes needs ordinary tensors and an alpha without gradient. Gather the "
                "logits of all processes and use maxsup_cross_entropy."
            )
        return held_loss(head, plan)
    return head_loss(head, plan) if group is None else _split_head_loss(head, plan, group)


# A compiler cannot trace collectives. torch.compiler.disable would import the compiler at once.
@torch._disable_dynamo  # type: ignore[attr-defined]
def _split_head_loss(head: Head, plan: Plan, group: dist.ProcessGroup) -> tuple[Tensor, HeadMetrics | None]:
    return head_loss(head, plan._replace(group=group))


class HeadLoss(AlphaLoss):
    """A loss of hidden states and the weights of a linear head; plain cross-entropy in ``eval()`` mode."""

    def _of_head(self, hidden: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Any:
        self._check_mode(hidden)
        if self.training:
            self._check_advanced()
            self._check_step()
        given = options.pop("alpha", None)
        alpha = 0.0 if not self.training else self._value if given is None else given
        options |= {"ignore_index": self.ignore_index, "reduction": self.reduction}
        return self.function(hidden, weight, target, alpha, **options)


class LinearMaxSupLoss(HeadLoss):
    """MaxSup, or MbLS, from hidden states and the weights of a linear head; plain cross-entropy in ``eval()`` mode.

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that ``set_progress`` advances.
        ignore_index: Label of rows that do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        margin: Distance from the top logit that costs nothing, as in ``mbls``; 0 is MaxSup.
        z_loss: Factor of ``(log sum_k exp z_k)^2`` in training.
        soft_cap: ``s`` of a head whose logits are ``s tanh(z / s)``, in evaluation too; 0 leaves them as they are.
        logit_scale: Number by which the head multiplies its logits, before a soft cap, in evaluation too.

    Example:
        >>> head = torch.nn.Linear(2, 3)
        >>> criterion = LinearMaxSupLoss(alpha=0.1)
        >>> loss = criterion(torch.randn(4, 2), head.weight, torch.tensor([0, 1, 2, 0]), bias=head.bias)
        >>> loss.shape
        torch.Size([])
    """

    function = staticmethod(linear_maxsup_cross_entropy)

    def __init__(
        self,
        alpha: Strength = 0.1,
        ignore_index: int = -100,
        reduction: ReductionName = "mean",
        *,
        margin: float = 0.0,
        z_loss: float = 0.0,
        soft_cap: float = 0.0,
        logit_scale: float = 1.0,
        **unknown: Never,
    ) -> None:
        super().__init__(alpha, ignore_index=ignore_index, reduction=reduction, z_loss=z_loss, **unknown)
        checked_objective(margin, z_loss, soft_cap, logit_scale)
        self.margin, self.soft_cap, self.logit_scale = margin, soft_cap, logit_scale

    def forward(  # type: ignore[override]
        self,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        *,
        bias: Tensor | None = None,
        num_items: float | Tensor | None = None,
        group: dist.ProcessGroup | None = None,
        block_rows: int | None = None,
        return_metrics: bool = False,
        alpha: float | Tensor | None = None,
    ) -> Any:
        """The loss of hidden states ``(N, D)`` on a head of ``weight (K, D)`` and ``bias (K,)``.

        ``target`` holds class indices ``(N,)``; all else is as in :func:`linear_maxsup_cross_entropy`, which also
        says what is returned with ``return_metrics``. ``alpha`` is a strength, or one a row, that replaces the loss's.
        """
        z_loss = self.z_loss if self.training else 0.0
        own = {"margin": self.margin, "z_loss": z_loss, "soft_cap": self.soft_cap, "logit_scale": self.logit_scale}
        others = {"bias": bias, "num_items": num_items, "group": group, "block_rows": block_rows, "alpha": alpha}
        return self._of_head(hidden, weight, target, return_metrics=return_metrics, **others, **own)


def checked_objective(margin: float, z_loss: float, soft_cap: float, logit_scale: float = 1.0) -> Objective:
    """What is computed for each row; raises unless each number is at least 0, and the scale above it."""
    check_margin(margin)
    check_number("z_loss", z_loss)
    check_number("soft_cap", soft_cap, at_low="for logits as they are")
    check_number("logit_scale", logit_scale, above=True)
    return Objective(float(margin), float(z_loss), float(soft_cap), float(logit_scale))


def check_head(
    hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, reduction: str, num_items: Any
) -> None:
    """Raise one sentence for hidden states, weights and targets that do not fit each other."""
    check_choice("reduction", reduction, REDUCTIONS)
    check_num_items(num_items, reduction)
    if hidden.dim() != 2 or weight.dim() != 2 or hidden.shape[1] != weight.shape[1]:
        raise ValueError(
            f"hidden and weight must have shapes (N, D) and (K, D); got {tuple(hidden.shape)} and "
            f"{tuple(weight.shape)}. Flatten batch and sequence of hidden first."
        )
    if target.is_floating_point() or target.shape != hidden.shape[:1]:
        raise ValueError(
            f"target must be class indices of shape ({hidden.shape[0]},); got {target.dtype} of shape "
            f"{tuple(target.shape)}. Probability targets need the logits: use maxsup_cross_entropy."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape ({len(weight)},); got {tuple(bias.shape)}. Pass the bias of the head.")
