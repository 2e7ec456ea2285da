"""One pass over the logits: the loss and its closed gradient together.

Nothing of the size of the logits has to be kept but the gradient itself. Blocks of logits that fit the cache are read
once; each gives its values and its part of the gradient, in single precision whatever the input is. The formula in
``reduction.py`` stays the reference: it serves what this file does not (second derivatives, ``torch.func``, tensor
subclasses), and the tests compare the two everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from maxsup.losses.computing.blocks import blocks, laid_as, laid_out, restored
from maxsup.losses.computing.closed_form import Factor, FusedPenalty, Job, block_loss, stored_dtype, working_dtype
from maxsup.losses.computing.traced import traced_values
from maxsup.losses.reduction import at_least_one_if_zero, class_axis, num_classes, sample_shape, weighted_target

# Up to here a batch is small.
SMALL_NUMEL = 16 * 1024
# Older compilers cannot ask whether a transform or an export is under way.
_KNOWS_TRANSFORMS = torch.__version__ >= "2.7"
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Formula = Callable[..., Tensor]
"""(input, target, strength, **options) -> the same loss, as a formula that autograd can follow."""


class Call(NamedTuple):
    """What a loss was called with besides the logits."""

    target: Tensor
    strength: Factor
    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: str = "mean"
    num_items: Factor | None = None
    empty: str = "nan"
    z_loss: float = 0.0

    def with_numbers_now(self) -> Call:
        """The same with numbers in place of tensors on the host, whatever happens to those before backward."""
        if not isinstance(self.strength, Tensor) and not isinstance(self.num_items, Tensor):
            return self
        return self._replace(strength=_number(self.strength), num_items=_number(self.num_items))


def _number(value: Any) -> Any:
    """A number in a tensor on the host costs nothing to read; what is on a device stays there."""
    return float(value) if isinstance(value, Tensor) and value.device.type == "cpu" else value


def is_ordinary(*values: Any) -> bool:
    """Whether autograd functions written in Python serve these arguments.

    They do not serve tensor subclasses, transforms, tracers and forward derivatives.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    if any(type(tensor) is not Tensor and type(tensor) is not torch.nn.Parameter for tensor in tensors):
        return False
    if torch.compiler.is_compiling():
        # An exported program keeps what forward does, and leaves the gradient to autograd.
        return not (
            _KNOWS_TRANSFORMS and (torch.compiler.is_exporting() or torch._C._are_functorch_transforms_active())
        )
    if torch._C._are_functorch_transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return all(unpack_dual(tensor).tangent is None for tensor in tensors)


def can_fuse(input: Tensor, *others: Any) -> bool:
    """Whether the one-pass form serves these arguments; the formula serves all others."""
    if not is_ordinary(input, *others) or input.dtype not in DTYPES or num_classes(input) <= 1:
        return False
    # While it is traced, the size of a batch may not be known, and an empty one needs no care.
    if not torch.compiler.is_compiling() and input.numel() == 0:
        return False
    return not any(isinstance(other, Tensor) and other.requires_grad for other in others)


