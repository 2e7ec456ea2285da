"""All samples as one block, which ``torch.compile`` fuses."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from maxsup.losses.computing.closed_form import (
    Block,
    Factor,
    FusedPenalty,
    Job,
    block_gradient,
    joined,
    measured_block,
    others_of,
    stored_dtype,
    tensors_of,
    working_dtype,
)

# Replaces the exponential of a masked class.
MASKED = -1.0


def traced_values(input: Tensor, job: Job) -> Tensor:
    """Values of all samples, one after the other."""
    logits = _logits(input)
    shape = (logits.shape[0], 1, *logits.shape[2:])
    target = job.target.reshape(logits.shape if job.target.is_floating_point() else shape)
    valid = None if job.valid is None else job.valid.reshape(shape)
    scale, strength = (
        number.reshape(shape) if isinstance(number, Tensor) and number.dim() > 0 else number
        for number in (job.scale, job.strength)
    )
    return _TracedValues.apply(input, target, valid, scale, strength, job.z_loss, job.penalty)


class _TracedValues(torch.autograd.Function):
    """Values of all samples, with a gradient in closed form.

    Backward needs the exponentials of the logits and may write the gradient over them. By default the compiler would
    compute them again; a scatter that writes a 1 where a 1 already is prevents that. In planes, where scattering is
    slow and exponentials are cheap, the compiler may recompute them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        target: Tensor,
        valid: Tensor | None,
        scale: Factor,
        strength: Factor,
        z_loss: float,
        penalty: FusedPenalty,
    ) -> Tensor:
        job = Job(penalty, strength, z_loss, target, valid, scale, 1.0, may_look=False)
        block, penalties, values = measured_block(_logits(input), job, 1)
        kept = block.exponentials if block.masked is None else block.exponentials.masked_fill(block.masked, MASKED)
        kept = kept.to(stored_dtype(input))
        if input.dim() <= 2:
            kept = kept.scatter(1, block.top_index, 1.0)
        small = (block.norm, block.surprise, block.top, block.top_index, block.mean, block.num_present)
        numbers = (scale, strength, block.mass, block.offset)
        ctx.save_for_backward(input, target, valid, *tensors_of(numbers), kept, penalties, *small)
        ctx.numbers, ctx.penalty, ctx.z_loss = others_of(numbers), penalty, z_loss
        return values.reshape(-1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        input, target, valid, *numbers, kept, penalties, norm, surprise, top, top_index, mean, present = (
            ctx.saved_tensors
        )
        scale, strength, mass, offset = joined(numbers, ctx.numbers)
        masked, exponentials = kept == MASKED, kept.to(working_dtype(input))
        logits = exponentials
        if not ctx.penalty.is_centred:  # it reads both again
            logits = _logits(input) - offset
            logits = logits.masked_fill(logits == -math.inf, 0.0)
            exponentials = exponentials.clamp(min=0.0)
        block = Block(
            logits, exponentials, norm, surprise, top, top_index, mean, present, masked, target, mass, 1, offset
        )
        scale = scale * upstream.reshape(penalties.shape)
        job = Job(ctx.penalty, strength, ctx.z_loss, target, valid, scale, 1.0, may_look=False)
        grad = block_gradient(block, penalties, job).to(input.dtype).reshape(input.shape)
        return grad, None, None, None, None, None, None


def _logits(input: Tensor) -> Tensor:
    """Rows ``(M, K)`` or planes ``(N, K, P)`` in the precision of the arithmetic."""
    rows = input.unsqueeze(0) if input.dim() == 1 else input.flatten(start_dim=2) if input.dim() > 2 else input
    return rows.to(working_dtype(input))
