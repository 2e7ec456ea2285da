"""The loss of a block of logits and its gradient in closed form.

For ``CE + a R`` the gradient is ``softmax - target + a dR/dz``. A penalty is described by three facts: its value,
whether it pushes every class by ``-a/K``, and the rest of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import first_max, positions
from maxsup.losses.reduction import weighted_values

# Where the mean or the top of the logits is further from 0, rounding it would be seen in the loss.
NEAR, FAR = 64.0, 1e30
# A CPU adds one number at this many indices as fast as numbers of their own, which take two more calls.
FEW = 512

Factor = float | Tensor
"""One number for all samples, or a tensor with one for each."""


class Block(NamedTuple):
    """Some samples of a batch with the statistics that penalties use; reduced tensors keep the class axis.

    Masked classes (``-inf``) are 0 in ``logits`` and marked in ``masked`` if there are any; ``num_present`` counts the
    other classes. ``offset`` was subtracted from the logits of every sample; ``surprise`` is ``-log`` of the top
    probability; ``mass`` is the sum of the target.
    """

    logits: Tensor
    exponentials: Tensor
    norm: Factor
    surprise: Tensor
    top: Tensor
    top_index: Tensor
    mean: Tensor
    num_present: Factor
    masked: Tensor | None
    target: Tensor
    mass: Factor
    axis: int
    offset: Factor = 0.0

    @property
    def log_norm(self) -> Tensor:
        """``log sum_k exp`` of the logits."""
        return self.top + self.surprise


def probabilities(block: Block) -> Tensor:
    """Probabilities of the classes."""
    return block.exponentials / block.norm if isinstance(block.norm, Tensor) else block.exponentials


def target_logit(block: Block) -> Tensor:
    """Logit of the true class, or the expected one under probability targets."""
    if block.target.is_floating_point():
        return (block.target * block.logits).sum(block.axis, keepdim=True)
    return block.logits.gather(block.axis, block.target)


class FusedPenalty(NamedTuple):
    """A penalty R in closed form.

    Attributes:
        value: R of each sample of a block.
        add_gradient: ``(block, value, grad, push)``: adds ``push * dR/dz`` to ``grad`` in place, without the push of
            ``-push/K`` on every class where the penalty ``is_centred``.
        is_centred: Whether R pushes every class by ``-1/K``.
        kernel: Name of the penalty in the device kernels; without one, few operators serve a device.
        signed: ``(signed, logits, target, strength)``: adds ``strength dR/dz``, without the push on every class, to the
            signed target of a small batch, in place; for finite logits, with their class axis at 1.
        few_calls: ``(surprise, block, label_logits, strength)``: ``CE + strength R`` of samples with labels and logits
            near 0, for devices on which every call is a kernel; ``surprise`` is ``-log`` of the top probability. Half
            precision stays in the top and label logits.
        margin: A number that some penalties take.
        is_invariant: Whether a number added to all logits changes R for no target that sums to 1.
        on_shards: Name of the penalty where processes hold parts of the classes; without one, parts are refused.
    """

    value: Callable[[Block], Tensor]
    add_gradient: Callable[[Block, Tensor, Tensor, Factor], None]
    is_centred: bool
    kernel: str = ""
    signed: Callable[[Tensor, Tensor, Tensor, float], None] | None = None
    few_calls: Callable[[Tensor, Block, Tensor, float], Tensor] | None = None
    margin: float = 0.0
    is_invariant: bool = True
    on_shards: str = ""


class Job(NamedTuple):
    """``factor sum_i scale_i (CE_i + strength R_i + z_loss lse_i^2)``; ``may_look`` allows reading values."""

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

    The gradient is written to ``out`` where given. If the penalty is centred, that may be the memory of ``logits``,
    because ``add_gradient`` then does not read them.
    """
    # A centred penalty does not read the probabilities again, so they may occupy the memory of the gradient.
    is_room = out is not None and out.data_ptr() != logits.data_ptr() and job.penalty.is_centred
    block, penalty, values = measured_block(logits, job, axis, out if is_room else None)
    return values, block_gradient(block, penalty, job, out)


