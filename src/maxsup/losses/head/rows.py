"""Values of a block of rows of a linear head, whose logits are replaced by their gradient, in every form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import CPU_BLOCK_BYTES
from maxsup.losses.computing.closed_form import Factor, Job, block_loss
from maxsup.losses.device import eager
from maxsup.losses.device.rows import Terms, overwrite_with_gradient
from maxsup.losses.head.soft_cap import cap_in_place
from maxsup.losses.head.vocabulary_parallel import Shard, parallel_block_loss
from maxsup.losses.mbls import fused_penalty

if TYPE_CHECKING:
    from maxsup.losses.head.blocks import Objective

NO_LABEL = -100


def overwritten(
    form: str,
    logits: Tensor,
    labels: Tensor,
    valid: Tensor,
    mass: Tensor,
    alpha: Factor,
    objective: Objective,
    shard: Shard | None,
) -> Tensor:
    """Values of rows, whose logits are replaced by the gradient of the sum in which every row counts ``mass``."""
    if shard is None and form in ("fused", "reference"):
        return _overwritten_in_blocks(logits, labels, valid, mass, alpha, objective)
    slope = cap_in_place(logits, valid, objective.soft_cap)
    if shard is not None:
        values = parallel_block_loss(logits, labels, valid, mass, alpha, objective.z_loss, shard)
    elif form == "triton":
        terms = Terms(NO_LABEL, fused_penalty(objective.margin).kernel, objective.margin, objective.z_loss)
        labels = labels.where(valid, NO_LABEL).squeeze(1)
        values = overwrite_with_gradient(logits, labels, alpha, mass.squeeze(1).contiguous(), terms)
    else:
        job = Job(fused_penalty(objective.margin), alpha, objective.z_loss, labels, valid, 1.0, 1.0, may_look=False)
        values, kept = eager.measured(logits, job, needs_grad=True)
        assert kept is not None
        eager.gradient(logits, kept, mass, alpha, out=logits)
    if slope is not None:
        logits.mul_(slope)
    return values


def _overwritten_in_blocks(
    logits: Tensor, labels: Tensor, valid: Tensor, mass: Tensor, alpha: Factor, objective: Objective
) -> Tensor:
    """In blocks that fit the cache of a CPU, each of which is capped while it is there."""
    is_on_cpu = logits.device.type == "cpu"
    counts = None if is_on_cpu and bool(valid.all()) else valid
    size = max(1, CPU_BLOCK_BYTES[0] // (8 * logits.shape[1])) if is_on_cpu else len(logits)
    penalty = fused_penalty(objective.margin)
    values = []
    for start in range(0, len(logits), size):
        part = slice(start, start + size)
        block, counted = logits[part], None if counts is None else counts[part]
        slope = cap_in_place(block, counted, objective.soft_cap)
        job = Job(penalty, alpha, objective.z_loss, labels[part], counted, mass[part], 1.0, is_on_cpu)
        out = block if penalty.is_centred else None
        block_values, grad = block_loss(block, job, 1, out)
        values.append(block_values.squeeze(1))
        if slope is not None:
            torch.mul(grad, slope, out=block)
        elif out is None:
            block.copy_(grad)
    return torch.cat(values)
