"""``CE + strength * penalty``: the family almost every method of the paper belongs to, by formula or in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.core.checks import check_choice
from maxsup.losses.closed_form import Factor, FusedPenalty
from maxsup.losses.fused import can_fuse, fused_loss
from maxsup.losses.plain import plain_cross_entropy
from maxsup.losses.reduction import (
    ReductionOptions,
    check_options,
    check_strength,
    num_classes,
    raise_if_out_of_range,
    reduced_loss,
    whole,
)

IMPLEMENTATIONS = ("fused", "reference")
# A context variable: threads and asynchronous tasks choose for themselves, in whatever order they leave.
_implementation: ContextVar[str] = ContextVar("implementation", default="fused")

Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(rows of logits, their log-probabilities, targets) -> penalty ``(N,)``."""


@contextmanager
def implementation(name: str) -> Iterator[None]:
    """Choose how losses are computed in a ``with`` block: ``"fused"`` (one pass, default) or ``"reference"`` (formula).

    Both give the same numbers; the reference is slower, larger and easy to read. Each thread chooses for itself, and a
    compiled loss keeps to its own form.

    Example:
        >>> from maxsup.functional import implementation, maxsup_cross_entropy
        >>> with implementation("reference"):
        ...     maxsup_cross_entropy(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))
        tensor(0.2949)
    """
    check_choice("implementation", name, IMPLEMENTATIONS)
    token = _implementation.set(name)
    try:
        yield
    finally:
        _implementation.reset(token)


def penalized_cross_entropy(
    input: Tensor,
    target: Tensor,
    strength: float | Tensor,
    penalty: Penalty,
    *,
    fused: FusedPenalty | None = None,
    name: str = "alpha",
    limit: float = math.inf,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    """``CE + strength * penalty``; a strength of 0 is ``F.cross_entropy`` to the bit.

    Args:
        input: Logits.
        target: Class indices or probabilities.
        strength: A number that is checked, or a tensor that is not looked at.
        penalty: What is added, as a formula.
        fused: The same in closed form with its gradient, where there is one.
        name: What the caller calls the strength.
        limit: Largest strength that makes sense.
        options: See :class:`ReductionOptions`.
    """
    check_strength(name, strength, limit)
    input, target = whole(input), whole(target)
    if not isinstance(strength, Tensor) and strength == 0 and options.get("z_loss", 0) == 0:
        return plain_cross_entropy(input, target, **options)

    def formula(input: Tensor, target: Tensor, strength: Factor, **options: Unpack[ReductionOptions]) -> Tensor:
        def terms(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
            log_probs = F.log_softmax(rows, dim=-1)
            return -log_probs, strength * penalty(rows, log_probs, target)

        return reduced_loss(input, target, terms, **options)

    # Not every version of torch that is promised can trace a context variable.
    is_reference = not torch.compiler.is_compiling() and _implementation.get() == "reference"
    others = (target, strength, options.get("weight"), options.get("num_items"))
    if fused is None or is_reference or not can_fuse(input, *others):
        return formula(input, target, strength, **options)
    check_options(input, target, **options)
    try:
        return fused_loss(input, target, strength, fused, formula, **options)
    except (IndexError, RuntimeError):
        raise_if_out_of_range(target, options.get("ignore_index", -100), num_classes(input))
        raise
