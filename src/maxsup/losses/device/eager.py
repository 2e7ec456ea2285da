"""All samples at once in few operators, for a device without our kernels.

Softmax is computed once, at least in float32. Backward scales a direction that is already corrected at the true and at
the top class, so that half precision rounds it once. Masked classes cost a few more passes; whether there are any is
the only value that the host reads, where reading is possible.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import laid_as, laid_out, restored
from maxsup.losses.computing.closed_form import (
    NEAR,
    Block,
    Factor,
    Job,
    add_at,
    largest_top,
    penalty_and_values,
    probability_share,
    top_offset,
    working_dtype,
)
from maxsup.losses.reduction import weighted_values

# Older versions compute a float32 softmax of bfloat16 on a GPU only, not on meta.
WIDENS_ON_META = torch.__version__ >= "2.7"


class Kept(NamedTuple):
    """What backward needs: the gradient without the push on every class, and what scales that push."""

    direction: Tensor
    masked: Tensor | None
    num_present: Factor | None


def measured(input: Tensor, job: Job, needs_grad: bool) -> tuple[Tensor, Kept | None]:
    """Flat values of all samples, and what backward needs."""
    laid, is_rows = laid_out(input)
    is_soft = job.target.is_floating_point()
    job = job._replace(
        target=laid_as(job.target, is_rows) if is_soft else _beside(job.target, laid),
        valid=_beside(job.valid, laid),
        scale=_beside(job.scale, laid),
        strength=_beside(job.strength, laid),
    )
    block, penalty, values = _measured_block(laid, job)
    if isinstance(job.scale, Tensor):
        values = weighted_values(values, job.scale) if is_soft else job.scale * values
    if job.valid is not None:  # an ignored sample may hold nan or inf, and 0 times that is nan
        values = values * job.valid if block.masked is None else torch.where(job.valid, values, 0)
    return values.reshape(-1), _kept(block, penalty, job) if needs_grad else None


def gradient(input: Tensor, kept: Kept, pull: Tensor, strength: Factor, out: Tensor | None = None) -> Tensor:
    """Gradient in the shape and type of the input; ``pull`` is the weight of each sample, or of all.

    It is written to ``out`` where given, which may be the rows of the input.
    """
    laid, is_rows = laid_out(input)
    pull, strength = _beside(pull, laid), _beside(strength, laid)
    out = torch.empty_like(laid) if out is None else out
    if kept.num_present is None:
        torch.mul(kept.direction, pull, out=out)
    else:
        torch.addcmul(pull * (-strength / kept.num_present), kept.direction, pull, out=out)
    if kept.masked is not None:
        out.masked_fill_(kept.masked, 0.0)
    return restored(out, is_rows, input)


def _beside(value: Any, laid: Tensor) -> Any:
    """A tensor with one entry per sample, shaped to broadcast against the logits."""
    is_one = not isinstance(value, Tensor) or value.dim() == 0
    return value if is_one else value.reshape(laid.shape[0], 1, *laid.shape[2:])


def _measured_block(laid: Tensor, job: Job) -> tuple[Block, Tensor, Tensor]:
    """The statistics of all samples, their penalty, and their values before any weight."""
    dtype = working_dtype(laid)
    masked = None
    offset: Factor = 0.0
    count: Factor = laid.shape[1]
    mean = laid.mean(1, keepdim=True, dtype=dtype)
    top, top_index = laid.max(1, keepdim=True)
    is_finite, is_near = _is_ordinary(mean, top)
    is_soft = job.target.is_floating_point()
    is_special = is_soft or job.z_loss != 0 or isinstance(job.strength, Tensor) or not is_near
    in_few_calls = None if is_special else job.penalty.few_calls
    if in_few_calls is None:
        top = top.to(dtype)
    if job.penalty.is_invariant and not is_near:
        offset = top_offset(top)
        laid, top = laid - offset, top - offset
        mean = laid.mean(1, keepdim=True)
    present = laid
    if not is_finite:
        masked = laid == -math.inf
        count = laid.shape[1] - masked.sum(1, keepdim=True, dtype=dtype)
        present = torch.nan_to_num(laid, nan=math.nan, posinf=math.inf, neginf=0.0)
        # Divided first: the sum of large logits may be inf where their mean is not.
        mean = (present / count).sum(1, keepdim=True, dtype=dtype)
    probs = _softmax(laid, dtype)
    # The top probability is at least 1/K, so its logarithm is exact, while that of the target may be -inf.
    surprise = torch.xlogy(-1.0, probs.gather(1, top_index))
    if not job.penalty.is_centred:  # it computes with the logits
        present = present.to(dtype)
    mass: Factor = job.target.sum(1, keepdim=True) if is_soft else 1.0
    block = Block(present, probs, 1.0, surprise, top, top_index, mean, count, masked, job.target, mass, 1, offset)
    if in_few_calls is not None:
        return block, surprise, in_few_calls(surprise, block, laid.gather(1, job.target), float(job.strength))
    return block, *penalty_and_values(block, laid, job)


def _is_ordinary(means: Tensor, tops: Tensor) -> tuple[bool, bool]:
    """Whether no logit is masked and whether none is far from 0, judged by means and tops; True, True on ``meta``.

    Where the means must not be read, the first is False, and the second is True to spare a pass.
    """
    kind = means.device.type
    # Elsewhere reading may cost more than the extra passes: a lazy device would compile what it has recorded so far.
    may_look = kind in ("cpu", "mps", "cuda")
    if kind == "cuda":  # the user may have forbidden the host to wait for the device
        may_look = not torch.cuda.is_current_stream_capturing() and torch.cuda.get_sync_debug_mode() == 0
    if not may_look:
        return kind == "meta", True
    largest = float(means.abs().amax())
    is_finite = math.isfinite(largest)
    return is_finite, (largest if is_finite else largest_top(tops)) <= NEAR


def _softmax(laid: Tensor, dtype: torch.dtype) -> Tensor:
    if laid.is_meta and laid.dtype != dtype and WIDENS_ON_META:  # a GPU converts on the fly, without a copy
        return torch.ops.aten._softmax(laid, 1, True)
    return torch.softmax(laid, 1, dtype=dtype)


def _kept(block: Block, penalty: Tensor, job: Job) -> Kept:
    direction, masked = block.exponentials, block.masked
    if block.target.is_floating_point() or job.z_loss != 0 or not job.penalty.is_centred:
        # Also a copy, because a penalty that is not centred reads the probabilities while it adds.
        direction = direction * probability_share(block, job.z_loss)
    job.penalty.add_gradient(block, penalty, direction, job.strength)
    if block.target.is_floating_point():
        direction.sub_(block.target)
    else:
        add_at(direction, 1, block.target, -1.0)
    if masked is not None and job.valid is not None:
        masked = masked | ~job.valid
    return Kept(direction, masked, block.num_present if job.penalty.is_centred else None)
