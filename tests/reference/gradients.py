"""Gradients of one sample with respect to its logits, from their closed forms."""

from collections.abc import Sequence

from tests.reference.losses import Target, argmax, probabilities, softmax


def ce_gradient(z: Sequence[float], target: Target) -> list[float]:
    """``q - t``."""
    q, t = softmax(z), probabilities(target, len(z))
    return [q[k] - t[k] for k in range(len(z))]


def ls_gradient(z: Sequence[float], target: Target, alpha: float = 0.1) -> list[float]:
    """``q - (1 - alpha) t - alpha / K``."""
    q, t = softmax(z), probabilities(target, len(z))
    return [q[k] - (1.0 - alpha) * t[k] - alpha / len(z) for k in range(len(z))]


def maxsup_gradient(z: Sequence[float], target: Target, alpha: float = 0.1) -> list[float]:
    """``q - t - alpha / K``, plus ``alpha`` on the first top logit."""
    gradient = ce_gradient(z, target)
    top = argmax(z)
    return [value - alpha / len(z) + (alpha if k == top else 0.0) for k, value in enumerate(gradient)]
