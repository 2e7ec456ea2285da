"""One pass over the logits: the loss together with its gradient in closed form.

Only the gradient itself is kept in the size of the logits. Blocks of logits that fit the cache are read once; each
gives its values and its part of the gradient, in float32 for half-precision inputs. The formula in ``reduction.py``
stays the reference: it serves second derivatives, ``torch.func`` and tensor subclasses, which this file does not, and
the tests compare the two everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from maxsup.losses.computing.blocks import blocks, is_narrow, laid_as, laid_out, restored, side_by_side
from maxsup.losses.computing.closed_form import (
    Factor,
    FusedPenalty,
    Job,
    block_loss,
    joined,
    others_of,
    stored_dtype,
    tensors_of,
    working_dtype,
)
from maxsup.losses.computing.small import all_count
from maxsup.losses.computing.traced import traced_values
from maxsup.losses.reduction import at_least_one_if_zero, class_axis, num_classes, sample_shape, single, weighted_target

# Older compilers cannot tell whether a transform or an export is under way.
_KNOWS_TRANSFORMS = torch.__version__ >= "2.7"
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Formula = Callable[..., Tensor]
"""(input, target, strength, **options) -> the same loss as a formula that autograd can differentiate."""


class Call(NamedTuple):
    """The arguments of a loss besides the logits."""

    target: Tensor
    strength: Factor
    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"
    num_items: Factor | None = None
    empty: str = "nan"
    z_loss: float = 0.0

    def with_numbers_now(self) -> Call:
        """Read tensors on the host now, so that later changes to them do not matter; device tensors stay."""
        if not isinstance(self.strength, Tensor) and not isinstance(self.num_items, Tensor):
            return self

        def number(value: Any) -> Any:
            is_one = isinstance(value, Tensor) and value.device.type == "cpu" and value.numel() == 1
            return float(value) if is_one else value

        return self._replace(strength=number(self.strength), num_items=number(self.num_items))


def is_ordinary(*values: Any) -> bool:
    """Whether there are no tensor subclasses, transforms, tracers or forward derivatives.

    Autograd functions written in Python do not support those.
    """
    for value in values:  # not any(), whose generator takes a call for each value
        if isinstance(value, Tensor) and type(value) is not Tensor and type(value) is not torch.nn.Parameter:
            return False
    if torch.compiler.is_compiling():
        # An exported program keeps the forward pass and leaves the gradient to autograd.
        return not (
            _KNOWS_TRANSFORMS and (torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active())
        )
    if torch._C._are_functorch_transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    if is_traced_by_fx():
        return False
    if forward_ad._current_level < 0:
        return True
    return all(forward_ad.unpack_dual(value).tangent is None for value in values if isinstance(value, Tensor))


def is_traced_by_fx() -> bool:
    """Whether ``make_fx`` records the operators, where no value can be read."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None


def can_fuse(input: Tensor, *others: Any) -> bool:
    """Whether the one-pass form supports these arguments; the formula supports all."""
    if not is_ordinary(input, *others) or input.dtype not in DTYPES or num_classes(input) <= 1:
        return False
    # During tracing the batch size may be unknown, and an empty batch needs no special care.
    if not torch.compiler.is_compiling() and input.numel() == 0:
        return False
    for other in others:  # noqa: SIM110 - a generator takes a call for each value
        if isinstance(other, Tensor) and other.requires_grad:
            return False
    return True


