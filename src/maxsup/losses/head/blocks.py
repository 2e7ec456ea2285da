"""A linear head in blocks of rows: values, what is measured beside them, and the gradients of its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from maxsup.losses.computing.closed_form import Factor, joined, others_of, tensors_of, working_dtype
from maxsup.losses.computing.forms import form_for
from maxsup.losses.computing.fused import address_of, is_vectorised, scaled
from maxsup.losses.head.metrics import NUM_MEASURES, HeadMetrics, measures_of_logits
from maxsup.losses.head.products import Gradients, add_products, multiply, rows_of_block, without_autocast
from maxsup.losses.head.rows import Objective, Rows, overwritten
from maxsup.losses.reduction import raise_if_out_of_range

# Up to this size a CPU holds the logits, which is faster than blocks; one block of a vocabulary takes more.
SMALL_BYTES = 4 * 1024 * 1024


class Head(NamedTuple):
    """Hidden states and the parameters of a linear head."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None


class Plan(NamedTuple):
    """The arguments of a head loss besides the head."""

    target: Tensor
    alpha: Factor
    objective: Objective
    ignore_index: int
    reduction: str
    num_items: Factor | None
    products: torch.dtype
    group: dist.ProcessGroup | None = None
    block_rows: int | None = None
    has_metrics: bool = False


def head_loss(head: Head, plan: Plan) -> tuple[Tensor, HeadMetrics | None]:
    """The loss of a head, and its metrics where the plan has them."""
    if head.hidden.device.type == "cpu" and not torch.compiler.is_compiling():
        # Read the numbers now, so that later changes to the tensors do not matter.
        num_items = float(plan.num_items) if isinstance(plan.num_items, Tensor) else plan.num_items
        plan = plan._replace(num_items=num_items)
        if not isinstance(plan.alpha, Tensor) or plan.alpha.numel() == 1:
            plan = plan._replace(alpha=float(plan.alpha))
        if plan.group is None:
            raise_if_out_of_range(plan.target, plan.ignore_index, len(head.weight))
    loss, measures = _HeadLoss.apply(*head, plan)
    return loss, HeadMetrics.of(measures, _valid(plan)) if plan.has_metrics else None


def is_small(head: Head) -> bool:
    """Whether the logits are better held, on a CPU."""
    if torch.compiler.is_compiling() or form_for(head.hidden) != "fused":  # asked first: a size may be a symbol
        return False
    return head.hidden.shape[0] * head.weight.shape[0] * working_dtype(head.hidden).itemsize <= SMALL_BYTES


def held_loss(head: Head, plan: Plan) -> tuple[Tensor, HeadMetrics | None]:
    """The same from logits in memory, for autograd."""
    hidden, weight, bias = head
    dtype = working_dtype(hidden)
    bias = None if bias is None else bias.to(dtype)
    if plan.products == dtype == hidden.dtype == weight.dtype:
        logits = F.linear(hidden, weight, bias)
    else:
        logits = F.linear(hidden.to(plan.products), weight.to(plan.products)).to(dtype)
        logits = logits if bias is None else logits + bias
    if plan.objective.soft_cap != 0:  # the slope of a cap is nan in ignored rows that hold nan
        logits = logits.where(_valid(plan).unsqueeze(1), 0)
    logits = plan.objective.shaped(logits)
    metrics = None
    if plan.has_metrics:
        valid = _valid(plan)
        metrics = HeadMetrics.of(measures_of_logits(logits, plan.target.long().where(valid, 0)), valid)
    loss = plan.objective.of_logits(
        logits,
        plan.target,
        plan.alpha,
        ignore_index=plan.ignore_index,
        reduction=plan.reduction,
        num_items=plan.num_items,
    )
    return loss, metrics


