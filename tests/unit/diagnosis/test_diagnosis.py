"""The damage report: each finding on a model made to deserve it."""

from __future__ import annotations

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.core.finding import Finding
from maxsup.diagnosis.diagnosis import Diagnosis, diagnose
from maxsup.diagnosis.findings import MIN_ERRORS
from maxsup.diagnosis.logistic import LogisticPath
from maxsup.diagnosis.rescaling import normalized_confidence
from maxsup.diagnosis.smoothing import plateau_gap
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.reports.diagnosis import diagnosis_page
from maxsup.metrics import (
    accuracy,
    aurc,
    class_separation,
    expected_calibration_error,
    mean_confidence,
    negative_log_likelihood,
)

pytestmark = pytest.mark.slow

NUM_CLASSES = 6


def calibrated(num_samples: int = 4000, scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits whose softmax is the chance of each label, and the same times a number."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(num_samples, NUM_CLASSES, generator=generator)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return scale * logits, labels


def finding_about(diagnosis: Diagnosis, topic: str) -> Finding:
    [found] = [finding for finding in diagnosis.findings if finding.topic == topic]
    return found


@pytest.fixture(scope="module")
def honest() -> Diagnosis:
    return diagnose(*calibrated())


@pytest.fixture(scope="module")
def boastful() -> Diagnosis:
    return diagnose(*calibrated(scale=3.0))


def test_a_calibrated_model_is_fine(honest: Diagnosis) -> None:
    for topic in ("Confidence on errors", "Calibration", "Selective classification"):
        assert finding_about(honest, topic).level == "good"
    assert honest.numbers["temperature"]["value"] == pytest.approx(1.0, abs=0.05)


def test_a_boastful_model_is_damaged_and_the_temperature_repairs_it(boastful: Diagnosis) -> None:
    assert finding_about(boastful, "Calibration").level == "error"
    assert finding_about(boastful, "Confidence on errors").level == "error"
    numbers = boastful.numbers
    assert numbers["temperature"]["value"] == pytest.approx(3.0, rel=0.05)
    assert numbers["ece_after"]["value"] < 0.3 * numbers["ece_before"]["value"]
    assert "Divide the logits by" in finding_about(boastful, "Calibration").advice


def test_the_temperature_is_fitted_on_samples_that_are_not_judged(boastful: Diagnosis) -> None:
    data = boastful.data
    assert (data["num_fitted"], data["num_judged"]) == (2000, 2000)
    assert "fitted on one half and evaluated on the other" in finding_about(boastful, "Calibration").sentence


def test_a_validation_split_is_fitted_on_where_there_is_one() -> None:
    judged, validation = calibrated(scale=3.0), calibrated(scale=1.0, seed=1)
    found = diagnose(*judged, validation=validation)
    assert found.numbers["temperature"]["value"] == pytest.approx(1.0, abs=0.05)
    assert found.data["num_judged"] == 4000
    assert "fitted on the validation split" in finding_about(found, "Calibration").sentence


def test_numbers_are_those_of_the_metrics(boastful: Diagnosis) -> None:
    logits, labels = calibrated(scale=3.0)
    confidence = mean_confidence(logits, labels)
    expected = {
        "accuracy": accuracy(logits, labels),
        "nll": negative_log_likelihood(logits, labels),
        "ece": expected_calibration_error(logits, labels),
        "aurc": aurc(logits, labels),
        "confidence_correct": confidence.correct,
        "confidence_wrong": confidence.wrong,
    }
    for name, value in expected.items():
        found = boastful.numbers[name]
        assert found["value"] == pytest.approx(value, abs=1e-9)
        assert found["low"] <= found["value"] <= found["high"]


def test_a_calibrated_model_has_the_confidence_on_errors_that_calibration_implies(honest: Diagnosis) -> None:
    numbers = honest.numbers
    # 4,000 samples: about 0.01 apart by chance.
    assert numbers["confidence_wrong"]["value"] == pytest.approx(
        numbers["confidence_wrong_if_calibrated"]["value"], abs=0.03
    )


def test_logits_whose_norm_hides_errors_gain_from_normalisation() -> None:
    logits, labels = calibrated(num_samples=6000)
    # The larger the norm, the more the softmax is sure; here it says nothing about being right.
    disturbed = logits * torch.exp(torch.randn(6000, 1, generator=torch.Generator().manual_seed(2)))
    found = diagnose(disturbed, labels)
    finding = finding_about(found, "Selective classification")
    assert finding.level in ("warning", "error")
    power = int(found.numbers["norm_power"]["value"])
    assert f"_{power} instead of the top probability" in finding.advice
    assert aurc(disturbed, labels, normalized_confidence(disturbed, power)) < aurc(disturbed, labels)


def test_few_errors_decide_nothing() -> None:
    labels = torch.arange(600) % NUM_CLASSES
    logits = 8.0 * F.one_hot(labels) + torch.randn(600, NUM_CLASSES, generator=torch.Generator().manual_seed(0))
    found = diagnose(logits, labels)
    assert found.data["num_wrong"] < MIN_ERRORS
    for topic in ("Confidence on errors", "Selective classification"):
        assert finding_about(found, topic).level == "unknown"


def test_smoothing_is_read_from_training_images_where_they_are_given() -> None:
    labels = torch.arange(1000) % NUM_CLASSES
    noise = 0.2 * torch.randn(1000, NUM_CLASSES, generator=torch.Generator().manual_seed(0))
    seen = plateau_gap(0.2, NUM_CLASSES) * F.one_hot(labels) + noise, labels
    found = diagnose(*calibrated(), train=seen, recipe="ls 0.2")
    assert found.smoothing.verdict == "smoothed"
    assert found.smoothing.alpha == pytest.approx(0.2, abs=0.01)
    assert found.data["traced"] == "training images"
    assert "The recipe says ls 0.2." in finding_about(found, "Label smoothing").advice


def test_features_add_collapse_and_probe() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(600) % 3
    features = torch.randn(3, 5, generator=generator)[labels] + 0.3 * torch.randn(600, 5, generator=generator)
    weight = torch.randn(3, 5, generator=generator)
    found = diagnose(features @ weight.T, labels, features, weight=weight, bias=torch.zeros(3))
    assert [finding.topic for finding in found.findings][-2:] == ["Collapse", "Probe"]
    separation = class_separation(features, labels)
    assert found.numbers["within"]["value"] == pytest.approx(separation.within, abs=1e-9)
    assert found.numbers["r_squared"]["value"] == pytest.approx(separation.r_squared, abs=1e-9)
    assert math.isfinite(found.numbers["nc3"]["value"])
    assert found.numbers["probe_accuracy"]["value"] > 0.9


def test_of_many_classes_the_most_frequent_are_probed() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.arange(100).repeat(12), torch.arange(100, 150)])
    features = torch.randn(150, 64, generator=generator)[labels] + 0.1 * torch.randn(1250, 64, generator=generator)
    logits = F.one_hot(labels, 150) + 0.1 * torch.randn(1250, 150, generator=generator)
    found = diagnose(logits, labels, features)
    assert found.numbers["num_probe_classes"]["value"] == 100
    assert found.numbers["num_probe_judged"]["value"] == 600
    assert found.numbers["probe_accuracy"]["value"] > 0.95
    assert "among the 100 most frequent classes" in finding_about(found, "Probe").sentence


