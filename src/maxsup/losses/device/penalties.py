"""The penalties in the kernels: the value of each, and its push on every class."""

# mypy: ignore-errors
# ruff: noqa: RET505 - a constant chooses what is compiled, and that needs an else

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def penalty_of(PENALTY: tl.constexpr, top, mean, true_logit, excess):
    """R of a sample."""
    if PENALTY == "maxsup":
        return top - mean
    elif PENALTY == "ls":
        return true_logit - mean
    else:  # mbls
        return excess


@triton.jit
def push_on_class(PENALTY: tl.constexpr, MARGIN: tl.constexpr, z, count, top):
    """dR/dz of every class, without the extra part of the true or the top class."""
    if PENALTY == "mbls":
        return tl.where(top - z > MARGIN, -1.0 / count, 0.0)
    else:
        return -1.0 / count
