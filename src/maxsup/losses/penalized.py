"""``CE + strength * penalty``, the family of almost every method of the paper, by formula or in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.computing.closed_form import Factor, FusedPenalty, working_dtype
from maxsup.losses.computing.forms import form_for
from maxsup.losses.computing.fused import Call, can_fuse, fused_loss
from maxsup.losses.computing.plain import plain_cross_entropy
from maxsup.losses.computing.small import small_loss
from maxsup.losses.device.loss import device_loss
from maxsup.losses.reduction import (
    ReductionOptions,
    check_options,
    check_strength,
    num_classes,
    raise_if_out_of_range,
    reduced_loss,
    strength_of_rows,
    whole,
)
from maxsup.losses.shards.loss import refuse_split, split_loss, split_of

Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(rows of logits, their log-probabilities, targets) -> penalty ``(N,)``."""


def penalized_cross_entropy(
    input: Tensor,
    target: Tensor,
    strength: float | Tensor,
    penalty: Penalty,
    *,
    fused: FusedPenalty | None = None,
    name: str = "alpha",
    limit: float = math.inf,
    group: Any = None,
    vocab_start: int | None = None,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    """``CE + strength * penalty``; a strength of 0 is ``F.cross_entropy`` to the bit.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        strength: A number, which is checked, or a tensor of one number or of one a sample, whose values are not read.
        penalty: The formula of what is added.
        fused: The same in closed form with its gradient, where there is one.
        name: The caller's name for the strength.
        limit: Largest allowed strength.
        group: Processes that hold parts of the classes, like ``vocab_start``: see :class:`SplitOptions`.
        vocab_start: Index of the first class that is here.
        options: See :class:`ReductionOptions`.
    """
    check_strength(name, strength, limit, input=input)
    if isinstance(strength, Tensor) and strength.dim() > 0:
        strength = strength_of_rows(strength, working_dtype(input))
    if group is not None or vocab_start is not None or type(input) is not Tensor or type(target) is not Tensor:
        split = split_of(input, target, group, vocab_start)
        if split is not None and fused is not None and fused.on_shards:
            return split_loss(split, strength, fused.on_shards, fused.margin, **options)
        if group is not None:
            refuse_split("this loss")
        input, target = whole(input), whole(target)
    if not isinstance(strength, Tensor) and strength == 0 and options.get("z_loss", 0) == 0:
        return plain_cross_entropy(input, target, **options)

    def formula(input: Tensor, target: Tensor, strength: Factor, **options: Unpack[ReductionOptions]) -> Tensor:
        def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
            log_probs = F.log_softmax(rows, dim=-1)
            return -log_probs, strength * penalty(rows, log_probs, target)

        return reduced_loss(input, target, terms, **options)

    form = form_for(input)
    others = (target, strength, options.get("weight"), options.get("num_items"))
    if fused is None or form == "reference" or not can_fuse(input, *others):
        return formula(input, target, strength, **options)
    if form == "triton" and not fused.kernel:
        form = "fused" if torch.compiler.is_compiling() else "eager"
    check_options(input, target, **options)
    try:
        call = Call(target, strength, **options)
        if form == "fused":
            loss = small_loss(input, call, fused)
            return fused_loss(input, call, fused, formula) if loss is None else loss
        return device_loss(input, call, fused, formula, form)
    except (IndexError, RuntimeError):
        raise_if_out_of_range(target, options.get("ignore_index", -100), num_classes(input))
        raise
