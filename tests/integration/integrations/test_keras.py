"""Keras' own fit, evaluate and save with MaxSup; on torch here, and all of it once more on JAX in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from maxsup.schedules import Linear
from tests.reference import losses as reference

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
IS_JAX = os.environ.get("KERAS_BACKEND") == "jax"
FILES = [f"tests/{kind}/integrations/test_keras.py" for kind in ("unit", "integration")]


def compiled(layers: list[Any], loss: Any) -> Any:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((5,)), *layers])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
    return model


def made_model(loss: Any) -> Any:
    from keras.layers import Dense

    return compiled([Dense(3)], loss)


def made_data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(24, 5)).astype(np.float32), generator.integers(3, size=24)


def mean_of_loops(model: Any, x: np.ndarray, labels: np.ndarray, alpha: float) -> float:
    from keras import ops

    pairs = zip(ops.convert_to_numpy(model(x)).tolist(), labels.tolist(), strict=True)
    return float(np.mean([reference.maxsup(row, label, alpha=alpha) for row, label in pairs]))


def test_the_example_learns_and_starts_at_the_reference(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples import keras_training as example

    # JAX compiles the step anew for every epoch of the schedule.
    monkeypatch.setattr(example, "NUM_EPOCHS", 3 if IS_JAX else example.NUM_EPOCHS)
    x, labels = example.make_data()
    first = mean_of_loops(example.make_model(), x[:32], labels[:32], 0.1)
    losses = example.main()
    assert losses[0] == pytest.approx(first, abs=1e-5)
    assert losses[-1] < losses[0] - 0.3


def test_the_schedule_advances_with_the_epochs_and_reaches_the_compiled_step(adapter: ModuleType) -> None:
    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=Linear(0.0, 1.0))
    # A learning rate of 0: the loss of an epoch then differs from that of another by its alpha alone.
    model = made_model(loss)
    model.optimizer.learning_rate = 0.0
    history = model.fit(x, labels, epochs=3, batch_size=24, verbose=0, callbacks=[adapter.MaxSupCallback()]).history
    expected = [mean_of_loops(model, x, labels, alpha) for alpha in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(history["loss"], expected, atol=1e-5)


def test_a_training_taken_up_again_goes_on_in_the_schedule(adapter: ModuleType) -> None:
    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=Linear(0.0, 1.0))
    seen: list[float] = []
    watch = adapter.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(loss.alpha))
    callbacks = [adapter.MaxSupCallback(), watch]
    made_model(loss).fit(x, labels, initial_epoch=2, epochs=5, verbose=0, callbacks=callbacks)
    assert seen == [0.5, 0.75, 1.0]


def test_validation_and_evaluation_are_plain_cross_entropy(adapter: ModuleType) -> None:
    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=Linear(0.5, 1.0))
    model = made_model(loss)
    callback = adapter.MaxSupCallback()
    history = model.fit(x, labels, epochs=2, validation_data=(x, labels), verbose=0, callbacks=[callback]).history
    plain = mean_of_loops(model, x, labels, 0.0)
    assert history["val_loss"][-1] == pytest.approx(plain, abs=1e-5)
    assert model.evaluate(x, labels, verbose=0, callbacks=[adapter.MaxSupCallback()]) == pytest.approx(plain, abs=1e-5)


def test_an_evaluation_without_the_callback_still_has_the_penalty(adapter: ModuleType) -> None:
    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=0.5)
    model = made_model(loss)
    model.fit(x, labels, validation_data=(x, labels), verbose=0, callbacks=[adapter.MaxSupCallback()])
    penalized = mean_of_loops(model, x, labels, 0.5)
    assert model.evaluate(x, labels, verbose=0) == pytest.approx(penalized, abs=1e-5)


def test_a_schedule_without_the_callback_stops_the_first_step(adapter: ModuleType) -> None:
    model = made_model(adapter.MaxSupLoss(alpha=Linear(0.1, 0.2)))
    with pytest.raises(RuntimeError, match="Pass callbacks=\\[MaxSupCallback\\(\\)\\] to fit and evaluate"):
        model.fit(*made_data(), verbose=0)


def test_a_schedule_over_a_single_epoch_is_refused(adapter: ModuleType) -> None:
    model = made_model(adapter.MaxSupLoss(alpha=Linear(0.1, 0.2)))
    with pytest.raises(ValueError, match=r"must be at least 2.+got 1. Call fit once"):
        model.fit(*made_data(), verbose=0, callbacks=[adapter.MaxSupCallback()])


def test_training_after_an_interrupted_validation_has_the_penalty(adapter: ModuleType) -> None:
    def interrupt(batch: int, logs: Any) -> None:
        raise KeyboardInterrupt

    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=0.5)
    model = made_model(loss)
    callbacks = [adapter.MaxSupCallback(), adapter.keras.callbacks.LambdaCallback(on_test_batch_end=interrupt)]
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, labels, validation_data=(x, labels), verbose=0, callbacks=callbacks)
    penalized = mean_of_loops(model, x, labels, 0.5)
    history = model.fit(x, labels, batch_size=24, verbose=0, callbacks=[adapter.MaxSupCallback()]).history
    assert history["loss"] == pytest.approx([penalized], abs=1e-5)


def softmax_layers(kind: str) -> list[Any]:
    from keras import layers

    last = {"dense": layers.Dense(3, "softmax"), "softmax": layers.Softmax(), "layer": layers.Activation("softmax")}
    return [layers.Dense(3), last[kind]]


@pytest.mark.parametrize("kind", ["dense", "softmax", "layer"])
def test_a_model_that_ends_in_a_softmax_is_refused(adapter: ModuleType, kind: str) -> None:
    model = compiled(softmax_layers(kind), adapter.MaxSupLoss(alpha=0.1))
    with pytest.raises(ValueError, match="must give logits, on which MaxSup is defined; got the outputs of a softmax"):
        model.fit(*made_data(), verbose=0, callbacks=[adapter.MaxSupCallback()])


@pytest.mark.skipif(IS_JAX, reason="tensors of JAX cannot be marked")
def test_a_softmax_is_noticed_without_the_callback(adapter: ModuleType) -> None:
    model = compiled(softmax_layers("dense"), adapter.MaxSupLoss(alpha=0.1))
    with pytest.raises(ValueError, match="y_pred must give logits"):
        model.fit(*made_data(), verbose=0)


def test_a_softmax_inside_the_model_is_none_at_its_end(adapter: ModuleType) -> None:
    layers = adapter.keras.layers
    model = compiled([layers.Dense(4, "softmax"), layers.Dense(3)], adapter.MaxSupLoss(alpha=0.1))
    model.loss.eval()
    callback = adapter.MaxSupCallback()
    callback.set_model(model)
    callback.set_params({"epochs": 1})
    callback.on_train_begin()
    assert model.loss.training


def test_the_callback_refuses_a_model_without_the_loss(adapter: ModuleType) -> None:
    model = made_model(adapter.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="loss of the model must be a MaxSupLoss for MaxSupCallback"):
        model.fit(*made_data(), verbose=0, callbacks=[adapter.MaxSupCallback()])


def test_a_saved_model_comes_back_with_its_loss(adapter: ModuleType, tmp_path: Path) -> None:
    (x, labels), loss = made_data(), adapter.MaxSupLoss(alpha=0.25, ignore_class=2)
    model = made_model(loss)
    model.fit(x, labels, verbose=0, callbacks=[adapter.MaxSupCallback()])
    model.save(tmp_path / "model.keras")
    again = adapter.keras.models.load_model(tmp_path / "model.keras")
    assert (again.loss.alpha, again.loss.ignore_class) == (0.25, 2)
    assert again.evaluate(x, labels, verbose=0) == pytest.approx(model.evaluate(x, labels, verbose=0), abs=1e-6)


def test_a_model_in_half_precision_trains(adapter: ModuleType) -> None:
    layer = adapter.keras.layers.Dense(3, dtype="mixed_bfloat16")
    history = compiled([layer], adapter.MaxSupLoss(alpha=0.1)).fit(*made_data(), epochs=5, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


@pytest.mark.skipif(IS_JAX, reason="this is the run on JAX")
def test_everything_holds_on_jax() -> None:
    if find_spec("jax") is None:
        pytest.skip("the extra jax is not installed")
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTEST_XDIST_WORKER": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *FILES]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "2 skipped" in done.stdout