def measured_block(logits: Tensor, job: Job, axis: int, room: Tensor | None = None) -> tuple[Block, Tensor, Tensor]:
    """The statistics of a block, the penalty of its samples, and their values."""
    masked = None
    offset: Factor = 0.0
    count: Factor = logits.shape[axis]
    total = logits.sum(axis, keepdim=True)
    top, top_index = first_max(logits, axis, room)
    is_finite = is_near = False
    if job.may_look:
        largest = float(total.abs().amax()) / logits.shape[axis]
        is_finite = math.isfinite(largest)
        is_near = (largest if is_finite else largest_top(top)) <= NEAR
    if job.penalty.is_invariant and not is_near:
        offset = top_offset(top)
        logits, top = logits - offset, top - offset
        total = logits.sum(axis, keepdim=True)
    mean = total / count
    present = logits
    if not is_finite:
        present, masked = _without_masked(logits, as_numbers=job.may_look and job.penalty.is_centred)
        # Divided first: the sum of large logits may be inf where their mean is not.
        mean = (present / count).sum(axis, keepdim=True)
        num_present = count - masked.sum(axis, keepdim=True, dtype=logits.dtype)
        mean, count = mean * (count / num_present), num_present
    norm: Factor = 1.0
    if not torch.compiler.is_compiling():
        is_writable = room is not None and room.is_contiguous()
        exponentials = torch.softmax(logits, axis, out=room if is_writable else None)
        # The top probability is at least 1/K, so its logarithm is exact, while that of the target may be -inf.
        surprise = exponentials.gather(axis, top_index).log_().neg_()
    else:
        exponentials = torch.sub(logits, top, out=room).exp_()
        norm = exponentials.sum(axis, keepdim=True)
        surprise = norm.log()
    mass: Factor = job.target.sum(axis, keepdim=True) if job.target.is_floating_point() else 1.0
    block = Block(
        present, exponentials, norm, surprise, top, top_index, mean, count, masked, job.target, mass, axis, offset
    )
    penalty, values = penalty_and_values(block, logits, job)
    if isinstance(job.scale, Tensor):
        values = weighted_values(values, job.scale) if job.target.is_floating_point() else job.scale * values
    if job.valid is not None and not is_finite:  # an ignored sample may hold nan or inf, and 0 times that is nan
        values = torch.where(job.valid, values, 0)
    return block, penalty, values


def top_offset(top: Tensor) -> Tensor:
    """What to subtract from logits whose top is far from 0; nothing where the difference may overflow."""
    return top.where(top.abs() < FAR, 0)


def largest_top(top: Tensor) -> float:
    """Largest distance of the tops from 0, without those of ignored rows that hold nan or inf."""
    return float(torch.nan_to_num(top, nan=0.0, posinf=0.0, neginf=0.0).abs().amax())


def _without_masked(logits: Tensor, *, as_numbers: bool) -> tuple[Tensor, Tensor]:
    """Logits with 0 in place of ``-inf``, and a mark where that was: 1 if ``as_numbers``, which is faster on a CPU."""
    if not as_numbers:
        masked = logits == -math.inf
        return logits.masked_fill(masked, 0.0), masked
    present = torch.nan_to_num(logits, nan=math.nan, posinf=math.inf, neginf=0.0)
    return present, torch.eq(logits, -math.inf, out=torch.empty_like(logits))


def penalty_and_values(block: Block, logits: Tensor, job: Job) -> tuple[Tensor, Tensor]:
    """Penalty of the samples of a block, and their values before any weight."""
    penalty = job.penalty.value(block)
    if job.target.is_floating_point():
        values = block.mass * block.log_norm - target_logit(block)
        if block.masked is not None:  # a masked class costs inf where its target is not 0
            costs_inf = (block.masked * (job.target != 0)).any(block.axis, keepdim=True)
            values = values.masked_fill(costs_inf, math.inf)
    else:
        # From the logits with -inf: a masked true class costs inf. The difference is exact, as the logarithm is not.
        values = block.top - logits.gather(block.axis, job.target) + block.surprise
    values = values + job.strength * penalty
    return penalty, values if job.z_loss == 0 else values + job.z_loss * (block.log_norm + block.offset).square()


