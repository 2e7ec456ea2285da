"""One pass over the logits: the loss and its closed gradient together.

For ``CE + a R`` the gradient is known, ``softmax - target + a dR/dz``, so nothing of the size of the logits has to be
kept but the gradient itself. Blocks of logits that fit the cache are read once; each gives its values and its part of
the gradient, in single precision whatever the input is. The formula in ``reduction.py`` stays the reference: it serves
what this file does not (second derivatives, ``torch.func``), and the tests compare the two everywhere.

A penalty takes part by three facts: its value, whether it pushes every class by ``-a/K``, and the rest of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.blocks import blocks, first_max, laid_as, laid_out, positions, restored
from maxsup.losses.reduction import at_least_one_if_zero, class_axis, num_classes, sample_shape, weighted_target

# Up to here a batch is small.
SMALL_NUMEL = 16 * 1024
# Kept in the place of the exponential of a masked class.
MASKED = -1.0
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Factor = float | Tensor
"""One number for all samples, or a tensor with one for each."""


class Block(NamedTuple):
    """Some samples of a batch and what a penalty may want to know of them; what is reduced keeps the class axis.

    Masked classes (``-inf``) read 0 in ``logits``; ``num_present`` is the number of the others, ``masked`` says which
    they are if there are any.
    """

    logits: Tensor
    exponentials: Tensor
    norm: Factor
    log_norm: Tensor
    top: Tensor
    top_index: Tensor
    mean: Tensor
    num_present: Factor
    masked: Tensor | None
    target: Tensor
    axis: int

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self.exponentials / self.norm if isinstance(self.norm, Tensor) else self.exponentials

    @property
    def target_logit(self) -> Tensor:
        """Logit of the true class, or the expected one under probability targets."""
        if self.target.is_floating_point():
            return (self.target * self.logits).sum(self.axis, keepdim=True)
        return self.logits.gather(self.axis, self.target)


class FusedPenalty(NamedTuple):
    """A penalty in closed form.

    ``value`` gives it for each sample of a block, ``add_gradient(block, value, grad, push)`` adds ``push * dR/dz`` to
    ``grad`` in place, except for the ``-push/K`` on every class that ``is_centred`` announces. Where a batch is small,
    a pass over it is nothing and every call into torch counts: ``small_loss(rows, labels, strength, factor)`` is
    ``factor`` times the summed loss in few calls, for labels that all count and logits that are all finite.
    """

    value: Callable[[Block], Tensor]
    add_gradient: Callable[[Block, Tensor, Tensor, Factor], None]
    is_centred: bool
    small_loss: Callable[[Tensor, Tensor, float, float], Tensor] | None = None


class Job(NamedTuple):
    """What one call asks of the logits: ``factor * sum_i scale_i (CE_i + strength R_i)``, in blocks."""

    penalty: FusedPenalty
    strength: Factor
    target: Tensor
    valid: Tensor | None
    scale: Factor
    factor: Factor
    may_look: bool


def can_fuse(input: Tensor, target: Tensor, strength: Any, weight: Tensor | None) -> bool:
    """Whether the one-pass form serves these arguments; the reference serves all others."""
    if input.dtype not in DTYPES or input.numel() == 0 or num_classes(input) == 1:
        return False
    if torch._C._are_functorch_transforms_active():
        return False
    return not any(isinstance(other, Tensor) and other.requires_grad for other in (target, strength, weight))


def fused_loss(
    input: Tensor,
    target: Tensor,
    strength: Factor,
    penalty: FusedPenalty,
    reference: Callable[[Tensor], Tensor],
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    num_items: Factor | None = None,
    empty: str = "nan",
) -> Tensor:
    """``CE + strength * penalty`` in one pass; ``reference`` is the same loss as a differentiable formula."""
    is_traced = torch.compiler.is_compiling()
    # On a CPU looking at a value costs nothing; elsewhere it would stop the device, and a trace cannot branch on it.
    may_look = not is_traced and input.device.type == "cpu"
    if may_look:
        strength = float(strength)
        if weight is None and num_items is None:
            loss = _small_loss(input, target, strength, penalty, ignore_index, reduction)
            if loss is not None:
                return loss
    dtype = working_dtype(input)
    valid = None
    scale: Factor = 1.0
    denominator: Factor = input.numel() // num_classes(input)
    if target.is_floating_point():
        target, scale = weighted_target(target.to(dtype), weight, class_axis(input))
        scale = scale.reshape(-1)
    else:
        target = target.reshape(-1).long()
        valid = target != ignore_index
        if may_look and bool(valid.all()):
            valid = None
        else:
            target = target.where(valid, 0)
        if weight is not None or valid is not None:
            ones = torch.ones(len(target), dtype=dtype, device=input.device)
            scale = ones if weight is None else weight.to(dtype)[target]
            scale = scale if valid is None else scale.where(valid, 0)
            denominator = scale.sum()
    factor: Factor = 1.0
    if reduction == "mean":
        if num_items is not None:
            denominator = num_items
        if empty == "zero":
            denominator = at_least_one_if_zero(denominator)
        if isinstance(denominator, Tensor):
            factor = 1.0 / denominator.to(dtype)
            factor = float(factor) if may_look else factor
        else:
            factor = 1.0 / denominator if denominator else math.nan
    job = Job(penalty, strength, target, valid, scale, factor, may_look)
    if is_traced:
        values = _TracedLoss.apply(input, job._replace(factor=1.0))
        return values.reshape(sample_shape(input)) if reduction == "none" else values.sum() * factor
    return _EagerLoss.apply(input, job, reduction, reference)


def _small_loss(
    input: Tensor, target: Tensor, strength: float, penalty: FusedPenalty, ignore_index: int, reduction: str
) -> Tensor | None:
    """The loss in few calls where the batch is small and every sample and class counts, else None."""
    if penalty.small_loss is None or input.dim() != 2 or input.numel() > SMALL_NUMEL:
        return None
    if reduction == "none" or target.dtype != torch.int64:
        return None
    is_counted = int(target.min()) >= 0 if ignore_index < 0 else bool((target != ignore_index).all())
    if not is_counted:
        return None
    factor = 1.0 / len(input) if reduction == "mean" else 1.0
    loss = penalty.small_loss(input.to(working_dtype(input)), target, strength, factor)
    return loss if math.isfinite(float(loss.detach())) else None


def _values_and_grad(input: Tensor, job: Job, needs_grad: bool) -> tuple[Tensor, Tensor | None]:
    """Values of all samples and, in the shape of the input, the gradient of ``factor`` times their sum."""
    laid, is_rows = laid_out(input)
    soft = laid_as(job.target, is_rows) if job.target.is_floating_point() else None
    dtype = working_dtype(input)
    grad = torch.empty_like(laid, dtype=_stored_dtype(input)) if needs_grad else None
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


class _EagerLoss(torch.autograd.Function):
    """Block by block; the gradient is ready before backward asks for it."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, job: Job, reduction: str, reference: Callable[[Tensor], Tensor]) -> Tensor:
        values, ctx.grad = _values_and_grad(input, job, ctx.needs_input_grad[0])
        ctx.save_for_backward(input)
        ctx.job, ctx.reference = job, reference
        return values.reshape(sample_shape(input)) if reduction == "none" else values.sum() * job.factor

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (input,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is wanted: the formula has one
            (grad,) = torch.autograd.grad(ctx.reference(input), input, upstream, create_graph=True)
            return grad, None, None, None
        # The buffer is given away, so that it may be scaled in place; who comes again gets it computed again.
        grad, ctx.grad = ctx.grad, None
        if grad is None:
            _, grad = _values_and_grad(input, ctx.job, needs_grad=True)
        scale = upstream.unsqueeze(class_axis(grad)) if upstream.dim() > 0 else upstream
        if torch._C._functorch.is_legacy_batchedtensor(upstream):  # a vectorised Jacobian: many upstreams at once
            grad = grad * scale
        elif upstream.dim() > 0 or upstream.device.type != "cpu" or float(upstream) != 1.0:
            grad.mul_(scale)
        return grad.to(input.dtype), None, None, None


class _TracedLoss(torch.autograd.Function):
    """Values of all samples as one block, for ``torch.compile`` to fuse.

    What backward needs of the size of the logits is their exponentials, and it may write the gradient over them. Left
    alone, the compiler would compute them again. It does not where a scatter stands between: one that puts a 1 where a
    1 is. In planes, where scattering is slow and an exponential is not, it is left alone.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, job: Job) -> Tensor:
        block, penalty, values = measured_block(_traced_logits(input), _traced_part(input, job), 1)
        kept = block.exponentials if block.masked is None else block.exponentials.masked_fill(block.masked, MASKED)
        kept = kept.to(_stored_dtype(input))
        if input.dim() <= 2:
            kept = kept.scatter(1, block.top_index, 1.0)
        small = (block.norm, block.log_norm, block.top, block.top_index, block.mean, block.num_present)
        ctx.save_for_backward(input, kept, penalty, *small)
        ctx.job = job
        return values.reshape(-1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        input, kept, penalty, *small = ctx.saved_tensors
        job = _traced_part(input, ctx.job)
        masked, exponentials = kept == MASKED, kept.to(working_dtype(input))
        logits = exponentials
        if not job.penalty.is_centred:  # it looks at both again
            logits = _traced_logits(input)
            logits = logits.masked_fill(logits == -math.inf, 0.0)
            exponentials = exponentials.clamp(min=0.0)
        norm, log_norm, top, top_index, mean, num_present = small
        block = Block(
            logits, exponentials, norm, log_norm, top, top_index, mean, num_present, masked, job.target, axis=1
        )
        job = job._replace(scale=job.scale * upstream.reshape(penalty.shape))
        return block_gradient(block, penalty, job).to(input.dtype).reshape(input.shape), None


def _traced_logits(input: Tensor) -> Tensor:
    rows = input.unsqueeze(0) if input.dim() == 1 else input.flatten(start_dim=2) if input.dim() > 2 else input
    return rows.to(working_dtype(input))


def _traced_part(input: Tensor, job: Job) -> Job:
    """The job of all samples, shaped to meet the logits of a trace."""
    rows = _traced_logits(input)
    shape = (rows.shape[0], 1, *rows.shape[2:])
    return job._replace(
        target=job.target.reshape(rows.shape if job.target.is_floating_point() else shape),
        valid=None if job.valid is None else job.valid.reshape(shape),
        scale=job.scale.reshape(shape) if isinstance(job.scale, Tensor) else job.scale,
    )


def block_loss(logits: Tensor, job: Job, axis: int, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Values of the samples of one block, and the gradient of ``factor`` times their sum.

    The gradient is written to ``out`` where given. That may be the memory of ``logits`` if the penalty is centred: what
    is then left to add (``add_gradient``) does not read them.
    """
    # A centred penalty does not look at probabilities again: they may stand where the gradient will.
    is_room = out is not None and out.data_ptr() != logits.data_ptr() and job.penalty.is_centred
    block, penalty, values = measured_block(logits, job, axis, out if is_room else None)
    return values, block_gradient(block, penalty, job, out)


def measured_block(logits: Tensor, job: Job, axis: int, room: Tensor | None = None) -> tuple[Block, Tensor, Tensor]:
    """What there is to know of a block, the penalty of its samples, and their values."""
    count: Factor = logits.shape[axis]
    total = logits.sum(axis, keepdim=True)
    present, masked = logits, None
    is_finite = job.may_look and math.isfinite(float(total.sum()))
    if not is_finite:
        masked = logits == -math.inf
        present = logits.masked_fill(masked, 0.0)
        total = present.sum(axis, keepdim=True)
        count = torch.where(masked, 0.0, torch.ones_like(logits)).sum(axis, keepdim=True)
    top, top_index = first_max(logits, axis)
    norm: Factor = 1.0
    if axis == logits.dim() - 1 and not torch.compiler.is_compiling():
        is_writable = room is not None and room.is_contiguous()
        exponentials = torch.softmax(logits, axis, out=room if is_writable else None)
        # The top probability is at least 1/K, so its logarithm is exact where that of the target may be -inf.
        log_norm = top - exponentials.gather(axis, top_index).log()
    else:
        exponentials = torch.sub(logits, top, out=room).exp_()
        norm = exponentials.sum(axis, keepdim=True)
        log_norm = top + norm.log()
    mean = total / count
    block = Block(present, exponentials, norm, log_norm, top, top_index, mean, count, masked, job.target, axis)
    penalty = job.penalty.value(block)
    if job.target.is_floating_point():
        data = job.target.sum(axis, keepdim=True) * log_norm - block.target_logit
    else:
        # Of the logits themselves: a true class that is masked costs inf.
        data = log_norm - logits.gather(axis, job.target)
    values = data + job.strength * penalty
    if isinstance(job.scale, Tensor):
        values = job.scale * values
    if job.valid is not None and not is_finite:  # 0 times what an ignored sample holds may not be 0
        values = torch.where(job.valid, values, 0)
    return block, penalty, values


def block_gradient(block: Block, penalty: Tensor, job: Job, out: Tensor | None = None) -> Tensor:
    """Gradient of ``factor`` times the summed values of a block, written to ``out`` where given."""
    pull = job.scale * job.factor
    push = pull * job.strength
    shift = -push / block.num_present if job.penalty.is_centred else 0.0
    share = block.target.sum(block.axis, keepdim=True) if block.target.is_floating_point() else 1.0
    grad = _scaled_and_shifted(block.exponentials, share * pull / block.norm, shift, out)
    if block.masked is not None:
        grad = grad.masked_fill_(block.masked, 0.0)
    if block.target.is_floating_point():
        grad.sub_(block.target * pull)
    else:
        add_at(grad, block.axis, block.target, -pull)
    job.penalty.add_gradient(block, penalty, grad, push)
    if block.masked is not None and job.valid is not None:
        grad.masked_fill_(~job.valid, 0.0)
    return grad


def working_dtype(input: Tensor) -> torch.dtype:
    """Double precision stays, everything else is computed in single precision."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def _stored_dtype(input: Tensor) -> torch.dtype:
    # What is stored has not met a loss scaler yet, and would underflow in fp16.
    return torch.float32 if input.dtype == torch.float16 else input.dtype


def add_at(grad: Tensor, axis: int, index: Tensor, push: Factor) -> None:
    """Add ``push`` to one class of every sample."""
    if torch.compiler.is_compiling():  # as a part of the pass over all classes
        is_class = positions(grad, axis) == index
        grad.add_(torch.where(is_class, push, 0.0))
    elif isinstance(push, Tensor):
        grad.scatter_add_(axis, index, push.to(grad.dtype).expand(index.shape))
    else:
        grad.scatter_(axis, index, push, reduce="add")


def _scaled_and_shifted(probs: Tensor, factor: Factor, shift: Factor, out: Tensor | None) -> Tensor:
    if out is None:
        return probs * factor + shift
    if not isinstance(factor, Tensor) and not isinstance(shift, Tensor):
        return torch.add(probs.new_tensor(shift), probs, alpha=factor, out=out)
    as_tensor = probs.new_tensor
    shift = shift if isinstance(shift, Tensor) else as_tensor(shift)
    return torch.addcmul(shift, probs, factor if isinstance(factor, Tensor) else as_tensor(factor), out=out)


def _part(job: Job, samples: slice, axis: int, soft: Tensor | None) -> Job:
    """The job of some samples."""

    def cut(value: Any) -> Any:
        return value[samples].unsqueeze(axis) if isinstance(value, Tensor) else value

    target = cut(job.target) if soft is None else soft
    return job._replace(target=target, valid=cut(job.valid), scale=cut(job.scale))
