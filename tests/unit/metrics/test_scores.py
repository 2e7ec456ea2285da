"""Accuracy, NLL, Brier score and confidence against scikit-learn and plain loops."""

import math

import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss, top_k_accuracy_score

from maxsup.metrics import accuracy, brier_score, mean_confidence, negative_log_likelihood
from tests.reference import metrics as loops
from tests.unit.metrics.cases import Case


@pytest.mark.parametrize("k", [1, 2, 5, 50])
def test_accuracy_is_that_of_the_loops_ties_included(case: Case, k: int) -> None:
    assert accuracy(*case, k=k) == pytest.approx(loops.accuracy(case[0].tolist(), case[1].tolist(), k), abs=1e-12)


def test_scores_are_those_of_scikit_learn(predictions: Case) -> None:
    logits, labels = predictions
    truth, probs, classes = labels.numpy(), logits.softmax(dim=1).numpy(), {"labels": range(12)}
    for k in (1, 3):
        assert accuracy(*predictions, k=k) == pytest.approx(top_k_accuracy_score(truth, probs, k=k, **classes))
    assert negative_log_likelihood(*predictions) == pytest.approx(log_loss(truth, probs, **classes), abs=1e-9)
    theirs = brier_score_loss(truth, probs, scale_by_half=False, **classes)
    assert brier_score(*predictions) == pytest.approx(theirs, abs=1e-9)


def test_nll_is_that_of_the_loops(case: Case) -> None:
    logits, labels = case
    expected = loops.negative_log_likelihood(logits.double().clamp(max=600).tolist(), labels.tolist())
    if logits.max() > 600:
        expected = loops.negative_log_likelihood((logits - 5000.0).tolist(), labels.tolist())
    assert negative_log_likelihood(logits, labels) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_brier_score_is_that_of_the_loops(case: Case) -> None:
    logits, labels = case
    assert brier_score(logits, labels) == pytest.approx(
        loops.brier_score(logits.tolist(), labels.tolist()), rel=1e-9, abs=1e-12
    )


def test_confidence_of_right_and_wrong_is_that_of_the_loops(case: Case) -> None:
    rows, labels = case[0].tolist(), case[1].tolist()
    values, hits = loops.confidences(rows), loops.corrects(rows, labels)
    expected = [loops.average(v for v, hit in zip(values, hits, strict=True) if hit is kind) for kind in (True, False)]
    assert list(mean_confidence(*case)) == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_a_masked_true_class_costs_infinitely_much() -> None:
    assert negative_log_likelihood(torch.tensor([[0.0, -math.inf]]), torch.tensor([1])) == math.inf


@pytest.mark.parametrize("k", [0, -1, 1.0, True])
def test_a_k_that_is_no_count_is_refused(predictions: Case, k: object) -> None:
    with pytest.raises(ValueError, match="k must be an integer of at least 1; got"):
        accuracy(*predictions, k=k)