@pytest.mark.parametrize("num_samples", [2, 3, 7, 40])
def test_a_handful_of_samples_gives_a_report_and_no_opinion(num_samples: int) -> None:
    labels = torch.arange(num_samples) % 2
    generator = torch.Generator().manual_seed(0)
    logits, features = (torch.randn(num_samples, size, generator=generator) for size in (3, 4))
    found = diagnose(logits, labels, features)
    assert finding_about(found, "Label smoothing").level == "unknown"
    for topic in ("Calibration", "Collapse", "Probe"):
        assert finding_about(found, topic).level == "unknown"
    assert diagnosis_page(found).startswith("<!doctype html>")


def test_one_image_a_class_says_nothing_about_classes() -> None:
    logits = torch.randn(200, 200, generator=torch.Generator().manual_seed(0))
    found = diagnose(logits, torch.arange(200), logits)
    for topic in ("Collapse", "Probe"):
        sentence = finding_about(found, topic).sentence
        assert sentence == "Cannot tell from about 1 sample per class; at least 10 per class and 100 in all are needed."
    assert not {"within", "probe_accuracy"} & found.numbers.keys()


def test_the_calibration_error_of_the_finding_is_that_of_the_header_and_chance_is_no_finding() -> None:
    found = diagnose(*calibrated(num_samples=300))
    finding = finding_about(found, "Calibration")
    assert finding.value == found.numbers["ece"]["value"] > 0.02
    assert finding.threshold == found.numbers["ece_if_calibrated"]["value"] >= finding.value
    assert finding.level == "good"
    assert finding_about(diagnose(*calibrated(num_samples=300, scale=3.0)), "Calibration").level == "error"


