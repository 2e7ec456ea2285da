"""The penalties in the kernels: the value of each, and its push on every class."""

# mypy: ignore-errors
# ruff: noqa: RET505 - a constant chooses what is compiled, and that needs an else

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def penalty_of(PENALTY: tl.constexpr, top, mean, true_logit, squares, expected, log_norm, excess):
    """R of a sample."""
    if PENALTY == "maxsup":
        return top - mean
    elif PENALTY == "ls":
        return true_logit - mean
    elif PENALTY == "logit_penalty":
        return squares / 2
    elif PENALTY == "confidence_penalty":
        return expected - log_norm
    elif PENALTY == "poly1":
        return 1.0 - expected
    else:  # mbls
        return excess


@triton.jit
def push_on_class(PENALTY: tl.constexpr, MARGIN: tl.constexpr, z, probs, count, log_norm, penalty, top):
    """dR/dz of every class, without the extra part of the true or the top class."""
    if PENALTY == "maxsup" or PENALTY == "ls":
        return -1.0 / count
    elif PENALTY == "logit_penalty":
        return z
    elif PENALTY == "confidence_penalty":
        return tl.where(probs == 0, 0.0, probs * (z - log_norm - penalty))
    elif PENALTY == "poly1":
        return probs * (1.0 - penalty)
    else:  # mbls
        return tl.where(top - z > MARGIN, -1.0 / count, 0.0)
