"""Accuracy, confidence and confusions of each class against plain loops and scikit-learn."""

import math
from collections import Counter

import pytest
import torch
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix

from maxsup.metrics import PredictionSums, class_scores, confusion_pairs, top_confusion, worst_class_accuracy
from maxsup.metrics.classes import wilson_interval
from tests.reference import metrics as loops
from tests.reference.losses import argmax
from tests.unit.metrics.cases import Case


def test_scores_of_a_class_are_those_of_the_loops(case: Case) -> None:
    logits, labels = case
    rows, true = logits.tolist(), labels.tolist()
    values, hits = loops.confidences(rows), loops.corrects(rows, true)
    scores = class_scores(logits, labels)
    for index in range(logits.shape[1]):
        own = [place for place, label in enumerate(true) if label == index]
        assert scores.size[index] == len(own)
        expected = (
            loops.average(float(hits[place]) for place in own),
            loops.average(values[place] for place in own),
            loops.average(values[place] for place in own if not hits[place]),
        )
        found = tuple(float(column[index]) for column in (scores.accuracy, scores.confidence, scores.confidence_wrong))
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_pairs_count_what_a_loop_counts(case: Case) -> None:
    logits, labels = case
    pairs = confusion_pairs(logits, labels, num_pairs=1000)
    found = {(pair.label, pair.predicted): pair.num_confused for pair in pairs}
    predicted = [argmax(row) for row in logits.tolist()]
    assert found == Counter(
        (label, wrong) for label, wrong in zip(labels.tolist(), predicted, strict=True) if wrong != label
    )
    assert [pair.low for pair in pairs] == sorted((pair.low for pair in pairs), reverse=True)
    assert all(pair.low <= pair.share <= pair.high for pair in pairs)


def test_pairs_are_the_confusion_matrix_of_scikit_learn(predictions: Case) -> None:
    logits, labels = predictions
    matrix = confusion_matrix(labels, logits.argmax(dim=1), labels=range(12))
    for pair in confusion_pairs(logits, labels, num_pairs=5):
        assert (pair.num_confused, pair.size) == (matrix[pair.label, pair.predicted], matrix[pair.label].sum())


@pytest.mark.parametrize("total", [1, 7, 50])
def test_bounds_are_wilsons(total: int) -> None:
    count = torch.arange(total + 1)
    low, high = wilson_interval(count, torch.full_like(count, total), level=0.9)
    for successes in range(total + 1):
        expected = binomtest(successes, total).proportion_ci(0.9, method="wilson")
        assert (float(low[successes]), float(high[successes])) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_frequent_confusion_comes_before_a_single_error_of_a_small_class() -> None:
    labels = torch.tensor([0] * 100 + [1])
    predicted = torch.tensor([2] * 90 + [0] * 10 + [2])  # the one sample of class 1 is wrong too
    pairs = confusion_pairs(torch.eye(3)[predicted], labels)
    assert [(pair.label, pair.share) for pair in pairs] == [(0, 0.9), (1, 1.0)]


def test_intervals_of_all_classes_at_once_are_wider(predictions: Case) -> None:
    own, jointly = (class_scores(*predictions, is_simultaneous=each) for each in (False, True))
    assert (jointly.low < own.low).all()
    assert torch.equal(own.accuracy, jointly.accuracy)
    one, every = (confusion_pairs(*predictions, 1, is_simultaneous=each)[0] for each in (False, True))
    assert every.low < one.low <= one.high < every.high


def test_simultaneous_intervals_cover_all_classes_in_95_of_100_data_sets() -> None:
    """Twenty classes of 60 samples, right with a probability of 0.8, 1,000 data sets drawn."""
    right = torch.distributions.Binomial(60, torch.tensor(0.8)).sample((1000, 20))
    low, high = wilson_interval(right, torch.full_like(right, 60), level=1 - 0.05 / 20)
    covered = ((low <= 0.8) & (high >= 0.8)).all(dim=1).double().mean()
    assert covered > 0.93


def test_the_worst_class_is_one_that_occurs() -> None:
    logits, labels = torch.eye(4)[[0, 0, 1, 1, 2]], torch.tensor([0, 0, 1, 2, 2])
    scores = class_scores(logits, labels)
    assert scores.worst == 2
    assert worst_class_accuracy(logits, labels) == 0.5
    assert math.isnan(float(scores.accuracy[3]))
    assert math.isnan(float(scores.low[3]))


def test_a_perfect_predictor_confuses_nothing() -> None:
    labels = torch.arange(8) % 4
    assert confusion_pairs(torch.eye(4)[labels], labels) == []
    assert top_confusion(torch.eye(4)[labels], labels) == 0.0
    assert worst_class_accuracy(torch.eye(4)[labels], labels) == 1.0


def test_a_constant_predictor_confuses_every_class_with_one() -> None:
    labels = torch.arange(12) % 4
    pairs = confusion_pairs(torch.eye(4)[torch.ones_like(labels)], labels)
    assert [(pair.label, pair.predicted, pair.share) for pair in pairs] == [(0, 1, 1.0), (2, 1, 1.0), (3, 1, 1.0)]


def test_sums_over_batches_know_the_scores_of_the_whole(predictions: Case) -> None:
    sums = PredictionSums()
    for part in zip(predictions[0].split(37), predictions[1].split(37), strict=True):
        other = PredictionSums()
        other.update(*part)
        sums.merge(other)
    for own, whole in zip(sums.class_scores(), class_scores(*predictions), strict=True):
        torch.testing.assert_close(own, whole, equal_nan=True, rtol=0, atol=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, True])
def test_a_level_that_is_no_probability_is_refused(predictions: Case, level: float) -> None:
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1"):
        class_scores(*predictions, level=level)