def fused_loss(input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
    """``CE + strength * penalty`` in one pass; ``formula`` is the same loss for second derivatives."""
    if torch.compiler.is_compiling():
        job, denominator = job_of(input, call, penalty)
        return reduced(traced_values(input, job), denominator, input, call.reduction)
    if _may_look(input):
        call = call.with_numbers_now()
    return _BlockLoss.apply(input, call, penalty, formula)


def reduced(values: Tensor, denominator: Factor, input: Tensor, reduction: str) -> Tensor:
    """The loss of all samples."""
    if reduction == "none":
        return one_a_sample(values, input)
    return values.sum() / denominator if reduction == "mean" else values.sum()


def one_a_sample(values: Tensor, input: Tensor) -> Tensor:
    """Values in the shape of the samples."""
    if torch.compiler.is_compiling():
        return values.reshape(sample_shape(input))
    # Not a view: autograd forbids in-place changes of a view that a custom function returns.
    return torch.ops.aten._unsafe_view(values, sample_shape(input))


def _may_look(input: Tensor) -> bool:
    # Reading a value is free on a CPU; elsewhere it would stall the device, and a trace cannot branch on it.
    return input.device.type == "cpu" and not torch.compiler.is_compiling()


def job_of(input: Tensor, call: Call, penalty: FusedPenalty, *, is_whole: bool = True) -> tuple[Job, Factor]:
    """The job of a call without the factor of its reduction, and the denominator of its mean.

    Where the job is not done as a whole, probabilities stay as they are until :func:`_part` takes some of them.
    """
    may_look, dtype = _may_look(input), working_dtype(input)
    valid = None
    scale: Factor = 1.0
    denominator: Factor = input.numel() // num_classes(input)
    target = call.target
    if target.is_floating_point():
        if is_whole:
            target, scale = weighted_target(target.to(dtype), call.weight, class_axis(input))
            scale = scale.reshape(-1)
    else:
        target = target.reshape(-1).long()
        if not (may_look and all_count(target, call.ignore_index)):
            valid = target != call.ignore_index
            target = target * valid
        if call.weight is None and valid is not None and not may_look:  # ``valid`` alone says what counts
            denominator = valid.sum(dtype=dtype)
        elif call.weight is not None:
            scale = call.weight.to(dtype)[target]
            scale = scale if valid is None else scale.where(valid, 0)
            denominator = scale.sum()
        elif valid is not None:
            scale = valid.to(dtype)
            denominator = scale.sum()
    if call.num_items is not None:
        denominator = single(call.num_items)
    if call.empty == "zero":
        denominator = at_least_one_if_zero(denominator)
    return Job(penalty, call.strength, call.z_loss, target, valid, scale, 1.0, may_look), denominator


def _values_and_grad(
    input: Tensor, call: Call, penalty: FusedPenalty, needs_grad: bool
) -> tuple[Tensor, Tensor | None, Job]:
    """Values of all samples, the gradient of ``factor`` times their sum in the shape of the input, and the job."""
    job, denominator = job_of(input, call, penalty, is_whole=False)
    if call.reduction == "mean":
        if isinstance(denominator, Tensor):
            inverse = 1.0 / denominator.to(working_dtype(input))
            job = job._replace(factor=float(inverse) if job.may_look else inverse)
        else:
            job = job._replace(factor=1.0 / denominator if denominator else math.nan)
    laid, is_rows = laid_out(input)
    soft = laid_as(job.target, is_rows) if job.target.is_floating_point() else None
    dtype = working_dtype(input)
    grad = torch.empty_like(laid, dtype=stored_dtype(input)) if needs_grad else None
    values = []
    for index, samples in blocks(laid, is_rows):
        own, place = laid[index], None if grad is None else grad[index]
        axis = 0 if is_narrow(own) else 1
        logits = (own if axis == 1 else side_by_side(own)).to(dtype).contiguous()
        part = _part(job, call, logits, axis, samples, None if soft is None else soft[index])
        # The gradient of a centred penalty does not read the logits, so it may take the place of a copy of ours.
        is_free = job.penalty.is_centred and logits.data_ptr() != own.data_ptr()
        is_direct = place is not None and place.dtype == dtype and axis == 1
        block_values, block_grad = block_loss(logits, part, axis, place if is_direct else logits if is_free else None)
        values.append(block_values.reshape(-1))
        if place is not None and not is_direct:
            place.copy_(block_grad if axis == 1 else block_grad.unflatten(1, own[:, 0].shape).movedim(0, 1))
        del logits, block_grad, part  # their memory serves the next block
    all_values = values[0] if len(values) == 1 else torch.cat(values)
    return all_values, None if grad is None else restored(grad, is_rows, input), job


def _part(job: Job, call: Call, logits: Tensor, axis: int, samples: slice, soft: Tensor | None) -> Job:
    """The job of a block of logits."""
    shape = list(logits.shape)
    shape[axis] = 1
    if isinstance(job.strength, Tensor) and job.strength.dim() > 0:
        job = job._replace(strength=job.strength[samples].view(shape))

    def cut(value: Any) -> Any:
        return value[samples].view(shape) if isinstance(value, Tensor) else value

    if soft is None:
        return job._replace(target=cut(job.target), valid=cut(job.valid), scale=cut(job.scale))
    target = (soft if axis == 1 else side_by_side(soft)).to(logits.dtype)
    if call.weight is None and job.may_look and bool(target.sum(axis).all()):
        return job._replace(target=target)  # every sample counts 1
    target, scale = weighted_target(target, call.weight, axis)
    return job._replace(target=target, scale=scale)


class _BlockLoss(torch.autograd.Function):
    """The loss block by block, with a gradient that is ready before backward.

    Everything that backward reads goes through ``save_for_backward``: hooks on saved tensors see it, and changing a
    tensor in place before backward raises.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        values, grad, job = _values_and_grad(input, call, penalty, ctx.needs_input_grad[0])
        save_call(ctx, input, call, formula, (grad,))
        ctx.penalty, ctx.ignores, ctx.address = penalty, job.valid is not None, address_of(grad)
        return one_a_sample(values, input) if call.reduction == "none" else values.sum() * job.factor

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return gradient_by_formula(ctx, upstream)
        saved = ctx.saved_tensors
        input, target, grad = saved[0], saved[1], saved[-1]
        # The first backward gives the buffer away and may scale it in place; a later one computes it again.
        address, ctx.address = ctx.address, None
        if address is None:
            _, call, _ = saved_call(ctx)
            _, grad, _ = _values_and_grad(input, call, ctx.penalty, needs_grad=True)
            address = address_of(grad)
        axis = class_axis(grad)
        scale: Tensor | None = upstream.unsqueeze(axis) if upstream.dim() > 0 else upstream
        if is_vectorised(upstream):
            return (grad * scale).to(input.dtype), None, None, None
        if upstream.dim() == 0 and upstream.device.type == "cpu" and float(upstream) == 1.0:
            scale = None
        elif ctx.ignores and scale is not None:  # 0 times an infinite upstream gradient would be nan
            scale = scale.where((target.long() != ctx.call[3]).unsqueeze(axis), 0)
        return scaled(grad, scale, address_of(grad) == address).to(input.dtype), None, None, None


def save_call(ctx: Any, input: Tensor, call: Call, formula: Formula, own: tuple[Any, ...]) -> None:
    """Keep the arguments of a loss, and values of its form, for backward."""
    ctx.save_for_backward(input, *tensors_of(call), *tensors_of(own))
    ctx.call, ctx.own, ctx.formula = others_of(call), others_of(own), formula


def saved_call(ctx: Any) -> tuple[Tensor, Call, list[Any]]:
    """What :func:`save_call` has kept."""
    input, *saved = ctx.saved_tensors
    size = len(ctx.call)
    return input, Call(*joined(saved[:size], ctx.call)), list(joined(saved[size:], ctx.own))


def gradient_by_formula(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    """A gradient that can be differentiated again, or that of many upstream gradients at once."""
    input, call, _ = saved_call(ctx)
    is_kept = torch.is_grad_enabled()
    with torch.enable_grad():
        own = input.view_as(input)
        loss = ctx.formula(own, **call._asdict())
    (gradient,) = torch.autograd.grad(loss, own, upstream, create_graph=is_kept)
    return gradient, None, None, None


def is_vectorised(upstream: Tensor) -> bool:
    """Whether many upstream gradients come at once, as for a vectorised Jacobian or inside ``torch.vmap``."""
    if torch.compiler.is_compiling():
        return False
    functorch = torch._C._functorch
    return functorch.is_legacy_batchedtensor(upstream) or functorch.is_batchedtensor(upstream)


def address_of(grad: Tensor | None) -> int | None:
    """Memory address of a gradient; None under a compiler, which knows no addresses."""
    return None if grad is None or torch.compiler.is_compiling() else grad.data_ptr()


def scaled(grad: Tensor, scale: Tensor | None, is_ours: bool) -> Tensor:
    """A stored gradient times ``scale`` (None is 1), in place unless a hook on saved tensors supplied it."""
    if not is_ours:
        return grad if scale is None else grad * scale
    # Through .data: autograd would report an in-place change of a saved tensor as the user's mistake.
    return grad.data if scale is None else grad.data.mul_(scale)