def test_a_diagnosis_is_json_and_the_same_every_time(honest: Diagnosis) -> None:
    again = diagnose(*calibrated())
    assert json_text(again.as_dict()) == json_text(honest.as_dict())
    assert json.loads(json_text(honest.as_dict()))["protocol"] == 1


def test_classes_have_names_or_numbers() -> None:
    logits, labels = calibrated(num_samples=300)
    names = tuple("abcdef")
    named = diagnose(logits, labels, class_names=names).data["classes"]
    assert [row["name"] for row in named] == list(names)
    numbered = diagnose(logits, labels).data["classes"]
    assert numbered[0]["name"] == "class 0"
    assert numbered[0]["count"] == int((labels == 0).sum())
    assert numbered[0]["accuracy"] == pytest.approx(float((logits[labels == 0].argmax(1) == 0).double().mean()))


def test_what_is_wrong_with_arrays_is_a_data_error() -> None:
    with pytest.raises(DataError, match="got nan in row 0"):
        diagnose(torch.full((10, 3), torch.nan), torch.arange(10) % 3)


def test_a_diagnosis_prints_its_numbers_and_findings(honest: Diagnosis) -> None:
    lines = str(honest).splitlines()
    assert lines[0] == honest.headline
    assert f"fine: Calibration\n  {finding_about(honest, 'Calibration').sentence}" in str(honest)
    assert repr(honest) == str(honest)


def test_a_notebook_shows_every_finding_and_no_name_as_markup() -> None:
    logits, labels = calibrated(num_samples=300)
    found = diagnose(logits, labels, recipe="<script>")
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(found.findings)
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown


def test_arrays_of_numpy_and_lists_give_what_tensors_give() -> None:
    logits, labels = calibrated(num_samples=300)
    found = diagnose(logits, labels).as_dict()
    assert json_text(diagnose(logits.numpy(), labels.numpy()).as_dict()) == json_text(found)
    assert json_text(diagnose(logits.tolist(), labels.tolist()).as_dict()) == json_text(found)


def test_features_that_no_probe_settles_on_take_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, search = [], LogisticPath._search
    monkeypatch.setattr(LogisticPath, "_search", lambda self, *a: taken.append(1) or search(self, *a))
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 10
    features = torch.randint(-(2**31), 2**31, (300, 16), generator=generator).float()
    diagnosis = diagnose(torch.randn(300, 10, generator=generator), labels, features)
    assert 0 <= diagnosis.numbers["probe_accuracy"]["value"] <= 0.3
    assert len(taken) < 5000
