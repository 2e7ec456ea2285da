"""All samples at once on a device, through kernels, which make the host wait for nothing, or through few operators.

The gradient is made in backward, where the upstream is known: made in forward, it would be read and written once more
to be scaled, and in fp16 it would have to be stored twice as wide until a loss scaler has met it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.losses.computing.closed_form import FusedPenalty
from maxsup.losses.computing.fused import (
    Call,
    Formula,
    is_vectorised,
    job_of,
    joined,
    one_a_sample,
    others_of,
    reduced,
    tensors_of,
)
from maxsup.losses.device import eager, rows
from maxsup.losses.reduction import num_classes, raise_if_out_of_range


def device_loss(input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula, form: str) -> Tensor:
    """``CE + strength * penalty`` in the form ``"eager"`` or ``"triton"``; ``formula`` is for second derivatives."""
    if torch.compiler.is_compiling():
        values, *_, loss, _ = rows.row_values(input, *_kernel_arguments(input, call, penalty), *_reduction(input, call))
        return one_a_sample(values, input) if call.reduction == "none" else loss
    if form == "triton" and input.device.type == "cpu":
        raise_if_out_of_range(call.target, call.ignore_index, num_classes(input))
    function = _TritonLoss if form == "triton" else _EagerLoss
    return function.apply(input, call.with_numbers_now(), penalty, formula)


class _EagerLoss(torch.autograd.Function):
    """In few operators."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        job, denominator = job_of(input, call, penalty)
        values, kept = eager.measured(input, job, ctx.needs_input_grad[0])
        # The values are 0 where a sample is ignored, and backward needs zeros there. One a sample belongs to the user.
        zeros = 0.0 if call.reduction == "none" else values
        _save(ctx, input, call, formula, (job.valid, job.scale, denominator, zeros, *(kept or ())))
        return reduced(values, denominator, input, call.reduction)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return _gradient_by_formula(ctx, upstream)
        input, call, (valid, scale, denominator, zeros, *kept) = _saved(ctx)
        pull = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        pull = pull / denominator if call.reduction == "mean" else pull
        pull = pull * scale if isinstance(scale, Tensor) else pull
        if valid is not None:  # 0 times an upstream that is not finite is not 0
            pull = torch.where(valid, pull, zeros)
        return eager.gradient(input, eager.Kept(*kept), pull, call.strength), None, None, None


class _TritonLoss(torch.autograd.Function):
    """Through the kernels; the operators alone would refuse second derivatives."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        arguments = _kernel_arguments(input, call, penalty)
        values, *kept, loss, denominator = rows.row_values(input, *arguments, *_reduction(input, call))
        divisor = denominator if call.reduction == "mean" else None
        _save(ctx, input, call, formula, (*arguments[2:4], *kept, divisor, *arguments[4:]))
        return one_a_sample(values, input) if call.reduction == "none" else loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return _gradient_by_formula(ctx, upstream)
        input, call, own = _saved(ctx)
        kept, denominator, terms = own[:5], own[5], own[6:]
        upstream = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        gradient = rows.row_gradient(input, call.target, call.weight, *kept, upstream, denominator, *terms)
        return gradient, None, None, None


def _kernel_arguments(input: Tensor, call: Call, penalty: FusedPenalty) -> tuple[Any, ...]:
    """What the operators take besides the logits."""
    strength = rows.number_on(input, call.strength)
    return call.target, call.weight, *strength, call.ignore_index, penalty.kernel, penalty.margin, call.z_loss


def _reduction(input: Tensor, call: Call) -> tuple[Any, ...]:
    """What the operators take to make one loss of all samples."""
    items = call.num_items
    if items is None and call.target.is_floating_point():
        items = input.numel() // num_classes(input)
    num_items = (None, None) if items is None or call.reduction != "mean" else rows.number_on(input, items)
    return call.reduction, *num_items, call.empty == "zero"


def _save(ctx: Any, input: Tensor, call: Call, formula: Formula, own: tuple[Any, ...]) -> None:
    ctx.save_for_backward(input, *tensors_of(call), *tensors_of(own))
    ctx.call, ctx.own, ctx.formula = others_of(call), others_of(own), formula


def _saved(ctx: Any) -> tuple[Tensor, Call, list[Any]]:
    input, *saved = ctx.saved_tensors
    size = len(ctx.call)
    return input, Call(*joined(saved[:size], ctx.call)), list(joined(saved[size:], ctx.own))


def _gradient_by_formula(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    """A gradient that can be differentiated again, or of many upstreams at once."""
    input, call, _ = _saved(ctx)
    is_kept = torch.is_grad_enabled()
    with torch.enable_grad():
        own = input.view_as(input)
        loss = ctx.formula(own, **call._asdict())
    (gradient,) = torch.autograd.grad(loss, own, upstream, create_graph=is_kept)
    return gradient, None, None, None