def block_gradient(block: Block, penalty: Tensor, job: Job, out: Tensor | None = None) -> Tensor:
    """Gradient of ``factor`` times the summed values of a block, written to ``out`` where given."""
    pull = job.scale * job.factor
    if job.valid is not None:  # the factor of a batch without targets is inf or nan
        pull = torch.where(job.valid, pull, 0)
    push = pull * job.strength
    shift = -push / block.num_present if job.penalty.is_centred else 0.0
    share = probability_share(block, job.z_loss)
    grad = _scaled_and_shifted(block.exponentials, share * pull / block.norm, shift, out)
    if block.masked is not None:
        if block.masked.dtype == torch.bool:
            grad.masked_fill_(block.masked, 0.0)
        else:  # a masked class has probability 0
            grad.sub_(block.masked.mul_(shift))
    if block.target.is_floating_point():
        if isinstance(pull, Tensor):
            grad.sub_(block.target * pull)
        else:
            grad.sub_(block.target, alpha=pull)
    else:
        add_at(grad, block.axis, block.target, -pull)
    job.penalty.add_gradient(block, penalty, grad, push)
    if block.masked is not None and job.valid is not None:
        grad.masked_fill_(~job.valid, 0.0)
    return grad


def probability_share(block: Block, z_loss: float) -> Factor:
    """The factor of the probabilities in the gradient, before the penalty."""
    # The gradient of log-sum-exp is the probabilities, as in cross-entropy.
    return block.mass if z_loss == 0 else block.mass + 2 * z_loss * (block.log_norm + block.offset)


def working_dtype(input: Tensor) -> torch.dtype:
    """float64 stays, everything else is computed in float32."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def stored_dtype(input: Tensor) -> torch.dtype:
    """That of the input, but float32 for fp16: before a loss scaler is applied, gradients would underflow."""
    return torch.float32 if input.dtype == torch.float16 else input.dtype


def add_at(grad: Tensor, axis: int, index: Tensor, push: Factor) -> None:
    """Add ``push`` to one class of every sample."""
    if torch.compiler.is_compiling():  # fuses with the pass over all classes
        is_class = positions(grad, axis) == index
        grad.add_(torch.where(is_class, push, 0.0))
    elif torch.are_deterministic_algorithms_enabled() and grad.device.type != "cpu":
        # A GPU refuses to add at indices, since their order is not fixed; one index per sample can be overwritten.
        grad.scatter_(axis, index, grad.gather(axis, index).add_(push))
    elif isinstance(push, Tensor):
        grad.scatter_add_(axis, index, push.to(grad.dtype).expand(index.shape))
    else:
        add_one(grad, axis, index, push)


def add_one(grad: Tensor, axis: int, index: Tensor, push: float) -> None:
    """Add one number to one class of every sample, outside of a compiler."""
    if grad.is_cpu and index.numel() > FEW:
        grad.scatter_add_(axis, index, grad.new_full((), push).expand(index.shape))
    else:
        grad.scatter_(axis, index, push, reduce="add")


def _scaled_and_shifted(probs: Tensor, factor: Factor, shift: Factor, out: Tensor | None) -> Tensor:
    if out is None:
        return probs * factor + shift
    if isinstance(factor, Tensor):
        # Not addcmul, which does not use vector instructions for a factor per sample.
        return torch.mul(probs, factor, out=out).add_(shift)
    shift = shift if isinstance(shift, Tensor) else probs.new_full((), shift)
    return torch.add(shift, probs, alpha=factor, out=out)


def tensors_of(values: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """The tensors among some values, for ``save_for_backward``, and None in place of the others."""
    # Of a list, here and below: a generator takes a call for each value.
    return tuple([value if isinstance(value, Tensor) else None for value in values])


def others_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """What :func:`tensors_of` leaves out, and None in place of tensors."""
    return tuple([None if isinstance(value, Tensor) else value for value in values])


def joined(tensors: Sequence[Tensor | None], others: Sequence[Any]) -> Iterator[Any]:
    """The values that :func:`tensors_of` and :func:`others_of` have split."""
    return iter([other if tensor is None else tensor for tensor, other in zip(tensors, others, strict=True)])
