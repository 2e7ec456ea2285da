"""All samples at once on a device, through kernels, for which the host never waits, or through few operators.

Backward computes the gradient, because it knows the upstream gradient. A gradient from forward would have to be read
and written again to be scaled, in fp16 it would have to be stored in float32 until a loss scaler is applied, and for
``reduction="none"`` it could not be exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.losses.computing.closed_form import FusedPenalty
from maxsup.losses.computing.fused import (
    Call,
    Formula,
    gradient_by_formula,
    is_vectorised,
    job_of,
    one_a_sample,
    reduced,
    save_call,
    saved_call,
)
from maxsup.losses.device import eager, rows
from maxsup.losses.reduction import num_classes, raise_if_out_of_range


def device_loss(input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula, form: str) -> Tensor:
    """``CE + strength * penalty`` in the form ``"eager"`` or ``"triton"``; ``formula`` is for second derivatives."""
    if torch.compiler.is_compiling():
        strength, number = rows.number_on(input, call.strength)
        values, *_, loss, _ = rows.row_values(
            input, call.target, call.weight, strength, number, *_terms(call, penalty), *_reduction(input, call)
        )
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
        # Values are 0 where a sample is ignored, which backward needs. Unreduced values belong to the user.
        zeros = 0.0 if call.reduction == "none" else values
        save_call(ctx, input, call, formula, (job.valid, job.scale, denominator, zeros, *(kept or ())))
        return reduced(values, denominator, input, call.reduction)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return gradient_by_formula(ctx, upstream)
        input, call, (valid, scale, denominator, zeros, *kept) = saved_call(ctx)
        pull = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        pull = pull / denominator if call.reduction == "mean" else pull
        pull = pull * scale if isinstance(scale, Tensor) else pull
        if valid is not None:  # 0 times an infinite upstream gradient would be nan
            pull = torch.where(valid, pull, zeros)
        return eager.gradient(input, eager.Kept(*kept), pull, call.strength), None, None, None


class _TritonLoss(torch.autograd.Function):
    """Through the kernels; the operators alone would refuse second derivatives."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        strength, number = rows.number_on(input, call.strength)
        terms = _terms(call, penalty)
        operator = rows.row_values if rows.is_watched(input) else rows.row_values_now
        values, scales, statistics, top_indices, loss, denominator = operator(
            input, call.target, call.weight, strength, number, *terms, *_reduction(input, call)
        )
        divisor = denominator if call.reduction == "mean" else None
        own = (strength, number, scales, statistics, top_indices, divisor, terms)
        save_call(ctx, input, call, formula, own)
        return one_a_sample(values, input) if call.reduction == "none" else loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_vectorised(upstream):
            return gradient_by_formula(ctx, upstream)
        input, call, (strength, number, scales, statistics, top_indices, divisor, terms) = saved_call(ctx)
        upstream = upstream.reshape(-1) if upstream.dim() > 0 else upstream
        operator = rows.row_gradient if rows.is_watched(input) else rows.row_gradient_now
        gradient = operator(
            input,
            call.target,
            call.weight,
            strength,
            number,
            scales,
            statistics,
            top_indices,
            upstream,
            divisor,
            *terms,
        )
        return gradient, None, None, None


def _terms(call: Call, penalty: FusedPenalty) -> rows.Terms:
    return rows.Terms(call.ignore_index, penalty.kernel, penalty.margin, call.z_loss)


def _reduction(input: Tensor, call: Call) -> tuple[Any, ...]:
    """Arguments of the operators that reduce all samples to one loss."""
    items = call.num_items
    if items is None and call.target.is_floating_point():
        items = input.numel() // num_classes(input)
    num_items = (None, None) if items is None or call.reduction != "mean" else rows.number_on(input, items)
    return call.reduction, *num_items, call.empty == "zero"
