"""Each finding at each of its levels."""

import math
from dataclasses import replace

import pytest

from maxsup.core.finding import LEVELS
from maxsup.diagnosis.findings import (
    REFERENCES,
    calibration_finding,
    collapse_finding,
    confidence_finding,
    probe_finding,
    selection_finding,
    smoothing_finding,
)
from maxsup.diagnosis.smoothing import SmoothingEstimate


def numbers(**values: float) -> dict[str, dict[str, float]]:
    return {name: {"value": value, "low": value, "high": value} for name, value in values.items()}


def test_every_finding_is_one_sentence_with_its_number_and_threshold() -> None:
    estimate = SmoothingEstimate(0.1, 0.08, 0.12, "smoothed", "so it is", 0.1, 0.1, 0.2)
    plain = replace(estimate, alpha=0.0, low=0.0, high=0.004, verdict="none")
    unknown = replace(estimate, alpha=None, low=None, high=None, verdict="cannot tell")
    calibration = {
        "nll_before": 0.5,
        "nll_after": 0.4,
        "nll_calibration": 0.1,
        "temperature": 1.5,
        "mean_confidence": 0.9,
        "accuracy": 0.8,
    }
    found = [
        *(smoothing_finding(each, 10, "ce") for each in (estimate, plain, unknown)),
        *(
            confidence_finding(numbers(confidence_wrong=value, confidence_wrong_if_calibrated=0.5), 100)
            for value in (0.3, 0.5, 0.56, 0.7)
        ),
        confidence_finding({}, 3),
        *(
            calibration_finding(
                numbers(ece=before, ece_before=before, ece_after=after, ece_if_calibrated=chance, **calibration),
                "fitted on a split",
                1000,
            )
            for before, after, chance in ((0.01, 0.01, 0.0), (0.03, 0.01, 0.01), (0.09, 0.08, 0.06), (0.07, 0.07, 0.08))
        ),
        calibration_finding({}, "fitted on a split", 99),
        *(
            selection_finding(numbers(aurc_before=0.1, aurc_after=after), power, 100, "fitted on a split")
            for after, power in ((0.1, None), (0.099, 3), (0.09, 4), (0.05, 5))
        ),
        selection_finding({}, None, 3, ""),
        *(
            collapse_finding(numbers(within=within, r_squared=0.5), num_classes, 50)
            for within in (0.1, 0.3)
            for num_classes in (10, 1000)
        ),
        collapse_finding({}, 1000, 1),
        *(
            probe_finding(
                numbers(
                    accuracy_judged=0.9,
                    probe_accuracy=value,
                    knn_accuracy=value,
                    num_probe_judged=5000,
                    num_probe_classes=100,
                ),
                num_classes,
                50,
            )
            for value, num_classes in ((0.89, 100), (0.6, 1000))
        ),
        probe_finding({}, 1000, 1),
    ]
    levels = [finding.level for finding in found]
    assert levels == [
        *("note", "good", "unknown"),
        *("note", "good", "warning", "error", "unknown"),
        *("good", "warning", "error", "good", "unknown"),
        *("good", "good", "warning", "error", "unknown"),
        *("note", "warning", "note", "good", "unknown"),
        *("good", "warning", "unknown"),
    ]
    assert set(levels) == set(LEVELS)
    for finding in found:
        assert finding.sentence.endswith(".")
        assert ". " not in finding.sentence
        assert finding.advice.endswith(".")
        assert finding.threshold is not None


def test_the_k_minus_1_convention_is_told_too() -> None:
    estimate = SmoothingEstimate(0.1, 0.08, 0.12, "smoothed", "so it is", 0.1, 0.1, 0.2)
    assert "epsilon is 0.090" in smoothing_finding(estimate, 10).advice


def test_references_carry_the_label_of_the_paper() -> None:
    sentence = collapse_finding(numbers(within=0.2, r_squared=0.4), 1000, 50).sentence
    assert "tab:feature2" in sentence
    assert all(str(REFERENCES[name][0]) in sentence for name in ("CE", "LS", "MaxSup"))


@pytest.mark.parametrize(("num_judged", "level"), [(179, "good"), (5000, "warning")])
def test_a_probe_of_few_samples_is_given_its_sampling_error(num_judged: int, level: str) -> None:
    # 97.2 % on 179 samples is within chance of 99.4 %; on 5,000 it would not be.
    numbers = {
        "accuracy_judged": 0.994,
        "probe_accuracy": 0.972,
        "knn_accuracy": 0.98,
        "num_probe_judged": num_judged,
        "num_probe_classes": 10,
    }
    found = probe_finding({name: {"value": value} for name, value in numbers.items()}, num_classes=10, num_a_class=50)
    assert found.level == level
    # 2 sqrt((0.01 + 0.972 * 0.028) / n), and never below 2 points.
    assert found.threshold == pytest.approx(0.994 - max(0.02, 2 * math.sqrt(0.037216 / num_judged)), abs=1e-9)
