"""MaxSup for Keras 3 on any backend: a loss, and a callback for its schedule and for evaluation.

Replace ``compile(loss=SparseCategoricalCrossentropy(from_logits=True))`` by ``compile(loss=MaxSupLoss(alpha=0.1))``.
The model must output logits, without a softmax.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from maxsup.core.checks import check_choice, check_number
from maxsup.core.schedules import Constant, Cosine, Linear, Piecewise, Schedule, epoch_progress
from maxsup.integrations.checks import check_epochs, not_installed

try:
    import keras
    from keras import ops
    from keras.src.backend import set_keras_mask  # masks the values of a loss; has no public name
except ImportError as error:
    if error.name == "keras":
        raise not_installed("keras") from error
    missing = str(error.name).partition(".")[0]
    raise ImportError(
        f"maxsup.integrations.keras needs the backend that Keras is set to; got no {missing}. Set the environment "
        "variable KERAS_BACKEND to torch, jax or tensorflow, whichever is installed, before Keras is imported."
    ) from error

__all__ = ["MaxSupCallback", "MaxSupLoss"]

# A step compiled by JAX treats variables outside the model as constants.
_IS_JAX = keras.backend.backend() == "jax"
_SCHEDULES: dict[str, type[Schedule]] = {"linear": Linear, "cosine": Cosine, "piecewise": Piecewise}


@keras.saving.register_keras_serializable(package="maxsup")
class MaxSupLoss(keras.losses.Loss):
    r"""Cross-entropy with Max Suppression, for class indices and for one-hot or mixed labels.

    .. math:: H(y, q) + \alpha \Bigl( z_{max} - \frac{1}{K} \sum_k z_k \Bigr)

    Labels of the shape of the outputs are probabilities; labels without the class axis (or with length 1 there) are
    class indices. ``sample_weight``, ``class_weight`` and Keras masks scale both terms of a sample. A class index
    outside the classes gives ``nan``.

    Args:
        alpha: Strength, or a schedule such as ``Linear(0.1, 0.2)`` that :class:`MaxSupCallback` advances.
        from_logits: Must be True; accepted so that existing calls with ``from_logits=True`` keep working.
        ignore_class: Class index of samples to leave out of both the sum and the denominator.
        axis: Axis of the classes.
        reduction: As in every Keras loss.
        name: As in every Keras loss.
        dtype: float32 by default, whatever the precision of the model.

    Example:
        >>> import keras
        >>> loss = MaxSupLoss(alpha=0.1)
        >>> round(float(loss(keras.ops.array([4]), keras.ops.array([[2.0, 0.5, -1.0, 0.0, 1.0]]))), 4)
        1.7244
    """

    def __init__(
        self,
        alpha: float | Schedule | dict[str, Any] = 0.1,
        from_logits: bool = True,
        ignore_class: int | None = None,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str = "maxsup",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if from_logits is not True:
            raise ValueError(
                f"from_logits must be True, because MaxSup is defined on logits; got {from_logits!r}. Leave "
                "activation='softmax' out of the model's last layer."
            )
        if self.dtype in ("float16", "bfloat16"):
            raise ValueError(
                f"dtype must be float32 or float64, because labels are cast to it; got {self.dtype!r}. "
                "Leave it out: a model in half precision works with a loss in float32."
            )
        self._given = _given_strength(alpha)
        self.ignore_class = ignore_class
        self.axis = axis
        self.training = True
        # nan until a schedule is advanced, so that no step trains silently with an unset strength.
        self._strength = math.nan if isinstance(self._given, Schedule) else self._given
        self._alpha = keras.Variable(self._strength, trainable=False, dtype=self.dtype, name="alpha")

    @property
    def alpha(self) -> float:
        """The current strength in training, ``nan`` until a schedule is advanced."""
        return self._strength

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the strength, or None."""
        return self._given if isinstance(self._given, Schedule) else None

    def set_progress(self, progress: float) -> None:
        """Advance the schedule to ``progress``, from 0 (first epoch) to 1 (last). A constant strength stays."""
        if self.schedule is not None:
            self._strength = self.schedule(progress)
            self.train(self.training)

    def train(self, mode: bool = True) -> None:
        """Switch to the training objective, or with False to plain cross-entropy.

        On JAX the strength is a constant of the compiled step; recompile the step as :class:`MaxSupCallback` does.
        """
        self.training = mode
        self._alpha.assign(self._strength if mode else 0.0)

    def eval(self) -> None:
        """Switch to plain cross-entropy, for evaluation."""
        self.train(False)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return one value per sample, in the shape of the outputs without the class axis."""
        # Keras calls a loss once to infer shapes, before any callback runs.
        with keras.SymbolicScope() as scope:
            is_symbolic = scope.original_scope is not None
        if self.training and math.isnan(self._strength) and not is_symbolic:
            raise RuntimeError(
                f"set_progress must be called before training with a schedule; got none for {self._given!r}. "
                "Pass callbacks=[MaxSupCallback()] to fit and evaluate."
            )
        if hasattr(y_pred, "_keras_logits"):  # set by softmax on its outputs, on backends that allow attributes
            raise _softmax_error("y_pred")
        has_same_rank = len(y_true.shape) == len(y_pred.shape)
        if has_same_rank and y_true.shape[self.axis] == 1 != y_pred.shape[self.axis]:
            y_true = ops.squeeze(y_true, axis=self.axis)
        has_labels = len(y_true.shape) == len(y_pred.shape) - 1
        if not has_labels and not (has_same_rank and y_true.shape[self.axis] == y_pred.shape[self.axis]):
            raise ValueError(
                "y_true must hold class indices, without the class axis of the outputs, or probabilities in their "
                f"shape {tuple(y_pred.shape)}; got shape {tuple(y_true.shape)}. Check what the data gives as labels."
            )
        logits = ops.moveaxis(y_pred, self.axis, -1)
        if has_labels:
            return self._of_labels(ops.cast(y_true, "int32"), logits)
        if self.ignore_class is not None:
            raise ValueError(
                f"ignore_class must be None with probability labels; got {self.ignore_class!r}. "
                "Give samples to be ignored all-zero labels or a sample_weight of 0."
            )
        return self._of_probabilities(ops.moveaxis(y_true, self.axis, -1), logits)

    def _of_labels(self, labels: Any, logits: Any) -> Any:
        is_counted = None
        if self.ignore_class is not None:
            is_counted = ops.not_equal(labels, self.ignore_class)
            labels = ops.where(is_counted, labels, 0)
            logits = ops.where(ops.expand_dims(is_counted, -1), logits, 0.0)
        # For an index outside the classes, one backend reads the last class and another undefined memory.
        is_class = ops.logical_and(labels >= 0, labels < logits.shape[-1])
        labels = ops.where(is_class, labels, 0)
        costs = -ops.take_along_axis(ops.log_softmax(logits), ops.expand_dims(labels, -1), axis=-1)
        values = ops.where(is_class, ops.squeeze(costs, axis=-1) + self._alpha * _top_gap(logits), math.nan)
        if is_counted is not None:
            values = ops.where(is_counted, values, 0.0)
            set_keras_mask(values, mask=is_counted)
        return values

    def _of_probabilities(self, probs: Any, logits: Any) -> Any:
        log_probs = ops.log_softmax(logits)
        # A masked class costs inf; if its target probability is 0 it must cost 0, but 0 * inf is nan.
        costs = ops.where(ops.logical_and(log_probs == -math.inf, probs == 0), 0.0, -log_probs)
        values = ops.sum(probs * costs, axis=-1) + self._alpha * _top_gap(logits)
        return ops.where(ops.sum(probs, axis=-1) != 0, values, 0.0)

    def get_config(self) -> dict[str, Any]:
        """Return the config of the loss, without its progress: a restored schedule must be advanced again."""
        alpha: Any = self._given
        if isinstance(alpha, Schedule):
            [name] = [name for name, kind in _SCHEDULES.items() if isinstance(alpha, kind)]
            alpha = {"schedule": name, **asdict(alpha)}
        options = {"alpha": alpha, "ignore_class": self.ignore_class, "axis": self.axis, "dtype": self.dtype}
        return {**super().get_config(), **options}


class MaxSupCallback(keras.callbacks.Callback):
    """Advance the schedule of every :class:`MaxSupLoss` at each epoch, and evaluate with plain cross-entropy.

    Pass it to ``fit`` and to ``evaluate``, so that the loss they report on evaluation data has no penalty.
    ``fit(initial_epoch=...)`` continues the schedule. On JAX the strength is a constant of the compiled step, so the
    step is recompiled when it changes.

    Example:
        >>> import keras
        >>> from maxsup.schedules import Linear
        >>> model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        >>> model.compile(loss=MaxSupLoss(alpha=Linear(0.1, 0.2)))
        >>> x, y = keras.ops.ones((6, 4)), keras.ops.zeros((6,))
        >>> history = model.fit(x, y, epochs=2, verbose=0, callbacks=[MaxSupCallback()])
        >>> model.loss.alpha
        0.2
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_fitting = False
        self._plain_test_function: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Check the model and the schedules, and switch the losses to training mode."""
        self._is_fitting = True
        outputs = getattr(self.model, "outputs", None) or []
        layer: Any = outputs[0]._keras_history.operation if len(outputs) == 1 else None
        if isinstance(layer, keras.layers.Softmax) or getattr(layer, "activation", None) is keras.activations.softmax:
            raise _softmax_error(f"layer {layer.name!r}")
        for loss in self._losses():
            check_epochs(loss.schedule, self.params["epochs"], "Call fit once with epochs=, not once per epoch.")
            loss.train()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Advance the schedules."""
        losses = self._losses()
        before = [loss.alpha for loss in losses]
        for loss in losses:
            loss.set_progress(epoch_progress(epoch, self.params["epochs"]))
        if _IS_JAX and before != [loss.alpha for loss in losses]:
            self.model.make_train_function(force=True)

    def on_test_begin(self, logs: Any = None) -> None:
        """Switch the penalty off."""
        for loss in self._losses():
            loss.eval()
        if _IS_JAX and self.model.test_function is not self._plain_test_function:
            self.model.make_test_function(force=True)
            self._plain_test_function = self.model.test_function

    def on_test_end(self, logs: Any = None) -> None:
        """Switch the penalty on again."""
        for loss in self._losses():
            loss.train()
        if not self._is_fitting:
            self._forget_test_function()

    def on_train_end(self, logs: Any = None) -> None:
        """Discard the compiled test function, so that an evaluation without this callback is compiled again."""
        self._is_fitting = False
        self._forget_test_function()

    def _forget_test_function(self) -> None:
        if self._plain_test_function is not None:
            self.model.make_test_function(force=True)
            self._plain_test_function = None

    def _losses(self) -> list[MaxSupLoss]:
        found = [loss for loss in keras.tree.flatten(self.model.loss) if isinstance(loss, MaxSupLoss)]
        if not found:
            raise ValueError(
                f"loss of the model must be a MaxSupLoss for MaxSupCallback; got {self.model.loss!r}. "
                "Compile the model with loss=MaxSupLoss(alpha=0.1)."
            )
        return found


