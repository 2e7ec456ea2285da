"""Smooth calibration error against relplot and the definition as an integral."""

import math

import numpy as np
import pytest
import relplot
import torch

from maxsup.metrics import PredictionTable, smooth_calibration_error
from maxsup.metrics.predictions import predictions_of
from tests.unit.metrics.cases import Case


def columns(case: Case) -> tuple[np.ndarray, np.ndarray]:
    found = predictions_of(*case)
    return found.confidence.numpy(), found.is_correct.double().numpy()


def integral(confidence: np.ndarray, is_correct: np.ndarray, width: float, num_points: int = 4001) -> float:
    """Smooth the gaps by a Gaussian and its mirror images, and integrate the absolute value by trapezoids."""
    places = np.linspace(0, 1, num_points)
    total = np.zeros(num_points)
    for each, hit in zip(confidence, is_correct, strict=True):
        for image in range(-4, 5):
            for centre in (2 * image + each, 2 * image - each):
                total += (each - hit) * np.exp(-0.5 * ((places - centre) / width) ** 2)
    total /= width * math.sqrt(2 * math.pi) * len(confidence)
    return float(np.trapezoid(np.abs(total), places))


def test_the_error_is_that_of_relplot(case: Case) -> None:
    # It puts gaps into bins and is up to 0.009 from the integral, which a test below has to 1e-5.
    assert smooth_calibration_error(*case) == pytest.approx(relplot.smECE(*columns(case)), abs=1e-2)


@pytest.mark.parametrize("width", [0.01, 0.05])
def test_the_error_at_a_width_is_that_of_relplot(case: Case, width: float) -> None:
    expected = relplot.smECE_sigma(*columns(case), width)
    assert smooth_calibration_error(*case, width=width) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("width", [0.02, 0.1, 0.4])
def test_the_error_at_a_width_is_the_integral(predictions: Case, width: float) -> None:
    logits, labels = predictions[0][:60], predictions[1][:60]
    expected = integral(*columns((logits, labels)), width)
    assert smooth_calibration_error(logits, labels, width=width) == pytest.approx(expected, abs=1e-5)


def test_the_width_of_the_kernel_is_the_error(predictions: Case) -> None:
    found = smooth_calibration_error(*predictions)
    assert smooth_calibration_error(*predictions, width=found) == pytest.approx(found, abs=1e-5)


def test_a_perfect_predictor_has_no_error_and_a_sure_wrong_one_all() -> None:
    logits = 500.0 * torch.eye(3)
    assert smooth_calibration_error(logits, torch.arange(3)) == pytest.approx(0.0, abs=1e-12)
    assert smooth_calibration_error(logits, (torch.arange(3) + 1) % 3) == pytest.approx(1.0, abs=1e-9)


def test_a_table_in_parts_gives_the_error_of_all_samples(predictions: Case) -> None:
    logits, labels = predictions
    one, other = PredictionTable(), PredictionTable()
    one.update(logits[:150], labels[:150])
    other.update(logits[150:], labels[150:])
    assert one.merge(other).compute()["smooth_ece"] == pytest.approx(smooth_calibration_error(logits, labels), abs=1e-9)


@pytest.mark.parametrize("width", [0.0, -1.0, math.inf, math.nan])
def test_a_width_that_is_none_is_refused(predictions: Case, width: float) -> None:
    with pytest.raises(ValueError, match="width must be a number above 0; got"):
        smooth_calibration_error(*predictions, width=width)