def fused_loss(input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
    """``CE + strength * penalty`` in one pass; ``formula`` is the same loss for autograd to follow."""
    if torch.compiler.is_compiling():
        job, denominator = job_of(input, call, penalty)
        return reduced(traced_values(input, job), denominator, input, call.reduction)
    if _may_look(input):
        call = call.with_numbers_now()
        if call.weight is None and call.num_items is None and call.z_loss == 0:
            loss = _small_loss(input, call, penalty)
            if loss is not None:
                return loss
    return _EagerLoss.apply(input, call, penalty, formula)


def reduced(values: Tensor, denominator: Factor | None, input: Tensor, reduction: str) -> Tensor:
    """The loss of all samples."""
    if reduction == "none":
        return one_a_sample(values, input)
    return values.sum() / denominator if reduction == "mean" and denominator is not None else values.sum()


def one_a_sample(values: Tensor, input: Tensor) -> Tensor:
    """Values in the shape of the samples."""
    if torch.compiler.is_compiling():
        return values.reshape(sample_shape(input))
    # Not as a view: autograd forbids to change a view in place that a function of ours returns.
    return torch.ops.aten._unsafe_view(values, sample_shape(input))


def _may_look(input: Tensor) -> bool:
    # On a CPU looking at a value costs nothing; elsewhere it would stop the device, and a trace cannot branch on it.
    return input.device.type == "cpu" and not torch.compiler.is_compiling()


def _small_loss(input: Tensor, call: Call, penalty: FusedPenalty) -> Tensor | None:
    """The loss in few calls where the batch is small and every sample and class counts, else None."""
    if penalty.small_loss is None or input.dim() != 2 or input.numel() > SMALL_NUMEL:
        return None
    target, ignore_index = call.target, call.ignore_index
    if call.reduction == "none" or target.dtype != torch.int64:
        return None
    is_counted = int(target.min()) >= 0 if ignore_index < 0 else bool((target != ignore_index).all())
    if not is_counted:
        return None
    factor = 1.0 / len(input) if call.reduction == "mean" else 1.0
    loss = penalty.small_loss(input.to(working_dtype(input)), target, float(call.strength), factor)
    return loss if math.isfinite(float(loss.detach())) else None


def job_of(input: Tensor, call: Call, penalty: FusedPenalty) -> tuple[Job, Factor]:
    """What a call asks of the logits, before any factor, and the denominator of its mean."""
    may_look, dtype = _may_look(input), working_dtype(input)
    valid = None
    scale: Factor = 1.0
    denominator: Factor = input.numel() // num_classes(input)
    if call.target.is_floating_point():
        target, scale = weighted_target(call.target.to(dtype), call.weight, class_axis(input))
        scale = scale.reshape(-1)
    else:
        target = call.target.reshape(-1).long()
        valid = target != call.ignore_index
        if may_look and bool(valid.all()):
            valid = None
        else:
            target = target * valid
        if call.weight is None and valid is not None and not may_look:  # ``valid`` leaves out what does not count
            denominator = valid.sum(dtype=dtype)
        elif call.weight is not None or valid is not None:
            ones = torch.ones(target.shape[0], dtype=dtype, device=input.device)
            scale = ones if call.weight is None else call.weight.to(dtype)[target]
            scale = scale if valid is None else scale.where(valid, 0)
            denominator = scale.sum()
    if call.num_items is not None:
        denominator = call.num_items
    if call.empty == "zero":
        denominator = at_least_one_if_zero(denominator)
    return Job(penalty, call.strength, call.z_loss, target, valid, scale, 1.0, may_look), denominator


def _eager_job(input: Tensor, call: Call, penalty: FusedPenalty) -> Job:
    """The job of a call with the factor of its reduction."""
    job, denominator = job_of(input, call, penalty)
    if call.reduction != "mean":
        return job
    factor: Factor
    if isinstance(denominator, Tensor):
        factor = 1.0 / denominator.to(working_dtype(input))
        factor = float(factor) if job.may_look else factor
    else:
        factor = 1.0 / denominator if denominator else math.nan
    return job._replace(factor=factor)


def _values_and_grad(input: Tensor, job: Job, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """Values of all samples and, in the shape of the input, the gradient of ``factor`` times their sum."""
    laid, is_rows = laid_out(input)
    soft = laid_as(job.target, is_rows) if job.target.is_floating_point() else None
    dtype = working_dtype(input)
    grad = torch.empty_like(laid, dtype=stored_dtype(input)) if needs_grad else None
    values = torch.empty(input.numel() // num_classes(input), dtype=dtype, device=input.device)
    for index, samples, axis in blocks(laid, is_rows):
        part = _part(job, samples, axis, None if soft is None else soft[index])
        logits = laid[index].to(dtype).contiguous()
        out = None
        if grad is not None and grad.dtype == dtype:
            out = grad[index]
        elif logits.dtype != laid.dtype and job.penalty.is_centred:
            out = logits  # a copy of ours, which the gradient of such a penalty does not read
        block_values, block_grad = block_loss(logits, part, axis, out)
        values[samples] = block_values.squeeze(axis)
        if grad is not None and grad.dtype != dtype:
            grad[index] = block_grad
    return values, None if grad is None else restored(grad, is_rows, input)


def _part(job: Job, samples: slice, axis: int, soft: Tensor | None) -> Job:
    """The job of some samples."""

    def cut(value: Any) -> Any:
        return value[samples].unsqueeze(axis) if isinstance(value, Tensor) else value

    target = cut(job.target) if soft is None else soft
    return job._replace(target=target, valid=cut(job.valid), scale=cut(job.scale))


class _EagerLoss(torch.autograd.Function):
    """Block by block; the gradient is ready before backward asks for it.

    All that backward reads goes through ``save_for_backward``: hooks on saved tensors see it, and a tensor that is
    changed in place before backward raises.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, call: Call, penalty: FusedPenalty, formula: Formula) -> Tensor:
        job = _eager_job(input, call, penalty)
        values, grad = _values_and_grad(input, job, ctx.needs_input_grad[0])
        ctx.save_for_backward(input, grad, *tensors_of(call))
        ctx.others, ctx.penalty, ctx.formula = others_of(call), penalty, formula
        ctx.ignores, ctx.address = job.valid is not None, address_of(grad)
        return one_a_sample(values, input) if call.reduction == "none" else values.sum() * job.factor

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        input, grad, *tensors = ctx.saved_tensors
        call = Call(*joined(tensors, ctx.others))
        if torch.is_grad_enabled():  # a second derivative is wanted: the formula has one
            loss = ctx.formula(input, **call._asdict())
            (grad,) = torch.autograd.grad(loss, input, upstream, create_graph=True)
            return grad, None, None, None
        # The buffer is given away, so that it may be scaled in place; who comes again gets it computed again.
        address, ctx.address = ctx.address, None
        if address is None:
            _, grad = _values_and_grad(input, _eager_job(input, call, ctx.penalty), needs_grad=True)
            address = address_of(grad)
        axis = class_axis(grad)
        scale: Tensor | None = upstream.unsqueeze(axis) if upstream.dim() > 0 else upstream
        if is_vectorised(upstream):
            return (grad * scale).to(input.dtype), None, None, None
        if upstream.dim() == 0 and upstream.device.type == "cpu" and float(upstream) == 1.0:
            scale = None
        elif ctx.ignores and scale is not None:  # 0 times an upstream that is not finite is not 0
            scale = scale.where((call.target.long() != call.ignore_index).unsqueeze(axis), 0)
        return scaled(grad, scale, address_of(grad) == address).to(input.dtype), None, None, None


def is_vectorised(upstream: Tensor) -> bool:
    """Whether many upstreams come at once, as for a vectorised Jacobian."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_legacy_batchedtensor(upstream)


def tensors_of(values: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """The tensors among some values, for ``save_for_backward``; None in the place of the others."""
    return tuple(value if isinstance(value, Tensor) else None for value in values)


def others_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """What :func:`tensors_of` leaves out; None in the place of tensors."""
    return tuple(None if isinstance(value, Tensor) else value for value in values)


def joined(tensors: Sequence[Tensor | None], others: Sequence[Any]) -> Iterator[Any]:
    """The values that were taken apart."""
    return (other if tensor is None else tensor for tensor, other in zip(tensors, others, strict=True))


def address_of(grad: Tensor | None) -> int | None:
    """Where a gradient is; None while a compiler, which knows no addresses, looks."""
    return None if grad is None or torch.compiler.is_compiling() else grad.data_ptr()


def scaled(grad: Tensor, scale: Tensor | None, is_ours: bool) -> Tensor:
    """A stored gradient times ``scale`` (None is 1), in its own memory unless a hook on saved tensors supplied it."""
    if not is_ours:
        return grad if scale is None else grad * scale
    # Of its data: autograd would take a change of what it has saved for a mistake of the user.
    return grad.data if scale is None else grad.data.mul_(scale)
