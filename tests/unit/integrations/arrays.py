"""Logits and labels for the adapters of other frameworks, and what torch makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from maxsup.functional import maxsup_cross_entropy

TOLERANCE = 1e-6
Pair = tuple[np.ndarray, np.ndarray]


def made_logits(shape: tuple[int, ...] = (16, 7)) -> np.ndarray:
    return (3 * np.random.default_rng(0).normal(size=shape)).astype(np.float32)


def made_labels(shape: tuple[int, ...] = (16,), num_classes: int = 7) -> np.ndarray:
    return np.random.default_rng(1).integers(num_classes, size=shape)


def made_probabilities() -> np.ndarray:
    return np.random.default_rng(2).dirichlet(np.ones(7), size=16).astype(np.float32)


def masked(kind: str) -> Pair:
    """Logits without the last two classes, and targets of other classes as indices or as probabilities."""
    logits, labels = made_logits(), made_labels(num_classes=4)
    logits[:, 5:] = -np.inf
    return logits, labels if kind == "indices" else np.eye(7, dtype=np.float32)[labels]


def torch_values(loss: Callable[[torch.Tensor], torch.Tensor], logits: np.ndarray) -> Pair:
    """Value of a loss of logits, and the gradient of its sum."""
    scores = torch.tensor(logits, requires_grad=True)
    value = loss(scores)
    value.sum().backward()
    assert scores.grad is not None
    return value.detach().numpy(), scores.grad.numpy()


def of_torch(logits: np.ndarray, labels: np.ndarray, alpha: float = 0.1, **options: Any) -> Pair:
    return torch_values(lambda scores: maxsup_cross_entropy(scores, torch.tensor(labels), alpha, **options), logits)


def jax_values(loss: Callable[[Any], Any], logits: np.ndarray) -> Pair:
    """The same for a loss of arrays of JAX."""
    import jax

    def total(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = loss(scores)
        return value.sum(), value

    (_, value), gradient = jax.jit(jax.value_and_grad(total, has_aux=True))(jax.numpy.asarray(logits))
    return np.asarray(value), np.asarray(gradient)


def assert_same(found: Pair, expected: Pair) -> None:
    for name, ours, theirs in zip(("values", "gradient"), found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