class _HeadLoss(torch.autograd.Function):
    """The loss with gradients that are ready before backward, like those of logits in ``fused.py``.

    Gradients of a mean or a sum are multiplied by one number, at the very end: divided by the denominator of a mean
    before a loss scaler is applied, they would underflow in fp16. A number per row is not known before backward.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, plan: Plan
    ) -> tuple[Tensor, Tensor | None]:
        head, is_reduced = Head(hidden, weight, bias), plan.reduction != "none"
        wanted = ctx.needs_input_grad[:3] if is_reduced else (False, False, False)
        values, measures, gradients = _values_and_gradients(head, plan, _valid(plan), wanted)
        ctx.save_for_backward(*head, *gradients, *tensors_of(plan))
        ctx.others = others_of(plan)
        ctx.addresses = _addresses(gradients) if is_reduced else None
        ctx.mark_non_differentiable(measures)
        return values.sum() * _factor(plan, values.dtype) if is_reduced else values, measures

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, of_measures: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        head, gradients, plan = Head(*saved[:3]), Gradients(*saved[3:6]), Plan(*joined(saved[6:], ctx.others))
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return *_gradients_by_formula(head, plan, upstream, wanted), None
        valid = _valid(plan)
        # The first backward gives the buffers away. There are none where every row has its own upstream gradient.
        addresses = ctx.addresses
        if not torch.compiler.is_compiling():
            ctx.addresses = None
        if addresses is None:
            mass = upstream.where(valid, 0) if plan.reduction == "none" else valid
            _, _, gradients = _values_and_gradients(head, plan._replace(has_metrics=False), mass, wanted)
            addresses = _addresses(gradients)
        scales = Gradients(None, None, None)
        if plan.reduction != "none":
            scale = upstream * _factor(plan, working_dtype(head.hidden))
            # The factor of a batch without targets is infinite, and 0 times that is nan.
            total = scale.where(valid.any(), 0)
            scales = Gradients(scale.where(valid, 0).unsqueeze(1), total, total)
        ours = [now is not None and now == before for now, before in zip(_addresses(gradients), addresses, strict=True)]
        parts = [
            None if gradient is None or parameter is None else _finished(gradient, scale, is_ours, parameter.dtype)
            for gradient, scale, is_ours, parameter in zip(gradients, scales, ours, head, strict=True)
        ]
        return *parts, None


def _valid(plan: Plan) -> Tensor:
    return plan.target.long() != plan.ignore_index


def _factor(plan: Plan, dtype: torch.dtype) -> Factor:
    """The factor of the sum over rows."""
    if plan.reduction != "mean":
        return 1.0
    num_items = _valid(plan).sum() if plan.num_items is None else plan.num_items
    return 1.0 / torch.as_tensor(num_items, dtype=dtype, device=plan.target.device)


def _finished(gradient: Tensor, scale: Tensor | None, is_ours: bool, dtype: torch.dtype) -> Tensor:
    """A stored gradient times ``scale``, in the type of its parameter."""
    if scale is None or gradient.dtype == dtype or gradient.device.type == "cpu" or torch.compiler.is_compiling():
        return scaled(gradient, scale, is_ours).to(dtype)
    # On a device one kernel multiplies and converts; a CPU would make a copy for it.
    return torch.mul(gradient, scale, out=torch.empty_like(gradient, dtype=dtype))


def _addresses(gradients: Gradients) -> list[int | None]:
    return [address_of(gradient) for gradient in gradients]


def _gradients_by_formula(head: Head, plan: Plan, upstream: Tensor, wanted: Sequence[bool]) -> Iterable[Tensor | None]:
    """Gradients that can be differentiated again, or of many upstream gradients at once, from logits in memory."""
    if plan.group is not None:
        raise RuntimeError(
            "A head that is split over processes has first derivatives only. Gather the logits and use "
            "maxsup_cross_entropy, or leave create_graph=True out."
        )
    is_kept = torch.is_grad_enabled()
    with torch.enable_grad(), without_autocast(head.hidden.device.type):
        # Views, because hidden may itself depend on weight (tied embeddings), and that path must not count here.
        hidden, weight, bias = head
        own = Head(hidden.view_as(hidden), weight.view_as(weight), None if bias is None else bias.view_as(bias))
        loss, _ = held_loss(own, plan._replace(has_metrics=False))
    asked = [parameter for parameter, is_wanted in zip(own, wanted, strict=True) if is_wanted and parameter is not None]
    found = iter(torch.autograd.grad(loss, asked, upstream, create_graph=is_kept))
    return [next(found) if is_wanted else None for is_wanted in wanted]


def _values_and_gradients(
    head: Head, plan: Plan, mass: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor, Tensor, Gradients]:
    """Values of all rows, what is measured of them, and the gradients of the sum in which a row counts ``mass``."""
    valid = _valid(plan)
    rows = Rows(plan.target.long().where(valid, 0), valid, mass.to(working_dtype(head.hidden)))
    settings = plan.products, list(wanted), plan.block_rows, plan.has_metrics
    if torch.compiler.is_compiling():
        alpha = torch.as_tensor(plan.alpha, dtype=torch.float64)
        values, measures, *found = _opaque_by_blocks(*head, *rows, alpha, plan.objective, *settings)
    else:
        values, measures, *found = _by_blocks(head, rows, plan.alpha, plan.objective, *settings, plan.group)
    rest = iter(found)
    return values, measures, Gradients(*(next(rest) if is_wanted else None for is_wanted in wanted))


def _by_blocks(
    head: Head,
    all_rows: Rows,
    alpha: Factor,
    objective: Objective,
    products: torch.dtype,
    wanted: Sequence[bool],
    block_rows: int | None,
    has_metrics: bool,
    group: dist.ProcessGroup | None,
) -> list[Tensor]:
    """Values of all rows, what is measured of them (nothing without metrics), and the wanted gradients of their sum."""
    hidden, weight, bias = head
    dtype = working_dtype(hidden)
    gradients = Gradients(
        torch.empty_like(hidden, dtype=dtype) if wanted[0] else None,
        torch.empty_like(weight, dtype=dtype) if wanted[1] else None,
        torch.zeros_like(bias, dtype=dtype) if bias is not None and wanted[2] else None,
    )
    values = torch.empty(len(hidden), dtype=dtype, device=hidden.device)
    # On a device logits stay in the precision of the products; elsewhere a block is in float32.
    form = form_for(hidden) if group is None else "fused"
    kept = products if form in ("triton", "eager") else dtype
    measures = hidden.new_empty((NUM_MEASURES, len(hidden) if has_metrics else 0), dtype=dtype)
    size = block_rows or rows_of_block(len(hidden), len(weight) * kept.itemsize, hidden.device)
    buffer = torch.empty(min(size, max(len(hidden), 1)), len(weight), dtype=kept, device=hidden.device)
    with without_autocast(hidden.device.type):
        matrix = weight.to(products)
        for start in range(0, len(hidden), size):
            rows = slice(start, min(start + size, len(hidden)))
            inputs, logits = hidden[rows].to(products), buffer[: rows.stop - rows.start]
            multiply(inputs, matrix, bias, objective.logit_scale, logits)
            own = Rows(*(part[rows].unsqueeze(1) for part in all_rows))
            strength = alpha[rows] if isinstance(alpha, Tensor) and alpha.dim() > 0 else alpha
            place = measures[:, rows] if has_metrics else None
            values[rows] = overwritten(form, logits, own, strength, objective, group, place)
            add_products(gradients, logits, inputs, matrix, rows)
        if not len(hidden) and gradients.weight is not None:
            gradients.weight.zero_()
    if group is not None and gradients.hidden is not None:
        dist.all_reduce(gradients.hidden, group=group)
    return [values, measures, *(gradient for gradient in gradients if gradient is not None)]


# One operation for a compiler, which must not trace the blocks.
@torch.library.custom_op(
    "maxsup::head_by_blocks",
    mutates_args=(),
    schema="(Tensor hidden, Tensor weight, Tensor? bias, Tensor labels, Tensor valid, Tensor mass, Tensor alpha, "
    "float[] objective, ScalarType products, bool[] wanted, int? block_rows, bool has_metrics) -> Tensor[]",
)
def _opaque_by_blocks(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, valid: Tensor, mass: Tensor, alpha: Tensor,
    objective: Sequence[float], products: torch.dtype, wanted: Sequence[bool], block_rows: int | None,
    has_metrics: bool,
) -> list[Tensor]:  # fmt: skip
    head, rows = Head(hidden, weight, bias), Rows(labels, valid, mass)
    return _by_blocks(head, rows, alpha, Objective(*objective), products, wanted, block_rows, has_metrics, None)


@_opaque_by_blocks.register_fake
def _(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, valid: Tensor, mass: Tensor, alpha: Tensor,
    objective: Sequence[float], products: torch.dtype, wanted: Sequence[bool], block_rows: int | None,
    has_metrics: bool,
) -> list[Tensor]:  # fmt: skip
    head, dtype = Head(hidden, weight, bias), working_dtype(hidden)
    asked = [parameter for parameter, is_wanted in zip(head, wanted, strict=True) if is_wanted]
    gradients = [torch.empty_like(parameter, dtype=dtype) for parameter in asked if parameter is not None]
    num_rows = hidden.shape[0]
    measures = hidden.new_empty((NUM_MEASURES, num_rows if has_metrics else 0), dtype=dtype)
    return [hidden.new_empty(num_rows, dtype=dtype), measures, *gradients]