def _given_strength(alpha: float | Schedule | dict[str, Any]) -> float | Schedule:
    """Return the strength as a checked number or a schedule, from an argument or a config."""
    if isinstance(alpha, dict):
        options = dict(alpha)
        name = str(options.pop("schedule", None))
        check_choice("schedule of alpha", name, tuple(_SCHEDULES))
        return _SCHEDULES[name](**options)
    if isinstance(alpha, Constant):
        return alpha.value
    if isinstance(alpha, Schedule):
        if not isinstance(alpha, tuple(_SCHEDULES.values())):
            raise TypeError(f"alpha must be a number, Linear, Cosine or Piecewise; got {alpha!r}. Use one of these.")
        return alpha
    check_number("alpha", alpha)
    return alpha


def _softmax_error(what: str) -> ValueError:
    return ValueError(
        f"{what} must give logits, on which MaxSup is defined; got the outputs of a softmax. "
        "Leave it out of the model, and apply keras.ops.softmax to its outputs when you need probabilities."
    )


def _top_gap(logits: Any) -> Any:
    # argmax instead of max: max shares the gradient between tied logits, the paper gives it all to one.
    top = ops.expand_dims(ops.argmax(logits, axis=-1), -1)
    is_masked = logits == -math.inf
    count = ops.sum(ops.cast(ops.logical_not(is_masked), logits.dtype), axis=-1)
    mean = ops.sum(ops.where(is_masked, 0.0, logits), axis=-1) / count
    return ops.squeeze(ops.take_along_axis(logits, top, axis=-1), axis=-1) - mean
