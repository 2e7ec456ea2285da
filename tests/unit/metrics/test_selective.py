"""Selective classification against scikit-learn and loops over all orders of tied samples."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

from maxsup.metrics import augrc, aurc, auroc, excess_aurc, fpr95, risk_at_coverage, risk_coverage
from maxsup.metrics.predictions import predictions_of
from tests.reference import metrics as loops
from tests.unit.metrics.cases import Case

# Confidences of eight samples, with ties; all orders of the tied ones can be gone through.
TIED = torch.tensor([0.9, 0.9, 0.7, 0.7, 0.7, 0.5, 0.4, 0.4])
RIGHT = torch.tensor([True, False, True, False, True, True, False, True])
# Of two classes, predicted 0: right where the label is 0.
LOGITS, LABELS = torch.tensor([[1.0, 0.0]] * 8), (~RIGHT).long()


def listed(case: Case) -> tuple[list[float], list[bool]]:
    """Confidence and correctness, the same ties as in the metrics under test."""
    columns = predictions_of(*case)
    return columns.confidence.tolist(), columns.is_correct.tolist()


def test_risk_is_the_mean_over_all_orders_of_tied_samples() -> None:
    found = risk_coverage(TIED, RIGHT)
    assert found.risk.tolist() == pytest.approx(loops.risks(TIED.tolist(), RIGHT.tolist()), abs=1e-12)
    assert found.coverage.tolist() == [n / 8 for n in range(1, 9)]


def test_aurc_is_the_mean_over_all_orders_of_tied_samples() -> None:
    expected = loops.average(loops.risks(TIED.tolist(), RIGHT.tolist()))
    assert aurc(LOGITS, LABELS, confidence=TIED) == pytest.approx(expected, abs=1e-12)


def test_aurc_is_the_mean_of_the_risks(case: Case) -> None:
    columns = predictions_of(*case)
    expected = float(risk_coverage(columns.confidence, columns.is_correct).risk.mean())
    assert aurc(*case) == pytest.approx(expected, abs=1e-10)


def test_aurc_without_ties_is_that_of_the_loops(predictions: Case) -> None:
    expected = loops.average(loops.untied_risks(*listed(predictions)))
    assert aurc(*predictions) == pytest.approx(expected, abs=1e-10)


def test_augrc_is_the_mean_over_all_orders_of_tied_samples() -> None:
    risks = loops.risks(TIED.tolist(), RIGHT.tolist())
    expected = loops.average(risk * (i + 1) / 8 for i, risk in enumerate(risks))
    assert augrc(LOGITS, LABELS, confidence=TIED) == pytest.approx(expected, abs=1e-12)


def test_augrc_is_the_mean_share_of_accepted_errors(case: Case) -> None:
    columns = predictions_of(*case)
    curve = risk_coverage(columns.confidence, columns.is_correct)
    assert augrc(*case) == pytest.approx(float((curve.risk * curve.coverage).mean()), abs=1e-10)


def test_excess_is_over_the_best_order_of_the_same_predictions(case: Case) -> None:
    _, hits = listed(case)
    best = loops.average(loops.untied_risks([float(hit) - 1e-6 * i for i, hit in enumerate(hits)], hits))
    assert excess_aurc(*case) == pytest.approx(aurc(*case) - best, abs=1e-10)
    assert excess_aurc(*case) >= 0.0


def test_the_best_order_has_no_excess() -> None:
    assert excess_aurc(LOGITS, LABELS, confidence=RIGHT.float()) == 0.0


@pytest.mark.parametrize("coverage", [1e-9, 0.07, 0.1, 0.5, 0.8, 1.0, 1])
def test_risk_at_coverage_is_a_point_of_the_curve(case: Case, coverage: float) -> None:
    columns = predictions_of(*case)
    curve = risk_coverage(columns.confidence, columns.is_correct)
    first = int((curve.coverage >= coverage - 1e-12).nonzero()[0])
    assert risk_at_coverage(*case, coverage=coverage) == pytest.approx(float(curve.risk[first]), abs=1e-10)


def test_seven_percent_of_a_hundred_samples_are_seven() -> None:
    # In floating point 0.07 * 100 is a little more than 7.
    logits = torch.stack([torch.arange(100.0, 0.0, -1.0) / 10, torch.zeros(100)], dim=1)
    labels = (torch.arange(100) == 7).long()
    assert risk_at_coverage(logits, labels, coverage=0.07) == 0.0


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.1, math.nan, "all", True])
def test_a_coverage_that_is_no_share_is_refused(predictions: Case, coverage: object) -> None:
    with pytest.raises(ValueError, match="coverage must be a share above 0 and at most 1; got"):
        risk_at_coverage(*predictions, coverage=coverage)


def test_auroc_and_fpr95_are_those_of_the_loops(case: Case) -> None:
    values, hits = listed(case)
    assert auroc(*case) == pytest.approx(loops.auroc(values, hits), abs=1e-10, nan_ok=True)
    assert fpr95(*case) == pytest.approx(loops.fpr95(values, hits), abs=1e-10, nan_ok=True)


def test_auroc_and_fpr95_are_those_of_scikit_learn_ties_included(predictions: Case) -> None:
    confidence = (predictions_of(*predictions).confidence * 20).round()
    hits = predictions_of(*predictions).is_correct
    false, true, _ = roc_curve(hits.numpy(), confidence.numpy(), drop_intermediate=False)
    assert auroc(*predictions, confidence=confidence) == pytest.approx(
        roc_auc_score(hits.numpy(), confidence.numpy()), abs=1e-10
    )
    assert fpr95(*predictions, confidence=confidence) == pytest.approx(false[true >= 0.95][0], abs=1e-10)


@pytest.mark.parametrize("hits", [[True] * 8, [False] * 8])
def test_what_needs_right_and_wrong_ones_is_nan_without_either(hits: list[bool]) -> None:
    labels = (~torch.tensor(hits)).long()
    assert math.isnan(auroc(LOGITS, labels, confidence=TIED))
    assert math.isnan(fpr95(LOGITS, labels, confidence=TIED))
    assert aurc(LOGITS, labels, confidence=TIED) == float(not hits[0])
    assert excess_aurc(LOGITS, labels, confidence=TIED) == 0.0


@pytest.mark.parametrize("metric", [aurc, excess_aurc, auroc, fpr95])
def test_shuffling_tied_samples_changes_nothing(metric: object) -> None:
    expected = metric(LOGITS, LABELS, confidence=TIED)
    for _ in range(10):
        order = torch.randperm(8)
        assert metric(LOGITS, LABELS[order], confidence=TIED[order]) == pytest.approx(expected, abs=1e-14)


def test_only_the_order_of_confidence_counts(predictions: Case) -> None:
    confidence = predictions_of(*predictions).confidence
    for metric in (aurc, excess_aurc, auroc, fpr95):
        assert metric(*predictions, confidence=confidence.log()) == metric(*predictions)


@pytest.mark.parametrize(
    ("confidence", "sentence"),
    [
        (torch.ones(3), r"confidence must be one floating-point number per sample, shape \(8,\)"),
        (torch.ones(8, dtype=torch.int64), "torch.int64"),
        ([0.5] * 8, "confidence must be one floating-point number per sample"),
        (torch.full((8,), math.nan), "confidence must be numbers that can be ordered; got nan"),
    ],
)
def test_a_confidence_that_cannot_be_used_is_refused(confidence: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        aurc(LOGITS, LABELS, confidence=confidence)
    with pytest.raises(ValueError, match=sentence):
        risk_coverage(confidence, RIGHT)


def test_correctness_must_be_booleans() -> None:
    with pytest.raises(ValueError, match="is_correct must be a tensor of booleans"):
        risk_coverage(TIED, RIGHT.long())
    with pytest.raises(ValueError, match="is_correct must hold at least one sample"):
        risk_coverage(TIED[:0], RIGHT[:0])


@pytest.mark.parametrize("num_classes", [10, 1000])
def test_confidences_that_differ_by_rounding_are_tied(num_classes: int) -> None:
    # Every row has the same logits in another order; which of them are right is an accident.
    row = 2 * torch.randn(num_classes)
    logits = torch.stack([row[torch.randperm(num_classes)] for _ in range(200)])
    predicted = logits.argmax(dim=1)
    labels = torch.where(torch.arange(200) % 3 == 0, (predicted + 1) % num_classes, predicted)
    assert auroc(logits, labels) == 0.5
    assert fpr95(logits, labels) == 1.0
    assert aurc(logits, labels) == pytest.approx(67 / 200, abs=1e-12)


def test_confidences_that_differ_by_more_than_rounding_are_not_tied() -> None:
    gaps = torch.tensor([20.0, 20.0 + 1e-4, 20.0 + 2e-4], dtype=torch.float64)
    logits = torch.stack([gaps, torch.zeros(3, dtype=torch.float64)], dim=1)
    assert auroc(logits, torch.tensor([1, 0, 0])) == 1.0
    given = torch.tensor([0.5, 0.5 + 1e-15, 0.5 + 2e-15], dtype=torch.float64)
    assert auroc(logits, torch.tensor([1, 0, 0]), confidence=given) == 1.0
