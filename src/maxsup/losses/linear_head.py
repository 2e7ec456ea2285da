"""MaxSup on a linear head that never holds the logits of the whole batch.

``hidden (N, D)`` times ``weight (K, D)`` is formed for some rows at a time; each block of logits gives its part of the
loss and is overwritten by its gradient, from which the gradients of hidden, weight and bias follow at once. The peak is
the gradient of the weight plus one block, whatever N is.

**Use it** in place of ``criterion(F.linear(hidden, weight, bias), target)`` where K is large, such as a vocabulary.
**Interacts with** a frozen head (its gradient is not formed), tied embeddings (gradients add up as usual), bf16 and
autocast (products in that precision, row arithmetic and the gradient of the weight in float32), and a head whose
classes are split over processes (``group``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from maxsup.core.checks import check_choice, check_number
from maxsup.losses.base import AlphaLoss
from maxsup.losses.blocks import CPU_BLOCK_BYTES
from maxsup.losses.fused import Factor, Job, block_loss, working_dtype
from maxsup.losses.maxsup import FUSED
from maxsup.losses.reduction import REDUCTIONS, raise_if_out_of_range
from maxsup.losses.vocabulary_parallel import Shard, parallel_block_loss

# Thinner blocks make the matrix products slow, thicker ones only cost memory.
BLOCK_ROWS = 256


def linear_maxsup_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    alpha: float | Tensor = 0.1,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    num_items: float | Tensor | None = None,
    group: dist.ProcessGroup | None = None,
) -> Tensor:
    """Cross-entropy with Max Suppression of ``hidden @ weight.T + bias``, without the logits in memory.

    Args:
        hidden: Inputs of the head, ``(N, D)``.
        weight: ``(K, D)``, as ``nn.Linear`` holds it.
        target: Class indices ``(N,)``.
        alpha: Strength.
        bias: ``(K,)`` or None.
        ignore_index: Label of rows that count nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        num_items: Denominator of the mean in place of the number of targets here.
        group: Processes that hold consecutive parts of the classes in ``weight`` and ``bias``, all with the same
            ``hidden`` and ``target``; every one gets the loss of the whole head.

    Example:
        >>> hidden, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> linear_maxsup_cross_entropy(hidden, weight, torch.tensor([0]))
        tensor(1.5076)
    """
    if not isinstance(alpha, Tensor):
        check_number("alpha", alpha)
    check_head(hidden, weight, target, bias, reduction, num_items)
    shard = None if group is None else Shard.of(weight, group)
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        raise_if_out_of_range(target, ignore_index, len(weight) if shard is None else shard.num_classes)
    labels = target.long()
    valid = labels != ignore_index
    dtype = working_dtype(hidden)
    factor: Factor = 1.0
    if reduction == "mean":
        factor = 1.0 / torch.as_tensor(valid.sum() if num_items is None else num_items, dtype=dtype)
    device = hidden.device.type
    products = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    plan = _Plan(labels.where(valid, 0), valid, valid.to(dtype), alpha, factor, reduction, products, shard)
    return _HeadLoss.apply(hidden, weight, bias, plan)


class LinearMaxSupLoss(AlphaLoss):
    """Module form of :func:`linear_maxsup_cross_entropy`; plain cross-entropy in ``eval()`` mode.

    Args:
        alpha: Strength, or a schedule that is advanced by ``set_progress``.
        ignore_index: Label of rows that count nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Example:
        >>> head = torch.nn.Linear(2, 3)
        >>> criterion = LinearMaxSupLoss(alpha=0.1)
        >>> loss = criterion(torch.randn(4, 2), head.weight, torch.tensor([0, 1, 2, 0]), bias=head.bias)
        >>> loss.shape
        torch.Size([])
    """

    def __init__(self, alpha: Any = 0.1, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(alpha, ignore_index=ignore_index, reduction=reduction)

    def forward(  # type: ignore[override]
        self,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        *,
        bias: Tensor | None = None,
        num_items: float | Tensor | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> Tensor:
        """The loss of a head with these weights; see :func:`linear_maxsup_cross_entropy`."""
        if self.training:
            self._check_advanced()
        return linear_maxsup_cross_entropy(
            hidden,
            weight,
            target,
            self._value if self.training else 0.0,
            bias=bias,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            num_items=num_items,
            group=group,
        )


class _Plan(NamedTuple):
    labels: Tensor
    valid: Tensor
    mass: Tensor
    alpha: Factor
    factor: Factor
    reduction: str
    products: torch.dtype
    shard: Shard | None


class _Gradients(NamedTuple):
    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, plan: _Plan) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias)
        ctx.plan = plan
        ctx.gradients = None
        # One number will multiply all gradients of a mean or a sum; a number for each row is not known before backward.
        is_reduced = plan.reduction != "none"
        wanted = ctx.needs_input_grad[:3] if is_reduced else (False, False, False)
        values, gradients = _values_and_gradients(hidden, weight, bias, plan, wanted)
        if is_reduced:
            ctx.gradients = gradients
            return values.sum() * plan.factor
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        plan = ctx.plan
        # The buffers are given away, so that they may be scaled in place; who comes again gets them computed again.
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            mass = plan.mass * upstream if plan.reduction == "none" else plan.mass
            plan = plan._replace(mass=mass)
            _, gradients = _values_and_gradients(hidden, weight, bias, plan, ctx.needs_input_grad[:3])
        parts = []
        for gradient, parameter in zip(gradients, (hidden, weight, bias), strict=True):
            if gradient is not None and plan.reduction != "none":
                gradient.mul_(upstream)
            parts.append(None if gradient is None else gradient.to(parameter.dtype))
        return *parts, None


def _values_and_gradients(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, plan: _Plan, wanted: tuple[bool, ...]
) -> tuple[Tensor, _Gradients]:
    dtype = working_dtype(hidden)
    gradients = _Gradients(
        torch.empty_like(hidden, dtype=dtype) if wanted[0] else None,
        torch.empty_like(weight, dtype=dtype) if wanted[1] else None,
        torch.zeros_like(bias, dtype=dtype) if bias is not None and wanted[2] else None,
    )
    values = torch.empty(len(hidden), dtype=dtype, device=hidden.device)
    buffer = torch.empty(min(BLOCK_ROWS, max(len(hidden), 1)), len(weight), dtype=dtype, device=hidden.device)
    with torch.autocast(hidden.device.type, enabled=False):
        matrix = weight.to(plan.products)
        for start in range(0, len(hidden), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(hidden)))
            inputs, logits = hidden[rows].to(plan.products), buffer[: rows.stop - rows.start]
            if plan.products == dtype:
                torch.mm(inputs, matrix.t(), out=logits)
            else:
                logits.copy_(inputs @ matrix.t())
            if bias is not None:
                logits.add_(bias)
            values[rows] = _overwritten_by_gradient(logits, plan, rows)
            _add_products(gradients, logits, inputs, matrix, rows)
        if not len(hidden) and gradients.weight is not None:
            gradients.weight.zero_()
    if plan.shard is not None and gradients.hidden is not None:
        dist.all_reduce(gradients.hidden, group=plan.shard.group)
    return values, gradients


def _overwritten_by_gradient(logits: Tensor, plan: _Plan, rows: slice) -> Tensor:
    """Values of a block of rows; its logits are replaced by their gradient."""
    valid, labels, mass = (part[rows].unsqueeze(1) for part in (plan.valid, plan.labels, plan.mass))
    if plan.shard is not None:
        return parallel_block_loss(logits, labels, valid, mass, plan.alpha, plan.factor, plan.shard)
    may_look = logits.device.type == "cpu" and not torch.compiler.is_compiling()
    is_valid = None if may_look and bool(valid.all()) else valid
    size = max(1, CPU_BLOCK_BYTES[0] // (8 * logits.shape[1])) if logits.device.type == "cpu" else len(logits)
    values = []
    for start in range(0, len(logits), size):
        part = slice(start, start + size)
        counted = None if is_valid is None else is_valid[part]
        job = Job(FUSED, plan.alpha, labels[part], counted, mass[part], plan.factor, may_look)
        values.append(block_loss(logits[part], job, 1, out=logits[part])[0].squeeze(1))
    return torch.cat(values)


def _add_products(gradients: _Gradients, grad: Tensor, inputs: Tensor, matrix: Tensor, rows: slice) -> None:
    """What the gradient of a block of logits adds to those of the parameters."""
    narrow = grad.to(matrix.dtype)
    if gradients.hidden is not None:
        gradients.hidden[rows] = narrow @ matrix
    if gradients.weight is not None:
        is_first = rows.start == 0
        if narrow.dtype == gradients.weight.dtype:
            gradients.weight.addmm_(narrow.t(), inputs, beta=0 if is_first else 1)
        elif is_first:
            gradients.weight.copy_(narrow.t() @ inputs)
        else:
            gradients.weight.add_(narrow.t() @ inputs)
    if gradients.bias is not None:
        gradients.bias.add_(grad.sum(dim=0))


def check_head(
    hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, reduction: str, num_items: Any
) -> None:
    """Raise one sentence for hidden states, weights and targets that do not fit each other."""
    check_choice("reduction", reduction, REDUCTIONS)
    if num_items is not None and reduction != "mean":
        raise ValueError(
            f"num_items must go with reduction='mean'; got reduction={reduction!r}. Leave one of them out."
        )
    if hidden.dim() != 2 or weight.dim() != 2 or hidden.shape[1] != weight.shape[1]:
        raise ValueError(
            f"hidden and weight must have shapes (N, D) and (K, D); got {tuple(hidden.shape)} and "
            f"{tuple(weight.shape)}. Flatten batch and sequence of hidden first."
        )
    if target.is_floating_point() or target.shape != hidden.shape[:1]:
        raise ValueError(
            f"target must be class indices of shape ({len(hidden)},); got {target.dtype} of shape "
            f"{tuple(target.shape)}. Probability targets need the logits: use maxsup_cross_entropy."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape ({len(weight)},); got {tuple(bias.shape)}. Pass the bias of the head.")
