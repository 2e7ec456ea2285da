"""A block of logits whose classes are split over processes, which exchange six numbers per row."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.losses.computing.closed_form import Factor


class Shard(NamedTuple):
    """The classes ``offset .. offset + size - 1`` of ``num_classes``, held by one process of ``group``."""

    group: dist.ProcessGroup
    offset: int
    size: int
    num_classes: int

    @classmethod
    def of(cls, weight: Tensor, group: dist.ProcessGroup) -> Shard:
        """The part that ``weight`` is, from the sizes of all parts in the order of ranks."""
        own = torch.tensor([len(weight)], device=weight.device)
        sizes = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(sizes, own, group=group)
        counts = [int(size) for size in sizes]
        rank = dist.get_rank(group)
        return cls(group, sum(counts[:rank]), counts[rank], sum(counts))

    def local(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Whether this process holds each class, and its local index (0 if not)."""
        is_here = (index >= self.offset) & (index < self.offset + self.size)
        return is_here, torch.where(is_here, index - self.offset, 0)


def parallel_block_loss(
    logits: Tensor, labels: Tensor, valid: Tensor, mass: Tensor, alpha: Factor, z_loss: float, shard: Shard
) -> Tensor:
    """Values of rows of the whole head; overwrites this process's logits ``(R, size)`` with their gradient."""
    logits.masked_fill_(~valid, 0.0)
    masked = logits == -math.inf
    top = logits.amax(dim=1, keepdim=True)
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=shard.group)
    positions = torch.arange(shard.offset, shard.offset + shard.size, device=logits.device)
    top_index = torch.where(logits == top, positions, shard.num_classes).amin(dim=1, keepdim=True)
    dist.all_reduce(top_index, op=dist.ReduceOp.MIN, group=shard.group)
    has_label, label = shard.local(labels)
    sums = torch.cat(
        [
            (logits - top).exp().sum(dim=1, keepdim=True),
            logits.masked_fill(masked, 0.0).sum(dim=1, keepdim=True),
            (~masked).sum(dim=1, keepdim=True).to(logits.dtype),
            torch.where(has_label, logits.gather(1, label), 0),
        ],
        dim=1,
    )
    dist.all_reduce(sums, group=shard.group)
    exponentials, total, count, target_logit = sums.split(1, dim=1)
    log_norm = top + exponentials.log()
    values = log_norm - target_logit + alpha * (top - total / count)
    pull = mass
    if z_loss != 0:
        values = values + z_loss * log_norm.square()
        pull = mass * (1 + 2 * z_loss * log_norm)
    values = valid * values

    push = mass * alpha
    logits.sub_(log_norm).exp_().mul_(pull).sub_(push / count).masked_fill_(masked, 0.0)
    logits.scatter_add_(1, label, torch.where(has_label, -mass, 0).to(logits.dtype))
    has_top, place = shard.local(top_index)
    logits.scatter_add_(1, place, torch.where(has_top, push, 0).to(logits.dtype))
    return values.squeeze(1)
