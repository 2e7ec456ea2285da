"""Conformal sets against a loop over samples and classes."""

import math

import pytest
import torch

from maxsup.metrics import prediction_sets
from maxsup.metrics.conformal import METHODS
from tests.reference.losses import softmax
from tests.unit.metrics.cases import CASES, Case, usual


def scores_of(row: list[float], method: str) -> list[float]:
    probs = softmax(row)
    if method == "lac":
        return [1 - p for p in probs]
    found, total = [0.0] * len(probs), 0.0
    for place, k in enumerate(sorted(range(len(probs)), key=lambda k: (-row[k], k)), start=1):
        total += probs[k]
        found[k] = total + (0.01 * max(0, place - 5) if method == "raps" else 0.0)
    return found


def loop(case: Case, fitted: Case, method: str, level: float) -> tuple[float, float]:
    own = sorted(scores_of(row, method)[label] for row, label in zip(*(each.tolist() for each in fitted), strict=True))
    threshold = own[math.ceil((len(own) + 1) * level - 1e-9) - 1] + 1e-12
    sizes, hits = [], []
    for row, label in zip(*(each.tolist() for each in case), strict=True):
        scores = scores_of(row, method)
        sizes.append(sum(score <= threshold for score in scores))
        hits.append(scores[label] <= threshold)
    return sum(sizes) / len(sizes), sum(hits) / len(hits)


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["usual", "certain", "repeated", "uniform", "all_correct", "all_wrong", "masked"])
def test_sets_are_those_of_the_loop(name: str, method: str, level: float) -> None:
    case = CASES[name]()
    fitted = tuple(torch.cat([each, each]) for each in case)
    found = prediction_sets(*case, fitted_on=fitted, method=method, level=level)
    assert (found.size, found.coverage) == pytest.approx(loop(case, fitted, method, level), abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_sets_cover_what_they_promise_on_new_samples(method: str) -> None:
    coverages = [prediction_sets(*usual(), fitted_on=usual(), method=method, level=0.9).coverage for _ in range(60)]
    assert 0.89 < sum(coverages) / len(coverages) < 0.92


def test_coverage_of_each_class_adds_up_to_that_of_all(predictions: Case) -> None:
    found = prediction_sets(*predictions, fitted_on=usual())
    size = predictions[1].bincount(minlength=12).double()
    assert float((found.class_coverage.nan_to_num() * size).sum()) / 400 == pytest.approx(found.coverage)
    assert float((found.class_size.nan_to_num() * size).sum()) / 400 == pytest.approx(found.size)


def test_a_perfect_predictor_has_sets_of_one_class() -> None:
    logits, labels = 80.0 * torch.eye(5).repeat(8, 1), torch.arange(40) % 5
    assert prediction_sets(logits, labels, fitted_on=(logits, labels)).size == 1.0


def test_too_few_samples_are_refused_with_the_number_that_is_enough(predictions: Case) -> None:
    logits, labels = predictions
    with pytest.raises(ValueError, match=r"fitted_on must be at least 19 samples for sets at 0\.95; got 18"):
        prediction_sets(logits, labels, fitted_on=(logits[:18], labels[:18]), level=0.95)
    assert prediction_sets(logits, labels, fitted_on=(logits[:19], labels[:19]), level=0.95).size >= 1.0
