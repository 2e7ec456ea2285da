"""Outputs of a model on labelled samples, and the checks of arrays that claim to be such outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.core.errors import DataError

Array = NDArray[Any] | Tensor

_ROWS = 4096
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of a model on labelled samples.

    Args:
        logits: ``(N, K)``, before any softmax.
        labels: Class indices, ``(N,)``.
        features: Input of the head, ``(N, D)``.
        indices: Position of each sample in its split.
        class_names: One name per class.
        num_missing: Number of images that could not be read; they are not among the samples.
    """

    logits: Tensor
    labels: Tensor
    features: Tensor | None = None
    indices: Tensor | None = None
    class_names: tuple[str, ...] = ()
    num_missing: int = 0

    def __post_init__(self) -> None:
        for name in ("labels", "features", "indices"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.logits):
                raise ValueError(
                    f"{name} must have one entry for each row of logits; got {len(column)} for "
                    f"{len(self.logits)} rows. Give both for the same samples."
                )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Number of columns of the logits."""
        return self.logits.shape[1]

    @property
    def num_a_class(self) -> int:
        """Median number of samples per class, of the classes that occur."""
        counts = torch.bincount(self.labels)
        return int(counts[counts > 0].median())


def checked_outputs(
    logits: Array, labels: Array, features: Array | None = None, class_names: Sequence[str] | None = None
) -> Outputs:
    """Check arrays and return them as outputs: float32 ``(N, K)``, int64 ``(N,)``, float32 ``(N, D)``, K names.

    Example:
        >>> checked_outputs(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1]))
        Traceback (most recent call last):
        maxsup.core.errors.DataError: logits must be scores before the softmax; got probabilities, every row sums to 1.
        Give the input of the softmax, or the logarithm of the probabilities.
    """
    logits, labels = _as_array(logits), _as_array(labels)
    _check_axes(logits, labels)
    scores = _checked_rows(logits, "logits")
    num_samples, num_classes = scores.shape
    if num_classes < 2:
        raise DataError(
            f"logits must have a column for each of at least 2 classes; got {num_classes}. Check the axes.",
            code="bad-outputs",
        )
    true = _checked_labels(labels, num_samples, num_classes)
    seen = None if features is None else _checked_rows(_as_array(features), "features")
    if seen is not None and len(seen) != num_samples:
        raise DataError(
            f"features must have one row for each of the {num_samples} rows of logits; got {len(seen)}. "
            "Save both from the same pass over the data.",
            code="bad-outputs",
        )
    parts = scores.split(_ROWS)
    if all((part >= 0).all() and ((part.sum(dim=1) - 1).abs() < _SUM_TOLERANCE).all() for part in parts):
        raise DataError(
            "logits must be scores before the softmax; got probabilities, every row sums to 1. "
            "Give the input of the softmax, or the logarithm of the probabilities.",
            code="probabilities-as-logits",
        )
    if class_names and len(class_names) != num_classes:
        raise DataError(
            f"class names must be {num_classes}, one for each column of the logits; got {len(class_names)}. "
            "Check their file.",
            code="bad-class-names",
        )
    return Outputs(scores, true, seen, class_names=tuple(class_names or ()))


def checked_others(logits: Array, num_classes: int) -> Tensor:
    """Check logits of images without labels and return them as float32 ``(M, K)``."""
    rows = _checked_rows(_as_array(logits), "ood")
    if rows.shape[1] != num_classes:
        raise DataError(
            f"ood must have the {num_classes} columns of the logits; got {rows.shape[1]}. Use the same model for both."
        )
    return rows


def checked_other_features(ood: Tensor, features: Array) -> Tensor:
    """Check features ``(M, D)`` of the images whose logits are ``ood``, and return them as float32."""
    rows = _checked_rows(_as_array(features), "ood features")
    if len(rows) != len(ood):
        raise DataError(f"ood features must be of the {len(ood)} images of the logits; got {len(rows)}. Give both.")
    return rows


def _as_array(values: Any) -> Array:
    return values if isinstance(values, Tensor) else np.asarray(values)


def _check_axes(logits: Array, labels: Array) -> None:
    """Raise for arrays that would fit if they were transposed or exchanged, with the remedy."""
    shape, label_shape = tuple(logits.shape), tuple(labels.shape)
    if logits.ndim == 1 and labels.ndim == 2 and len(logits) == len(labels):
        raise DataError(
            f"logits must be (N, K) and labels (N,); got {shape} and {label_shape}. Exchange the two.",
            code="swapped-arrays",
        )
    if logits.ndim != 2:
        return
    if label_shape == shape and shape[1] > 1:
        kind = "one-hot rows" if set(np.unique(np.asarray(labels[:_ROWS])).tolist()) <= {0, 1} else "a row per sample"
        raise DataError(
            f"labels must be one class per sample, (N,); got {kind}, {shape}. Take their argmax(axis=1).",
            code="bad-outputs",
        )
    if labels.ndim == 1 and len(labels) == shape[1] != shape[0]:
        raise DataError(
            f"logits must have a row for each of the {len(labels)} labels; got {shape}, a column for each. "
            "Transpose them: logits.T.",
            code="swapped-axes",
        )


def _checked_rows(values: Array, what: str) -> Tensor:
    """Return a matrix as float32. Raise unless it is finite."""
    kind = values.dtype.kind if isinstance(values, np.ndarray) else "c" if values.is_complex() else "f"
    if kind not in "fiu":
        raise DataError(f"{what} must be real numbers; got {values.dtype}. Save them as float32.", code="bad-outputs")
    if values.ndim != 2 or 0 in values.shape:
        raise DataError(
            f"{what} must have rows for samples and columns, (N, K); got {tuple(values.shape)}. Check the axes.",
            code="bad-outputs",
        )
    if isinstance(values, Tensor):
        rows = values.detach().cpu().float()
    else:
        with np.errstate(over="ignore"):
            rows = torch.from_numpy(values.astype(np.dtype("=f4"), copy=False))
    for start in range(0, len(rows), _ROWS):
        is_finite = rows[start : start + _ROWS].isfinite().all(dim=1)
        if not is_finite.all():
            row = start + int((~is_finite).nonzero()[0])
            raise DataError(
                f"{what} must be finite numbers; got {float(rows[row][~rows[row].isfinite()][0])} in row {row}. "
                "Drop such rows, or find out where the model overflows.",
                code="non-finite-values",
            )
    return rows


def _checked_labels(labels: Array, num_samples: int, num_classes: int) -> Tensor:
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
    if values.ndim == 2 and 1 in values.shape:
        values = values.reshape(-1)
    if values.ndim != 1 or len(values) != num_samples:
        raise DataError(
            f"labels must be one class for each of the {num_samples} rows of logits; got {tuple(labels.shape)}. "
            "Save both from the same pass over the data.",
            code="bad-outputs",
        )
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int64) if values.dtype.kind in "fiu" else None
    if whole is None or not np.array_equal(whole, values):
        wrong = values.dtype if whole is None else values[np.flatnonzero(whole != values)[0]]
        raise DataError(f"labels must be whole numbers; got {wrong}. Number the classes from 0 on.", code="bad-outputs")
    low, high = int(whole.min()), int(whole.max())
    if low < 0 or high >= num_classes:
        raise DataError(
            f"labels must be from 0 to {num_classes - 1}, the columns of the logits; got {low if low < 0 else high}. "
            "Drop rows without a class and number the classes from 0 on.",
            code="bad-outputs",
        )
    if low == high:
        raise DataError(
            f"labels must hold at least two classes; got {low} for every sample. Give more of the data.",
            code="bad-outputs",
        )
    return torch.from_numpy(whole)
