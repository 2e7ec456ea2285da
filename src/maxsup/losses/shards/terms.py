"""Cross-entropy, penalty and log-sum-exp of samples whose classes are split over processes, with their gradients.

Forward takes three small collectives, or two where no top class is needed; backward takes none. What is exchanged are
numbers of each sample, never logits. Rows are computed in blocks, at least in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.losses.computing.blocks import blocks, first_max
from maxsup.losses.computing.closed_form import add_at, top_offset, working_dtype
from maxsup.losses.reduction import raise_if_out_of_range
from maxsup.losses.shards.exchange import Part, is_here, shared_first, shared_sums, shared_top

# Penalties on shards: none, and those that need the mean, distances to the top, or squares.
PENALTIES = ("none", "maxsup", "ls", "mbls", "logit_penalty")
_NEED_TOP_CLASS = ("maxsup", "mbls")

_INPUTS = "Tensor logits, Tensor target, Tensor? weight, int ignore_index, str penalty, float margin"


@torch.library.custom_op(
    "maxsup::shard_terms",
    mutates_args=(),
    schema=f"({_INPUTS}, str group, int? vocab_start) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def shard_terms(
    logits: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, penalty: str, margin: float,
    group: str, vocab_start: int | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Cross-entropy, penalty, log-sum-exp and weight of each row of logits, and what the gradient needs.

    That is statistics of each row, its top class, and the first class that is here. ``weight`` has all classes,
    ``target`` has labels ``(N,)`` or the probabilities of the classes here.
    """
    dtype = working_dtype(logits)
    tops = logits.new_full((len(logits),), -math.inf, dtype=dtype)
    indices = torch.zeros_like(tops, dtype=torch.int64)
    for rows in _row_blocks(logits):
        top, index = first_max(logits[rows].to(dtype), 1)
        tops[rows], indices[rows] = top.squeeze(1), index.squeeze(1)
    top, part = shared_top(tops, logits.shape[1], vocab_start, _named(group), weight)
    if penalty in _NEED_TOP_CLASS:
        indices = shared_first(torch.where(tops == top, indices + part.first, part.num_classes), part.group)
    offset = top_offset(top)
    own = _own_weights(weight, target, part.first, logits.shape[1])
    columns = [
        _columns(logits[rows].to(dtype), target[rows], own, top[rows, None], offset[rows, None], part, penalty, margin)
        for rows in _row_blocks(logits)
    ]
    if columns:
        sums = [torch.cat(parts) for parts in zip(*columns, strict=True)]
    else:  # no class or no row is here
        sums = [torch.zeros_like(tops) for _ in range(_num_columns(target, penalty))]
    norm, count, on_target, *rest = shared_sums(sums, part.group)
    if logits.is_cpu:
        raise_if_out_of_range(target, ignore_index, int(part.num_classes))
    divisor = share = torch.ones_like(top)
    if target.is_floating_point():
        scale = rest.pop()
        if weight is None:
            share, scale = scale, (scale != 0).to(dtype)
        else:
            divisor = scale.where(scale != 0, 1)
            share, on_target, scale = scale / divisor, on_target / divisor, scale.clone()
    else:
        is_class = (target >= 0) & (target < part.num_classes)
        on_target = torch.where(is_class, on_target, math.nan)
        scale = torch.ones_like(top) if weight is None else weight.to(dtype)[target.where(is_class, 0)]
    num_open = torch.zeros_like(top)
    if penalty in ("maxsup", "ls"):
        mean = rest[0] * (part.num_classes / count)
        # The offset cancels unless probabilities do not sum to 1.
        value = top - offset - mean if penalty == "maxsup" else on_target - mean + (share - 1) * offset
    elif penalty == "mbls":
        value, num_open = rest[0] / count, rest[1]
    else:
        value = rest[0].clone() if rest else torch.zeros_like(top)
    surprise = norm.log()
    cost = share * (top - offset + surprise) - on_target
    kept = torch.stack([top + surprise, top, count, num_open, share, divisor])
    return cost, value, top + surprise, scale, kept, indices, part.first.clone()


@shard_terms.register_fake
def _(logits: Tensor, target: Tensor, *others: Any) -> tuple[Tensor, ...]:
    number = logits.new_empty(logits.shape[:1], dtype=working_dtype(logits))
    values = [torch.empty_like(number) for _ in range(4)]
    indices, first = (number.new_empty(shape, dtype=torch.int64) for shape in (number.shape, ()))
    return *values, number.new_empty((6, *number.shape)), indices, first


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, target, weight, *ctx.terms, _, _ = inputs
    ctx.save_for_backward(logits, target, weight, *output[3:])


def _backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
    logits, target, weight, *kept = ctx.saved_tensors
    return shard_gradient(logits, target, weight, *ctx.terms, *kept, *upstream[:3]), *[None] * 7


shard_terms.register_autograd(_backward, setup_context=_keep)


def _named(group: str) -> dist.ProcessGroup:
    # An operator takes no group, only its name.
    return dist.distributed_c10d._resolve_process_group(group)  # type: ignore


def _row_blocks(logits: Tensor) -> Iterator[slice]:
    return (rows for _, rows in blocks(logits, is_rows=True)) if logits.numel() > 0 else iter(())


def _own_weights(weight: Tensor | None, target: Tensor, first: Tensor, size: int) -> Tensor | None:
    """Weights of the classes that are here, for probability targets."""
    if weight is None or not target.is_floating_point():
        return None
    return weight.index_select(0, torch.arange(size, device=weight.device) + first)


