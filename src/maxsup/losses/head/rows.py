"""Values of a block of rows of a linear head, whose logits are overwritten by their gradient, in every form."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from maxsup.losses.computing.blocks import CPU_BLOCK_BYTES
from maxsup.losses.computing.closed_form import Factor, Job, block_gradient, measured_block
from maxsup.losses.computing.penalties import beyond_margin
from maxsup.losses.device import eager
from maxsup.losses.device.rows import Terms, overwrite_with_gradient
from maxsup.losses.head.metrics import measures_of_logits, write_measures_of_block
from maxsup.losses.mbls import mbls_cross_entropy
from maxsup.losses.reduction import with_penalty
from maxsup.losses.shards.terms import shard_gradient, shard_terms

NO_LABEL = -100


class Objective(NamedTuple):
    """``CE + alpha R + z_loss lse^2`` of each row.

    The logits are those of the head times ``logit_scale``; with a ``soft_cap`` ``s`` above 0 they are then
    ``s tanh(z / s)``, which keeps them within ``(-s, s)``.
    """

    margin: float = 0.0
    z_loss: float = 0.0
    soft_cap: float = 0.0
    logit_scale: float = 1.0

    def shaped(self, logits: Tensor) -> Tensor:
        """Logits of the head, scaled and capped."""
        logits = logits if self.logit_scale == 1 else logits * self.logit_scale
        return logits if self.soft_cap == 0 else soft_capped(logits, self.soft_cap)

    def of_logits(self, logits: Tensor, target: Tensor, alpha: Factor, **options: Any) -> Tensor:
        """The same from shaped logits in memory, differentiated by autograd."""
        return mbls_cross_entropy(logits, target, alpha, self.margin, z_loss=self.z_loss, **options)


class Rows(NamedTuple):
    """Label of each row (0 where it has none), whether the row counts, and the weight of its gradient."""

    labels: Tensor
    valid: Tensor
    mass: Tensor


def overwritten(
    form: str,
    logits: Tensor,
    rows: Rows,
    alpha: Factor,
    objective: Objective,
    group: dist.ProcessGroup | None,
    measures: Tensor | None,
) -> Tensor:
    """Values of rows; overwrites the logits with the gradient of their sum, in which every row counts ``mass``.

    ``alpha`` is one number, or has one a row. What is measured of each row is written to ``measures``, where given.
    """
    if group is None and form in ("fused", "reference"):
        return _overwritten_in_blocks(logits, rows, alpha, objective, measures)
    labels, valid, mass = rows
    # In the gradient with respect to the logits of the head, a scale is one more factor of every row.
    mass = mass * objective.logit_scale
    slope = cap_in_place(logits, valid, objective.soft_cap)
    if group is not None:
        values = _overwritten_on_shards(logits, rows._replace(mass=mass), alpha, objective, group)
    elif form == "triton":
        terms = Terms(NO_LABEL, beyond_margin(objective.margin).kernel, objective.margin, objective.z_loss)
        labels = labels.where(valid, NO_LABEL).squeeze(1)
        values = overwrite_with_gradient(logits, labels, alpha, mass.squeeze(1).contiguous(), terms, measures)
    else:
        if measures is not None:
            measures.copy_(measures_of_logits(logits, labels.squeeze(1)))
        job = Job(beyond_margin(objective.margin), alpha, objective.z_loss, labels, valid, 1.0, 1.0, may_look=False)
        values, kept = eager.measured(logits, job, needs_grad=True)
        assert kept is not None
        eager.gradient(logits, kept, mass, alpha, out=logits)
    if slope is not None:
        logits.mul_(slope)
    return values


def _overwritten_on_shards(
    logits: Tensor, rows: Rows, alpha: Factor, objective: Objective, group: dist.ProcessGroup
) -> Tensor:
    """The same where processes hold parts of the classes."""
    valid, mass = rows.valid.squeeze(1), rows.mass.squeeze(1)
    labels = rows.labels.squeeze(1).where(valid, NO_LABEL)
    terms = (None, NO_LABEL, beyond_margin(objective.margin).on_shards, objective.margin)
    cost, value, log_norm, *kept = shard_terms(logits, labels, *terms, group.group_name, None)
    upstream = (mass, mass * alpha, 2 * objective.z_loss * mass * log_norm)
    logits.copy_(shard_gradient(logits, labels, *terms, *kept, *upstream))
    values = with_penalty(cost, alpha * value + objective.z_loss * log_norm.square())
    return values.where(valid, 0)


def _overwritten_in_blocks(
    logits: Tensor, rows: Rows, alpha: Factor, objective: Objective, measures: Tensor | None
) -> Tensor:
    """The same in blocks that fit the cache of a CPU; each is capped while it is there."""
    is_on_cpu = logits.device.type == "cpu"
    valid = None if is_on_cpu and bool(rows.valid.all()) else rows.valid
    size = max(1, CPU_BLOCK_BYTES[0] // (8 * logits.shape[1])) if is_on_cpu else len(logits)
    penalty = beyond_margin(objective.margin)
    values = []
    for start in range(0, len(logits), size):
        part = slice(start, start + size)
        block, counted = logits[part], None if valid is None else valid[part]
        slope = cap_in_place(block, counted, objective.soft_cap)
        strength = alpha[part].unsqueeze(1) if isinstance(alpha, Tensor) and alpha.dim() > 0 else alpha
        settings = rows.labels[part], counted, rows.mass[part], objective.logit_scale, is_on_cpu
        job = Job(penalty, strength, objective.z_loss, *settings)
        out = block if penalty.is_centred else None
        statistics, penalties, block_values = measured_block(block, job, 1)
        if measures is not None:
            write_measures_of_block(measures[:, part], statistics)
        grad = block_gradient(statistics, penalties, job, out)
        values.append(block_values.squeeze(1))
        if slope is not None:
            torch.mul(grad, slope, out=block)
        elif out is None:
            block.copy_(grad)
    return torch.cat(values)


def soft_capped(logits: Tensor, cap: float) -> Tensor:
    """``cap * tanh(logits / cap)``; a masked class (``-inf``) stays masked.

    Example:
        >>> soft_capped(torch.tensor([0.0, 1.0, 100.0]), 2.0)
        tensor([0.0000, 0.9242, 2.0000])
    """
    return torch.where(logits == -math.inf, logits, cap * (logits / cap).tanh())


def cap_in_place(logits: Tensor, valid: Tensor | None, cap: float) -> Tensor | None:
    """Cap rows of logits in their own memory and return the slope ``1 - tanh(z / cap)^2``; None where ``cap`` is 0.

    The slope is 0 in rows that are not valid, which may hold nan.
    """
    if cap == 0:
        return None
    logits.copy_(soft_capped(logits, cap))
    slope = 1 - (logits / cap).square()
    slope = slope.masked_fill_(logits == -math.inf, 0.0)
    return slope if valid is None else slope.masked_fill_(~valid, 0.0)
