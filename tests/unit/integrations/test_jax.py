"""MaxSup in JAX: the numbers and gradients of the torch function, and what JAX itself asks of a function."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from maxsup.functional import maxsup_cross_entropy as torch_cross_entropy
from maxsup.integrations.jax import maxsup_cross_entropy, maxsup_penalty
from tests.reference import losses as reference

TOLERANCE = 1e-6


def made_logits(shape: tuple[int, ...] = (16, 7), seed: int = 0) -> np.ndarray:
    return (3 * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def made_labels(shape: tuple[int, ...] = (16,), num_classes: int = 7) -> np.ndarray:
    return np.random.default_rng(1).integers(num_classes, size=shape)


def of_torch(logits: np.ndarray, labels: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Values of all samples and the gradient of their sum."""
    scores = torch.tensor(logits, requires_grad=True)
    values = torch_cross_entropy(scores, torch.tensor(labels), alpha, reduction="none")
    values.sum().backward()
    assert scores.grad is not None
    return values.detach().numpy(), scores.grad.numpy()


def of_jax(logits: np.ndarray, labels: np.ndarray, alpha: float, **options: object) -> tuple[np.ndarray, np.ndarray]:
    def total(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = maxsup_cross_entropy(scores, jnp.asarray(labels), alpha, **options)
        return values.sum(), values

    (_, values), gradient = jax.jit(jax.value_and_grad(total, has_aux=True))(jnp.asarray(logits))
    return np.asarray(values), np.asarray(gradient)


def assert_same(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    for name, ours, theirs in zip(("values", "gradient"), found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_class_indices_give_the_numbers_of_torch(alpha: float) -> None:
    logits, labels = made_logits(), made_labels()
    assert_same(of_jax(logits, labels, alpha), of_torch(logits, labels, alpha))


def test_probabilities_give_the_numbers_of_torch() -> None:
    probs = np.random.default_rng(2).dirichlet(np.ones(7), size=16).astype(np.float32)
    assert_same(of_jax(made_logits(), probs, 0.1), of_torch(made_logits(), probs, 0.1))


def test_a_row_equals_the_plain_loop() -> None:
    logits = made_logits()
    values, _ = of_jax(logits, made_labels(), 0.3)
    for row, label, value in zip(logits.tolist(), made_labels().tolist(), values.tolist(), strict=True):
        assert value == pytest.approx(reference.maxsup(row, label, alpha=0.3), abs=1e-5)


def test_of_tied_logits_the_first_takes_the_whole_gradient() -> None:
    logits = np.zeros((3, 5), dtype=np.float32)
    labels = np.array([0, 1, 4])
    found = of_jax(logits, labels, 0.5)
    assert_same(found, of_torch(logits, labels, 0.5))
    # softmax - one-hot - alpha / K, plus alpha at the first index only
    np.testing.assert_allclose(found[1][1], [0.6, -0.9, 0.1, 0.1, 0.1], atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["indices", "probabilities"])
def test_masked_classes_stay_out_and_get_no_gradient(kind: str) -> None:
    logits, labels = made_logits(), made_labels(num_classes=4)
    logits[:, 5:] = -math.inf
    targets = labels if kind == "indices" else np.eye(7, dtype=np.float32)[labels]
    values, gradient = of_jax(logits, targets, 0.1)
    assert_same((values, gradient), of_torch(logits, targets, 0.1))
    assert not gradient[:, 5:].any()


def test_where_over_classes_is_a_mask_of_minus_infinity() -> None:
    logits, labels = made_logits(), made_labels(num_classes=4)
    where = np.ones((16, 7), dtype=bool)
    where[:, 5:] = False
    masked = np.where(where, logits, -np.inf)
    assert_same(of_jax(logits, labels, 0.1, where=jnp.asarray(where)), of_torch(masked, labels, 0.1))


def test_where_over_examples_silences_them_whatever_they_hold() -> None:
    logits, labels = made_logits(), made_labels()
    where = np.arange(16) % 3 != 0
    kept = of_torch(logits, np.where(where, labels, -100), 0.1)
    logits[~where] = np.nan
    assert_same(of_jax(logits, np.where(where, labels, -100), 0.1, where=jnp.asarray(where)), kept)


def test_a_row_of_zero_probabilities_counts_nothing() -> None:
    probs = np.eye(7, dtype=np.float32)[made_labels()]
    probs[3] = 0
    values, gradient = of_jax(made_logits(), probs, 0.1)
    assert_same((values, gradient), of_torch(made_logits(), probs, 0.1))
    assert values[3] == 0
    assert not gradient[3].any()


def test_the_class_axis_may_be_anywhere() -> None:
    logits, labels = made_logits((2, 7, 3, 4)), made_labels((2, 3, 4))
    assert_same(of_jax(logits, labels, 0.1, axis=1), of_torch(logits, labels, 0.1))
    probs = np.moveaxis(np.eye(7, dtype=np.float32)[labels], -1, 1)
    assert_same(of_jax(logits, probs, 0.1, axis=1), of_torch(logits, probs, 0.1))


def test_jit_and_vmap_change_nothing() -> None:
    logits, labels = jnp.asarray(made_logits()), jnp.asarray(made_labels())
    plain = maxsup_cross_entropy(logits, labels, 0.2)
    compiled = jax.jit(maxsup_cross_entropy)(logits, labels, 0.2)
    mapped = jax.vmap(maxsup_cross_entropy, in_axes=(0, 0, None))(logits, labels, jnp.float32(0.2))
    np.testing.assert_allclose(compiled, plain, rtol=TOLERANCE)
    np.testing.assert_allclose(mapped, plain, rtol=TOLERANCE)


def test_a_compiled_function_sees_a_new_alpha() -> None:
    logits, labels = jnp.asarray(made_logits()), jnp.asarray(made_labels())
    compiled = jax.jit(maxsup_cross_entropy)
    gap = compiled(logits, labels, 0.3) - compiled(logits, labels, 0.1)
    np.testing.assert_allclose(gap, 0.2 * maxsup_penalty(logits), rtol=1e-4)


def test_half_precision_is_computed_in_single() -> None:
    logits = jnp.asarray(made_logits((4, 30000)), dtype=jnp.bfloat16)
    labels = jnp.asarray(made_labels((4,)))
    values = maxsup_cross_entropy(logits, labels)
    assert values.dtype == jnp.float32
    np.testing.assert_allclose(values, maxsup_cross_entropy(logits.astype(jnp.float32), labels), rtol=TOLERANCE)


@pytest.mark.parametrize("label", [-1, -100, 7, 255])
def test_a_label_outside_the_classes_gives_nan_and_not_a_class(label: int) -> None:
    assert math.isnan(float(maxsup_cross_entropy(jnp.asarray(made_logits((7,))), label)))


@pytest.mark.parametrize(
    ("logits", "labels", "options", "words"),
    [
        ((16, 7), np.zeros(16), {}, "labels that are probabilities must have the shape of the logits"),
        ((16, 7), np.zeros((16, 7), dtype=int), {}, "labels that are class indices must be integers of shape"),
        ((16, 7), np.zeros(16, dtype=int), {"where": np.ones((7, 16))}, "where must have the shape"),
        ((16, 7), np.zeros(16, dtype=int), {"alpha": -0.1}, "alpha must be a number of at least 0"),
        ((), np.zeros(16, dtype=int), {}, "logits must be floating-point scores"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(
    logits: tuple[int, ...], labels: np.ndarray, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        maxsup_cross_entropy(jnp.zeros(logits), jnp.asarray(labels), **options)