def _num_columns(target: Tensor, penalty: str) -> int:
    of_penalty = {"none": 0, "mbls": 2}.get(penalty, 1)
    return 3 + of_penalty + target.is_floating_point()


def _columns(
    z: Tensor, target: Tensor, own: Tensor | None, top: Tensor, offset: Tensor, part: Part, penalty: str, margin: float
) -> list[Tensor]:
    """What some rows add to each sum, from the classes that are here; ``top`` and ``offset`` are ``(N, 1)``."""
    masked = z == -math.inf
    columns = [(z - top).exp_().sum(1), (~masked).sum(1, dtype=z.dtype)]
    if target.is_floating_point():
        mass = _mass(target, own, z.dtype)
        columns.append((mass * (z - offset)).masked_fill_(mass == 0, 0.0).sum(1))
    else:
        here, place = part.local(target.unsqueeze(1))
        columns.append(torch.where(here, z.gather(1, place) - offset, 0).squeeze(1))
    if penalty in ("maxsup", "ls"):
        # Divided first: the sum of large logits may be inf where their mean is not.
        columns.append(((z - offset).masked_fill_(masked, 0.0) / part.num_classes).sum(1))
    elif penalty == "mbls":
        beyond = _beyond(z, masked, top, margin)
        columns += [beyond.sum(1), (beyond > 0).sum(1, dtype=z.dtype)]
    elif penalty == "logit_penalty":
        columns.append(z.masked_fill(masked, 0.0).square().sum(1) / 2)
    return [*columns, mass.sum(1)] if target.is_floating_point() else columns


@torch.library.custom_op(
    "maxsup::shard_gradient",
    mutates_args=(),
    schema=f"({_INPUTS}, Tensor scale, Tensor kept, Tensor indices, Tensor first, Tensor of_cost, Tensor of_value, "
    "Tensor of_log_norm) -> Tensor",
)
def shard_gradient(
    logits: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, penalty: str, margin: float,
    scale: Tensor, kept: Tensor, indices: Tensor, first: Tensor,
    of_cost: Tensor, of_value: Tensor, of_log_norm: Tensor,
) -> Tensor:  # fmt: skip
    """Gradient with respect to the logits that are here, in their type; rows that do not count get 0."""
    gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
    own = _own_weights(weight, target, first, logits.shape[1])
    counted = scale != 0 if target.is_floating_point() else target != ignore_index
    for rows in _row_blocks(logits):
        row = Rows(*(number[rows].unsqueeze(1) for number in (*kept, of_cost, of_value, of_log_norm)))
        z = logits[rows].to(working_dtype(logits))
        grad = _gradient_of_rows(z, row, target[rows], own, indices[rows], first, penalty, margin)
        gradient[rows] = grad.masked_fill_(~counted[rows].unsqueeze(1), 0.0)
    return gradient


@shard_gradient.register_fake
def _(logits: Tensor, *others: Any) -> Tensor:
    return torch.empty_like(logits, memory_format=torch.contiguous_format)


def _refuse(ctx: Any, *upstream: Tensor) -> None:
    raise RuntimeError(
        "A loss whose classes are split over processes has first derivatives only. Gather the logits, or leave "
        "create_graph=True out."
    )


shard_gradient.register_autograd(_refuse)


class Rows(NamedTuple):
    """Statistics of some rows, and the upstream gradients of their three terms, each ``(N, 1)``."""

    log_norm: Tensor
    top: Tensor
    num_present: Tensor
    num_open: Tensor
    share: Tensor
    divisor: Tensor
    pull: Tensor
    push: Tensor
    of_log_norm: Tensor


def _gradient_of_rows(
    z: Tensor,
    row: Rows,
    target: Tensor,
    own: Tensor | None,
    indices: Tensor,
    first: Tensor,
    penalty: str,
    margin: float,
) -> Tensor:
    masked = z == -math.inf
    grad = (z - row.log_norm).exp_().mul_(row.pull * row.share + row.of_log_norm)
    if penalty in ("maxsup", "ls"):
        grad.sub_(row.push / row.num_present).masked_fill_(masked, 0.0)
    elif penalty == "mbls":
        grad.sub_((_beyond(z, masked, row.top, margin) > 0) * (row.push / row.num_present))
    elif penalty == "logit_penalty":
        grad.add_(z.masked_fill(masked, 0.0) * row.push)
    on_target = row.push - row.pull if penalty == "ls" else -row.pull
    if target.is_floating_point():
        grad.add_(_mass(target, own, z.dtype) * (on_target / row.divisor))
    else:
        here, place = is_here(target.unsqueeze(1), first, z.shape[1])
        add_at(grad, 1, place, on_target.where(here, 0))
    if penalty in _NEED_TOP_CLASS:
        here, place = is_here(indices.unsqueeze(1), first, z.shape[1])
        on_top = row.push * (row.num_open / row.num_present) if penalty == "mbls" else row.push
        add_at(grad, 1, place, on_top.where(here, 0))
    return grad


def _mass(target: Tensor, own: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Probability times class weight of the classes that are here."""
    return target.to(dtype) if own is None else target.to(dtype) * own.to(dtype)


def _beyond(z: Tensor, masked: Tensor, top: Tensor, margin: float) -> Tensor:
    """How far each class lies beyond the margin."""
    return (top - z).sub_(margin).clamp_(min=0).masked_fill_(masked, 0.0)
