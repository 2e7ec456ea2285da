"""MaxSup in Keras: the numbers and gradients of the torch function on the backend that KERAS_BACKEND names.

The integration tests run this file once more on JAX.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from maxsup.schedules import Constant, Cosine, Linear, Piecewise, Schedule
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
    torch_values,
)

pytestmark = pytest.mark.slow


def of_keras(loss: Any, labels: np.ndarray, logits: np.ndarray) -> Pair:
    """Value of a loss, and the gradient of its sum."""
    values = torch_values if os.environ["KERAS_BACKEND"] == "torch" else jax_values
    return values(partial(loss, labels), logits)


def tensor(logits: np.ndarray) -> Any:
    import keras

    return keras.ops.convert_to_tensor(logits)


@pytest.mark.parametrize(
    ("alpha", "reduction", "ours"),
    [
        (0.0, "sum_over_batch_size", "mean"),
        (0.1, "sum_over_batch_size", "mean"),
        (0.1, "sum", "sum"),
        (1.0, None, "none"),
    ],
)
def test_class_indices_give_the_numbers_of_torch(
    adapter: ModuleType, alpha: float, reduction: str | None, ours: str
) -> None:
    logits, labels = made_logits(), made_labels()
    loss = adapter.MaxSupLoss(alpha=alpha, reduction=reduction)
    assert_same(of_keras(loss, labels, logits), of_torch(logits, labels, alpha=alpha, reduction=ours))


def test_one_column_of_class_indices_is_class_indices(adapter: ModuleType) -> None:
    logits, labels = made_logits(), made_labels()
    assert_same(of_keras(adapter.MaxSupLoss(), labels[:, None], logits), of_torch(logits, labels))


def test_mixed_labels_give_the_numbers_of_torch(adapter: ModuleType) -> None:
    logits, probs = made_logits(), made_probabilities()
    probs[5] = 0
    assert_same(of_keras(adapter.MaxSupLoss(), probs, logits), of_torch(logits, probs))


def test_an_ignored_class_leaves_sum_and_denominator(adapter: ModuleType) -> None:
    logits, labels = made_logits((4, 7, 5)), made_labels((4, 5))
    labels[0] = 255
    loss = adapter.MaxSupLoss(ignore_class=255, axis=1)
    assert_same(of_keras(loss, labels, logits), of_torch(logits, labels, ignore_index=255))


def test_sample_weights_scale_both_terms(adapter: ModuleType) -> None:
    logits, labels = made_logits(), made_labels()
    weights = np.linspace(0.5, 2, 16).astype(np.float32)
    values, _ = of_torch(logits, labels, reduction="none")
    found = float(adapter.MaxSupLoss()(labels, tensor(logits), sample_weight=weights))
    assert found == pytest.approx(float((values * weights).mean()), rel=TOLERANCE)


def test_of_tied_logits_the_first_takes_the_whole_gradient(adapter: ModuleType) -> None:
    logits, labels = np.zeros((3, 5), dtype=np.float32), np.array([0, 1, 4])
    loss = adapter.MaxSupLoss(alpha=0.5, reduction="sum")
    found = of_keras(loss, labels, logits)
    assert_same(found, of_torch(logits, labels, alpha=0.5, reduction="sum"))
    np.testing.assert_allclose(found[1][1], [0.6, -0.9, 0.1, 0.1, 0.1], atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["indices", "probabilities"])
def test_masked_classes_stay_out_and_get_no_gradient(adapter: ModuleType, kind: str) -> None:
    logits, targets = masked(kind)
    value, gradient = of_keras(adapter.MaxSupLoss(), targets, logits)
    assert_same((value, gradient), of_torch(logits, targets))
    assert not gradient[:, 5:].any()


def test_in_evaluation_it_is_the_cross_entropy_of_keras(adapter: ModuleType) -> None:
    loss, logits = adapter.MaxSupLoss(alpha=0.3), tensor(made_logits())
    plain = adapter.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained = float(loss(made_labels(), logits))
    loss.eval()
    assert float(loss(made_labels(), logits)) == pytest.approx(float(plain(made_labels(), logits)), rel=TOLERANCE)
    loss.train()
    assert float(loss(made_labels(), logits)) == trained


@pytest.mark.parametrize(
    "alpha", [0.2, Constant(0.2), Linear(0.1, 0.2), Cosine(0.0, 0.3), Piecewise(((0, 0.1), (1, 0.2)))]
)
def test_a_config_makes_the_same_loss_again(adapter: ModuleType, alpha: float | Schedule) -> None:
    loss = adapter.MaxSupLoss(alpha=alpha, ignore_class=3, reduction="sum", axis=1, name="mine")
    again = adapter.keras.losses.deserialize(adapter.keras.losses.serialize(loss))
    assert isinstance(again, adapter.MaxSupLoss)
    assert again.get_config() == loss.get_config()
    for one in (loss, again):
        one.set_progress(0.5)
    assert again.alpha == loss.alpha


def test_a_schedule_that_nobody_advances_refuses_to_train(adapter: ModuleType) -> None:
    loss, logits = adapter.MaxSupLoss(alpha=Linear(0.1, 0.2)), tensor(made_logits())
    with pytest.raises(RuntimeError, match="set_progress must be called before training with a schedule"):
        loss(made_labels(), logits)
    loss.set_progress(1.0)
    assert float(loss(made_labels(), logits)) == pytest.approx(
        float(of_torch(made_logits(), made_labels(), alpha=0.2)[0]), rel=TOLERANCE
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"from_logits": False}, "from_logits must be True, because MaxSup is defined on logits; got False"),
        ({"dtype": "float16"}, "dtype must be float32 or float64"),
        ({"alpha": -1.0}, "alpha must be a number of at least 0"),
        ({"alpha": {"schedule": "lineal", "start": 0.1, "end": 0.2}}, "Did you mean 'linear'"),
    ],
)
def test_options_that_cannot_work_are_refused(adapter: ModuleType, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adapter.MaxSupLoss(**options)


def test_labels_that_do_not_fit_are_refused(adapter: ModuleType) -> None:
    logits = tensor(made_logits((4, 7, 5)))
    with pytest.raises(ValueError, match="y_true must hold class indices"):
        adapter.MaxSupLoss(axis=1)(np.zeros(4), logits)
    with pytest.raises(ValueError, match="y_true must hold class indices"):
        adapter.MaxSupLoss(axis=1)(np.zeros((4, 6, 5)), logits)
    with pytest.raises(ValueError, match="ignore_class must be None with probability labels"):
        adapter.MaxSupLoss(axis=1, ignore_class=255)(np.zeros((4, 7, 5)), logits)


@pytest.mark.parametrize("label", [-1, -100, 7, 255])
def test_a_label_outside_the_classes_gives_nan_and_not_a_class(adapter: ModuleType, label: int) -> None:
    logits = tensor(made_logits())
    assert math.isnan(float(adapter.MaxSupLoss()(np.full(16, label), logits)))


def test_without_its_backend_the_import_says_which_to_set(adapter: ModuleType) -> None:
    script = "import sys; sys.modules['tensorflow'] = None; import maxsup.integrations.keras"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"KERAS_BACKEND": "tensorflow"},
        check=False,
    )
    assert done.returncode == 1
    assert "needs the backend that Keras is set to; got no tensorflow. Set the environment" in done.stderr
