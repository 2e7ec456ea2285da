"""From logits to the numbers of a run and to what is kept of every test image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup import metrics
from maxsup.diagnosis.rescaling import fit_temperature

# Probabilities are kept in one byte each, as log odds on an even grid; its step changes a mean by less than 0.0005.
_LOWEST_ODDS, _HIGHEST_ODDS = -12.0, 12.0
_NUM_CODES = 255


@dataclass(frozen=True)
class Outputs:
    """What a network says about the validation and the test split at the end of training."""

    val_logits: Tensor
    val_labels: Tensor
    test_logits: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class ImageRecord:
    """What is kept of every test image: whether it is right, and three probabilities as codes of one byte.

    In translation a token takes the place of an image; ``lengths`` says how many tokens every sentence has, and
    ``bleu`` holds what a corpus score is the sum of, for every sentence.
    """

    is_right: NDArray[np.bool_]
    confidence: NDArray[np.uint8]
    cooled_confidence: NDArray[np.uint8]
    cooled_truth: NDArray[np.uint8]
    lengths: NDArray[np.uint8] | None = None
    bleu: NDArray[np.uint8] | None = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields that it has, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def measure(outputs: Outputs) -> tuple[dict[str, float], ImageRecord]:
    """Numbers of a run, before and after a temperature fitted on validation, and the record of its test images."""
    val, val_labels = outputs.val_logits.double(), outputs.val_labels
    test, labels = outputs.test_logits.double(), outputs.test_labels
    temperature = fit_temperature(val, val_labels)
    is_right, cooled = test.argmax(1) == labels, test / temperature
    confidence, cooled_confidence = _confidence(test), _confidence(cooled)
    found = {
        "val_accuracy": metrics.accuracy(val, val_labels),
        "val_confidence": float(_confidence(val).mean()),
        "val_nll": metrics.negative_log_likelihood(val, val_labels),
        "temperature": float(temperature),
        "accuracy": float(is_right.double().mean()),
        **_numbers(test, labels, is_right, ""),
        **_numbers(cooled, labels, is_right, "_after"),
    }
    truth = cooled.softmax(1).gather(1, labels[:, None]).squeeze(1)
    record = ImageRecord(is_right.numpy(), *(to_codes(p.numpy()) for p in (confidence, cooled_confidence, truth)))
    return found, record


def _confidence(logits: Tensor) -> Tensor:
    return logits.softmax(1).amax(1)


def _numbers(logits: Tensor, labels: Tensor, is_right: Tensor, suffix: str) -> dict[str, float]:
    confidence = _confidence(logits)
    right, wrong = (float(confidence[which].mean()) for which in (is_right, ~is_right))
    found = {
        "nll": metrics.negative_log_likelihood(logits, labels),
        "ece": metrics.expected_calibration_error(logits, labels),
        "aurc": metrics.aurc(logits, labels),
        "confidence": float(confidence.mean()),
        "confidence_right": right,
        "confidence_wrong": wrong,
        "gap": right - wrong,
    }
    return {f"{name}{suffix}": value for name, value in found.items()}


def to_codes(probabilities: NDArray[np.float64]) -> NDArray[np.uint8]:
    """One byte for each probability: its log odds, rounded to an even grid.

    Example:
        >>> to_codes(np.array([0.5, 0.999, 1.0])), from_codes(to_codes(np.array([0.5]))).round(2)
        (array([128, 201, 255], dtype=uint8), array([0.51]))
    """
    with np.errstate(divide="ignore"):
        odds = np.log(probabilities) - np.log1p(-probabilities)
    odds = np.clip(odds, _LOWEST_ODDS, _HIGHEST_ODDS)
    return np.round((odds - _LOWEST_ODDS) / (_HIGHEST_ODDS - _LOWEST_ODDS) * _NUM_CODES).astype(np.uint8)


def from_codes(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The probabilities that codes stand for."""
    odds = codes / _NUM_CODES * (_HIGHEST_ODDS - _LOWEST_ODDS) + _LOWEST_ODDS
    return 1 / (1 + np.exp(-odds))


def set_torch_threads() -> None:
    """One thread, as all runs have; the last bits of a sum depend on it."""
    torch.set_num_threads(1)
