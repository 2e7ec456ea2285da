"""A small Keras model trained with MaxSup.

The one changed line is in `compile`: `keras.losses.SparseCategoricalCrossentropy(from_logits=True)` becomes
`MaxSupLoss(alpha=...)`. The callback advances the schedule of alpha and makes `val_loss` plain cross-entropy.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

from maxsup.integrations.keras import MaxSupCallback, MaxSupLoss
from maxsup.schedules import Linear

NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES, NUM_EPOCHS = 256, 8, 4, 6


def make_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around one centre a class."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(NUM_CLASSES, NUM_FEATURES))
    labels = generator.integers(NUM_CLASSES, size=NUM_SAMPLES)
    return (centres[labels] + 0.7 * generator.normal(size=(NUM_SAMPLES, NUM_FEATURES))).astype("float32"), labels


def make_model() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((NUM_FEATURES,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(NUM_CLASSES)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.Adam(0.02), loss=MaxSupLoss(alpha=Linear(0.1, 0.2)), metrics=["accuracy"])
    return model


def main() -> list[float]:
    x, labels = make_data()
    steps: list[float] = []
    # What Keras reports after a step is the mean over the epoch so far.
    history = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(logs["loss"]))
    model = make_model()
    callbacks = [MaxSupCallback(), history]
    model.fit(x, labels, epochs=NUM_EPOCHS, validation_split=0.25, shuffle=False, verbose=0, callbacks=callbacks)
    plain = model.evaluate(x, labels, verbose=0, callbacks=[MaxSupCallback()], return_dict=True)
    print(f"{keras.backend.backend()}: training loss {steps[0]:.4f} -> {steps[-1]:.4f}; plain {plain['loss']:.4f}")
    return steps


if __name__ == "__main__":
    main()
