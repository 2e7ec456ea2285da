from pathlib import Path

import pytest

from maxsup.lab.analysis import RunOutputs
from maxsup.lab.analysis.analyses import calibration
from maxsup.metrics import aurc, expected_calibration_error, reliability, risk_at_coverage
from tests.unit.lab.analysis.made import values


def test_numbers_are_those_of_the_metrics(digit_runs: list[Path]) -> None:
    run = RunOutputs(digit_runs[0])
    found = run.split("test")
    result = calibration.compute(run, split="test", num_resamples=20)
    numbers = values(result)
    assert numbers["ece"] == pytest.approx(expected_calibration_error(found.logits, found.labels))
    assert numbers["aurc"] == pytest.approx(aurc(found.logits, found.labels))
    assert numbers["risk_at_coverage_90"] == pytest.approx(risk_at_coverage(found.logits, found.labels, 0.9))
    bins = result["data"]["reliability"]
    assert sum(bins["count"]) == 359
    assert bins["count"] == reliability(found.logits, found.labels).count.tolist()


def test_the_curve_ends_at_the_error_rate_and_is_short(digit_runs: list[Path]) -> None:
    result = calibration.compute(RunOutputs(digit_runs[2]), split="test", num_resamples=20)
    curve = result["data"]["risk_coverage"]
    assert len(curve["risk"]) == len(curve["coverage"]) == 200
    assert curve["coverage"][-1] == 1.0
    assert curve["risk"][-1] == pytest.approx(1 - result["numbers"]["accuracy"]["value"])


def test_bins_of_the_diagram_are_an_option(digit_runs: list[Path]) -> None:
    result = calibration.compute(RunOutputs(digit_runs[0]), split="val", num_bins=5, num_resamples=20)
    assert len(result["data"]["reliability"]["count"]) == 5
