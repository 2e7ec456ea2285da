"""Calibration and refinement parts against an independent optimiser and loops."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from maxsup.metrics import (
    brier_score,
    expected_calibration_error,
    fit_temperature,
    negative_log_likelihood,
    recalibration,
)
from maxsup.metrics.temperature import predictions_at
from tests.unit.metrics.cases import CASES, Case, usual


def nll_at(temperature: float, logits: np.ndarray, labels: np.ndarray) -> float:
    return -float(log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels].mean())


def brier_at(temperature: float, logits: np.ndarray, labels: np.ndarray) -> float:
    probs = np.exp(log_softmax(logits / temperature, axis=1))
    return float(((probs - np.eye(logits.shape[1])[labels]) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("scale", [0.2, 1.0, 40.0])
def test_parts_are_those_of_another_optimiser(scale: float) -> None:
    fitted, (logits, labels) = usual(), usual()
    fitted = (fitted[0] * scale, fitted[1])
    logits = logits * scale
    val, val_labels = (each.numpy() for each in fitted)
    found = minimize_scalar(
        lambda log: nll_at(math.exp(log), val, val_labels), bounds=(-6, 8), method="bounded", options={"xatol": 1e-10}
    )
    temperature, (rows, own) = math.exp(found.x), (logits.numpy(), labels.numpy())
    parts = recalibration(logits, labels, fitted_on=fitted)
    assert parts.nll_after == pytest.approx(nll_at(temperature, rows, own), abs=1e-6)
    assert parts.nll_calibration == pytest.approx(nll_at(1.0, rows, own) - nll_at(temperature, rows, own), abs=1e-6)
    assert parts.brier_after == pytest.approx(brier_at(temperature, rows, own), abs=1e-6)
    assert parts.brier_calibration == pytest.approx(
        brier_at(1.0, rows, own) - brier_at(temperature, rows, own), abs=1e-6
    )


def test_on_the_fitted_samples_a_temperature_never_raises_the_nll(case: Case) -> None:
    parts = recalibration(*case, fitted_on=case)
    assert parts.nll_calibration >= -1e-9
    assert parts.nll_before == pytest.approx(negative_log_likelihood(*case), abs=1e-12)
    assert math.isfinite(parts.temperature)


def test_before_and_after_are_the_plain_metrics(predictions: Case) -> None:
    logits, labels = predictions
    parts = recalibration(logits, labels, fitted_on=CASES["two_classes"]())
    cooled = logits / parts.temperature
    after = (negative_log_likelihood(cooled, labels), brier_score(cooled, labels))
    assert (parts.nll_after, parts.brier_after) == pytest.approx(after, abs=1e-12)
    assert parts.ece_before == expected_calibration_error(logits, labels)
    assert parts.ece_after == pytest.approx(expected_calibration_error(cooled, labels), abs=1e-12)


def test_a_class_that_cannot_be_chosen_does_not_change_the_temperature() -> None:
    logits, labels = usual()
    labels = labels.where(labels != 3, 0)
    kept = torch.cat([logits[:, :3], logits[:, 4:]], dim=1)
    masked = logits.clone()
    masked[:, 3] = -torch.inf
    assert fit_temperature(masked, labels) == pytest.approx(fit_temperature(kept, labels - (labels > 3).long()))


def test_blocks_of_rows_give_what_all_rows_give(predictions: Case) -> None:
    logits, labels = predictions
    many = logits.repeat(30, 1), labels.repeat(30)
    assert predictions_at(*many, 2.0).nll[:400].tolist() == predictions_at(logits, labels, 2.0).nll.tolist()
