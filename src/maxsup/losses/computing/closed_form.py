"""The loss of a block of logits and its gradient in closed form.

For ``CE + a R`` the gradient is known: ``softmax - target + a dR/dz``. A penalty takes part by three facts: its value,
whether it pushes every class by ``-a/K``, and the rest of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import first_max, positions

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


def probabilities(block: Block) -> Tensor:
    """Probabilities of the classes."""
    return block.exponentials / block.norm if isinstance(block.norm, Tensor) else block.exponentials


def target_logit(block: Block) -> Tensor:
    """Logit of the true class, or the expected one under probability targets."""
    if block.target.is_floating_point():
        return (block.target * block.logits).sum(block.axis, keepdim=True)
    return block.logits.gather(block.axis, block.target)


class FusedPenalty(NamedTuple):
    """A penalty in closed form.

    ``value`` gives it for each sample of a block, ``add_gradient(block, value, grad, push)`` adds ``push * dR/dz`` to
    ``grad`` in place, except for the ``-push/K`` on every class that ``is_centred`` announces. Where a batch is small,
    a pass over it is nothing and every call into torch counts: ``small_loss(rows, labels, strength, factor)`` is
    ``factor`` times the summed loss in few calls, for labels that all count and logits that are all finite. On a device
    every call is a kernel: ``few_calls(surprise, block, label_logits, strength)`` is ``CE + strength R`` of samples
    with labels, from ``-log`` of the top probability and without the norm. ``kernel`` is what the kernels for a device
    call it, ``margin`` a number that some take.
    """

    value: Callable[[Block], Tensor]
    add_gradient: Callable[[Block, Tensor, Tensor, Factor], None]
    is_centred: bool
    kernel: str
    small_loss: Callable[[Tensor, Tensor, float, float], Tensor] | None = None
    few_calls: Callable[[Tensor, Block, Tensor, float], Tensor] | None = None
    margin: float = 0.0


class Job(NamedTuple):
    """What one call asks of the logits: ``factor sum_i scale_i (CE_i + strength R_i + z_loss lse_i^2)``, in blocks."""

    penalty: FusedPenalty
    strength: Factor
    z_loss: float
    target: Tensor
    valid: Tensor | None
    scale: Factor
    factor: Factor
    may_look: bool


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
        data = job.target.sum(axis, keepdim=True) * log_norm - target_logit(block)
    else:
        # Of the logits themselves: a true class that is masked costs inf.
        data = log_norm - logits.gather(axis, job.target)
    values = data + job.strength * penalty
    if job.z_loss != 0:
        values = values + job.z_loss * log_norm.square()
    if isinstance(job.scale, Tensor):
        values = job.scale * values
    if job.valid is not None and not is_finite:  # 0 times what an ignored sample holds may not be 0
        values = torch.where(job.valid, values, 0)
    return block, penalty, values


def block_gradient(block: Block, penalty: Tensor, job: Job, out: Tensor | None = None) -> Tensor:
    """Gradient of ``factor`` times the summed values of a block, written to ``out`` where given."""
    pull = job.scale * job.factor
    if job.valid is not None:  # 0 times the factor of a batch without any target is not 0
        pull = torch.where(job.valid, pull, 0)
    push = pull * job.strength
    shift = -push / block.num_present if job.penalty.is_centred else 0.0
    share = probability_share(block, job.z_loss)
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


def probability_share(block: Block, z_loss: float) -> Factor:
    """How many times the probabilities are in the gradient, before the penalty."""
    share: Factor = block.target.sum(block.axis, keepdim=True) if block.target.is_floating_point() else 1.0
    # The gradient of log-sum-exp is the probabilities, which cross-entropy has too.
    return share if z_loss == 0 else share + 2 * z_loss * block.log_norm


def working_dtype(input: Tensor) -> torch.dtype:
    """Double precision stays, everything else is computed in single precision."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def stored_dtype(input: Tensor) -> torch.dtype:
    """That of the input, but not fp16: what is stored has not met a loss scaler yet and would underflow."""
    return torch.float32 if input.dtype == torch.float16 else input.dtype


def add_at(grad: Tensor, axis: int, index: Tensor, push: Factor) -> None:
    """Add ``push`` to one class of every sample."""
    if torch.compiler.is_compiling():  # as a part of the pass over all classes
        is_class = positions(grad, axis) == index
        grad.add_(torch.where(is_class, push, 0.0))
    elif torch.are_deterministic_algorithms_enabled() and grad.device.type != "cpu":
        # A GPU adds at indices in no promised order, and so refuses to; with one index a sample nothing is lost.
        grad.scatter_(axis, index, grad.gather(axis, index).add_(push))
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
