"""What processes that hold parts of the classes tell each other: sizes, and the top and the sums of each sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

# Layouts whose sizes were seen to fit. On a device, reading them makes the host wait, so they are read once.
_CHECKED: set[tuple[Any, ...]] = set()


class Part(NamedTuple):
    """The classes ``first .. first + size - 1`` of ``num_classes``; both are numbers in the memory of the device."""

    group: dist.ProcessGroup
    size: int
    first: Tensor
    num_classes: Tensor

    def local(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each class is here, and its local index (0 if not)."""
        return is_here(index, self.first, self.size)


def is_here(index: Tensor, first: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Whether each class is among ``size`` from ``first`` on, and its index there (0 if not)."""
    place = index - first
    here = (place >= 0) & (place < size)
    return here, place.where(here, 0)


def check_group(group: Any, vocab_start: Any) -> None:
    """Raise one sentence unless this process can talk to the others of ``group``."""
    if vocab_start is not None and (type(vocab_start) is not int or vocab_start < 0):
        raise ValueError(
            f"vocab_start must be the index of the first class held here; got {vocab_start!r}. Leave it out if the "
            "parts are in the order of the ranks."
        )
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "group must belong to initialised processes; got none. Call torch.distributed.init_process_group first, "
            "or leave group out for whole logits."
        )
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(
            f"group must be a process group that this process is a member of; got {group!r}. Pass "
            "mesh.get_group('tp'), or the result of torch.distributed.new_group on its members."
        )


def shared_top(
    tops: Tensor, size: int, vocab_start: int | None, group: dist.ProcessGroup, weight: Tensor | None = None
) -> tuple[Tensor, Part]:
    """The largest of each ``(N,)`` over all processes, and which classes are here; one collective.

    The sizes travel with the tops, so a process never waits for one that knows them already.
    """
    rank = dist.get_rank(group)
    told = tops.new_full((dist.get_world_size(group), 2), -1.0)
    told[rank, 0] = size
    if vocab_start is not None:
        told[rank, 1] = vocab_start
    message = torch.cat([tops, told.flatten()])
    dist.all_reduce(message, op=dist.ReduceOp.MAX, group=group)
    tops, told = message[: len(tops)], message[len(tops) :].view(-1, 2).to(torch.int64)
    _check_layout(told, size, vocab_start, group, None if weight is None else weight.shape)
    sizes, starts = told.unbind(1)
    return tops, Part(group, size, sizes[:rank].sum() if vocab_start is None else starts[rank], sizes.sum())


def shared_first(indices: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The smallest class index of each sample over all processes; one collective."""
    told = indices.to(torch.int32)
    dist.all_reduce(told, op=dist.ReduceOp.MIN, group=group)
    return told.to(torch.int64)


def shared_sums(columns: list[Tensor], group: dist.ProcessGroup) -> list[Tensor]:
    """The sum over all processes of each column; one collective."""
    message = torch.stack(columns)
    dist.all_reduce(message, group=group)
    return list(message.unbind())


def _check_layout(
    told: Tensor, size: int, vocab_start: int | None, group: dist.ProcessGroup, weight_shape: torch.Size | None
) -> None:
    if told.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    layout = (group.group_name, size, vocab_start, weight_shape)
    if not told.is_cpu and layout in _CHECKED:
        return
    sizes, starts = zip(*told.tolist(), strict=True)
    if any(start >= 0 for start in starts):
        _check_starts(sizes, starts)
    if weight_shape is not None and tuple(weight_shape) != (sum(sizes),):
        raise ValueError(
            f"weight must have one entry per class of all processes, shape ({sum(sizes)},); got "
            f"{tuple(weight_shape)}. Pass the weights of all classes on each of them."
        )
    if not told.is_cpu:
        _CHECKED.add(layout)


def _check_starts(sizes: tuple[int, ...], starts: tuple[int, ...]) -> None:
    silent = [rank for rank, start in enumerate(starts) if start < 0]
    if silent:
        raise ValueError(
            f"vocab_start must be given on all ranks of the group or on none; got none on rank {silent[0]}. Leave it "
            "out if the parts are in the order of the ranks."
        )
    end = 0
    for start, size in sorted(zip(starts, sizes, strict=True)):
        if start != end:
            held = ", ".join(f"{start} to {start + size - 1}" for start, size in zip(starts, sizes, strict=True))
            raise ValueError(
                f"vocab_start and the sizes of the parts must cover each class once; got classes {held} on the "
                "ranks. Pass the same vocabulary on every rank."
            )
        end += size
