"""All samples at once on a device, through kernels, which make the host wait for nothing, or through few operators.

The gradient is made in backward, where the upstream is known: made in forward, it would be read and written once more
to be scaled, and in fp16 it would have to be stored twice as wide until a loss scaler has met it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.losses.closed_form import Factor, FusedPenalty
from maxsup.losses.device import eager, rows
from maxsup.losses.fused import Call, Formula, is_vectorised, job_of, joined, others_of, reduced, tensors_of
from maxsup.losses.reduction import at_least_one_if_zero, num_classes, raise_if_out_of_range


def device_loss(input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula, form: str) -> Tensor:
    """``CE + strength * penalty`` in the form ``"eager"`` or ``"triton"``; ``formula`` is for second derivatives."""
    if torch.compiler.is_compiling():
        values, scales, *_ = rows.row_values(input, *_kernel_arguments(input, call, penalty))
        return reduced(values, _denominator(scales, call), input, call.reduction)
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
        _save(ctx, input, call, formula, (job.valid, job.scale, denominator, *(kept or ())))
        return reduced(values, denominator, input, call.reduction)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return _gradient_by_formula(ctx, upstream)
        input, call, (valid, scale, denominator, *kept) = _saved(ctx)
        pull = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        pull = pull / denominator if call.reduction == "mean" else pull
        pull = pull * scale if isinstance(scale, Tensor) else pull
        if valid is not None:  # 0 times an upstream that is not finite is not 0
            pull = pull.where(valid, 0)
        return eager.gradient(input, eager.Kept(*kept), pull, call.strength), None, None, None


class _TritonLoss(torch.autograd.Function):
    """Through the kernels; the operators alone would refuse second derivatives."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        target, weight, strength, *terms = _kernel_arguments(input, call, penalty)
        values, *kept = rows.row_values(input, target, weight, strength, *terms)
        denominator = _denominator(kept[0], call)
        _save(ctx, input, call, formula, (strength, *kept, denominator, *terms))
        return reduced(values, denominator, input, call.reduction)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return _gradient_by_formula(ctx, upstream)
        input, call, (strength, *kept, denominator, index, penalty, margin, z_loss) = _saved(ctx)
        upstream = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        arguments = (call.target, call.weight, strength, *kept, upstream, denominator, index, penalty, margin, z_loss)
        return rows.row_gradient(input, *arguments), None, None, None


def _kernel_arguments(input: Tensor, call: Call, penalty: FusedPenalty) -> tuple[Any, ...]:
    """What the operators take besides the logits."""
    strength = rows.strength_on(input, call.strength)
    return call.target, call.weight, strength, call.ignore_index, penalty.kernel, penalty.margin, call.z_loss


def _denominator(scales: Tensor, call: Call) -> Tensor | None:
    """What the sum of the values is divided by, as a tensor; None where it is not."""
    if call.reduction != "mean":
        return None
    number: Factor
    if call.num_items is not None:
        number = call.num_items
    elif call.target.is_floating_point():
        number = scales.numel()
    else:
        number = scales.sum()
    if call.empty == "zero":
        number = at_least_one_if_zero(number)
    if isinstance(number, Tensor):
        return number.to(scales.device, scales.dtype, non_blocking=True)
    return scales.new_full((), number)


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
