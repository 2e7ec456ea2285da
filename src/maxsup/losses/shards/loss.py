"""The loss of logits of which each process holds some classes, equal on all of them to the loss of the whole."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Never, Unpack

from maxsup.losses.computing.closed_form import Factor
from maxsup.losses.reduction import (
    LossOptions,
    Reduction,
    ReductionOptions,
    check_options,
    class_axis,
    reduced_values,
    weighted_values,
    whole,
    with_penalty,
)
from maxsup.losses.shards.exchange import check_group
from maxsup.losses.shards.terms import shard_terms


class SplitOptions(TypedDict, total=False):
    """Options of a loss whose logits may be split over the classes.

    ``group``: the processes that hold consecutive parts of the classes in ``input``, each with the same global labels;
    each gets the loss of the whole and the gradient of its part. Probability targets are split alike, class weights
    are those of all classes. ``vocab_start``: index of the first class held here, if parts are not in rank order.
    """

    group: Any
    vocab_start: int | None


class SplitLossOptions(LossOptions, SplitOptions, total=False):
    """Options of a module whose logits may be split over the classes."""


class SplitReductionOptions(ReductionOptions, SplitOptions, total=False):
    """Options of a function whose logits may be split over the classes."""


class Split(NamedTuple):
    """The part of logits and targets that is here, and the processes that hold the others."""

    input: Tensor
    target: Tensor
    group: dist.ProcessGroup
    vocab_start: int | None


def check_split(group: Any, vocab_start: int | None) -> None:
    """Raise one sentence unless this process can talk to the others of ``group``."""
    if group is not None:
        check_group(group, vocab_start)
    elif vocab_start is not None:
        raise ValueError(
            f"vocab_start must go with a group, whose processes hold the other classes; got {vocab_start!r} alone. "
            "Pass group=mesh.get_group('tp')."
        )


def split_of(input: Tensor, target: Tensor, group: Any, vocab_start: int | None) -> Split | None:
    """The part that is here of logits that are split over the classes, as plain tensors; None for whole logits."""
    check_split(group, vocab_start)
    if group is not None:
        return Split(whole(input), whole(target), group, vocab_start)
    return _split_of_dtensor(input, target) if hasattr(input, "placements") else None


def _split_of_dtensor(input: Any, target: Any) -> Split | None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    axis = class_axis(input)
    meshes = [
        number
        for number, place in enumerate(input.placements)
        if type(place) is Shard and place.dim % input.dim() == axis and input.device_mesh.size(number) > 1
    ]
    if len(meshes) != 1:
        return None
    (number,) = meshes
    placements = [place if index == number else Replicate() for index, place in enumerate(input.placements)]
    if list(input.placements) != placements:
        input = input.redistribute(placements=placements)
    if not target.is_floating_point():
        target = whole(target)
    else:
        if not isinstance(target, DTensor):
            target = DTensor.from_local(target, input.device_mesh, [Replicate()] * len(placements), run_check=False)
        target = target.redistribute(placements=placements).to_local()
    return Split(input.to_local(), target, input.device_mesh.get_group(number), None)


def refuse_split(what: str) -> Never:
    """Raise for what has no form for parts of the classes."""
    raise ValueError(
        f"group must be left out beside {what}, which needs all classes in one place; got a process group. Use maxsup, "
        "mbls, ls, logit_penalty or ce with their defaults, or gather the logits."
    )


def split_loss(
    split: Split,
    strength: Factor,
    penalty: str,
    margin: float = 0.0,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    """``CE + strength * penalty`` of logits that are split over the classes."""
    input, target, group, vocab_start = split
    check_options(input, target, **options | {"weight": None})  # the number of weights is that of all classes
    weight, ignore_index, reduction, num_items, empty, z_loss = Reduction(**options)
    rows, is_soft = _rows(input), target.is_floating_point()
    target = _rows(target) if is_soft else target.reshape(-1).long()
    cost, value, log_norm, scale, *_ = shard_terms(
        rows, target, weight, ignore_index, penalty, margin, group.group_name, vocab_start
    )
    added = None
    if penalty != "none":
        added = strength * value
    if z_loss != 0:
        square = z_loss * log_norm.square()
        added = square if added is None else added + square
    values = with_penalty(cost, added)
    denominator: int | Tensor = len(rows)
    if is_soft:
        values = weighted_values(values, scale)
    else:
        valid = target != ignore_index
        values = torch.where(valid, values * scale, 0)
        denominator = torch.where(valid, scale, 0).sum()
    return reduced_values(values, denominator, input, reduction, whole(num_items), empty)


def _rows(tensor: Tensor) -> Tensor:
    """One row a sample, in the type of the tensor."""
    rows = tensor.movedim(class_axis(tensor), -1)
    return rows.unsqueeze(0) if rows.dim() == 1 else rows.flatten(end_dim=-2)
