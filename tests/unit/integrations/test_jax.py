"""MaxSup in JAX: the numbers and gradients of the torch function, and what JAX itself asks of a function."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from maxsup.integrations.jax import maxsup_cross_entropy, maxsup_penalty
from tests.reference import losses as reference
from tests.unit.integrations.arrays import (
    TOLERANCE,
    Pair,
    assert_same,
    jax_values,
    made_labels,
    made_logits,
    made_probabilities,
    masked,
    of_torch,
)


def of_jax(logits: np.ndarray, labels: np.ndarray, alpha: float = 0.1, **options: object) -> Pair:
    return jax_values(partial(maxsup_cross_entropy, labels=jnp.asarray(labels), alpha=alpha, **options), logits)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_class_indices_give_the_numbers_of_torch(alpha: float) -> None:
    logits, labels = made_logits(), made_labels()
    assert_same(of_jax(logits, labels, alpha), of_torch(logits, labels, alpha, reduction="none"))


def test_probabilities_give_the_numbers_of_torch() -> None:
    logits, probs = made_logits(), made_probabilities()
    assert_same(of_jax(logits, probs), of_torch(logits, probs, reduction="none"))


def test_a_row_equals_the_plain_loop() -> None:
    logits = made_logits()
    values, _ = of_jax(logits, made_labels(), 0.3)
    for row, label, value in zip(logits.tolist(), made_labels().tolist(), values.tolist(), strict=True):
        assert value == pytest.approx(reference.maxsup(row, label, alpha=0.3), abs=1e-5)


def test_of_tied_logits_the_first_takes_the_whole_gradient() -> None:
    logits, labels = np.zeros((3, 5), dtype=np.float32), np.array([0, 1, 4])
    found = of_jax(logits, labels, 0.5)
    assert_same(found, of_torch(logits, labels, 0.5, reduction="none"))
    # softmax - one-hot - alpha / K, plus alpha at the first index only
    np.testing.assert_allclose(found[1][1], [0.6, -0.9, 0.1, 0.1, 0.1], atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["indices", "probabilities"])
def test_masked_classes_stay_out_and_get_no_gradient(kind: str) -> None:
    logits, targets = masked(kind)
    values, gradient = of_jax(logits, targets)
    assert_same((values, gradient), of_torch(logits, targets, reduction="none"))
    assert not gradient[:, 5:].any()


def test_where_over_classes_is_a_mask_of_minus_infinity() -> None:
    logits, labels = masked("indices")
    found = of_jax(made_logits(), labels, where=jnp.asarray(logits > -np.inf))
    assert_same(found, of_torch(logits, labels, reduction="none"))


def test_where_over_examples_silences_them_whatever_they_hold() -> None:
    logits, where = made_logits(), np.arange(16) % 3 != 0
    labels = np.where(where, made_labels(), -100)
    kept = of_torch(logits, labels, reduction="none")
    logits[~where] = np.nan
    assert_same(of_jax(logits, labels, where=jnp.asarray(where)), kept)


def test_a_row_of_zero_probabilities_counts_nothing() -> None:
    probs = np.eye(7, dtype=np.float32)[made_labels()]
    probs[3] = 0
    values, gradient = of_jax(made_logits(), probs)
    assert_same((values, gradient), of_torch(made_logits(), probs, reduction="none"))
    assert values[3] == 0
    assert not gradient[3].any()


def test_the_class_axis_may_be_anywhere() -> None:
    logits, labels = made_logits((2, 7, 3, 4)), made_labels((2, 3, 4))
    for targets in (labels, np.moveaxis(np.eye(7, dtype=np.float32)[labels], -1, 1)):
        assert_same(of_jax(logits, targets, axis=1), of_torch(logits, targets, reduction="none"))


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
