"""Paired differences: coverage on simulated data, and agreement with other libraries and with loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.metrics import (
    aurc,
    brier_score,
    class_separation,
    detection,
    expected_calibration_error,
    mean_confidence,
    negative_log_likelihood,
)
from maxsup.metrics.paired import linear_cka, mcnemar, paired_detections, paired_differences, paired_separations
from maxsup.metrics.predictions import Predictions, predictions_of

NUM_CLASSES = 4
SCALES = (1.0, 1.6, 0.7)  # of the logits of three models
NOISES = (0.6, 0.9, 0.75)  # what each adds to the true logits


def models(num_samples: int, seed: int) -> list[Predictions]:
    """Three models that see the same samples, each with its own noise and its own confidence."""
    generator = torch.Generator().manual_seed(seed)
    truth = 1.5 * torch.randn(num_samples, NUM_CLASSES, generator=generator)
    labels = torch.multinomial(truth.softmax(1), 1, generator=generator).squeeze(1)
    return [
        predictions_of(scale * (truth + noise * torch.randn(truth.shape, generator=generator)), labels)
        for scale, noise in zip(SCALES, NOISES, strict=True)
    ]


def logits(num_samples: int = 300) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    return [torch.randn(num_samples, NUM_CLASSES, generator=generator) for _ in range(2)], labels


def test_differences_are_those_of_the_metrics() -> None:
    (first, second), labels = logits()
    found = paired_differences([predictions_of(each, labels) for each in (first, second)], num_resamples=20)[0, 1]
    expected = {
        name: metric(second, labels) - metric(first, labels)
        for name, metric in {
            "nll": negative_log_likelihood,
            "brier": brier_score,
            "ece": expected_calibration_error,
            "aurc": aurc,
            "confidence_correct": lambda *rows: mean_confidence(*rows).correct,
            "confidence_wrong": lambda *rows: mean_confidence(*rows).wrong,
        }.items()
    }
    assert {name: found[name].estimate for name in expected} == pytest.approx(expected, abs=1e-12)
    assert found["confidence_gap"].estimate == pytest.approx(
        expected["confidence_correct"] - expected["confidence_wrong"]
    )


def test_resamples_are_those_of_a_loop_over_repeated_samples() -> None:
    (first, second), labels = logits(120)
    found = paired_differences([predictions_of(each, labels) for each in (first, second)], num_resamples=40, seed=3)
    generator = torch.Generator().manual_seed(3)
    values = []
    for _ in range(40):
        rows = torch.randint(120, (120,), generator=generator)
        values.append(aurc(second[rows], labels[rows]) - aurc(first[rows], labels[rows]))
    low, high = np.quantile(values, [0.025, 0.975])
    assert found[0, 1]["aurc"][1:] == pytest.approx((low, high), abs=1e-12)


def test_a_model_does_not_differ_from_itself() -> None:
    (first, _), labels = logits()
    own = predictions_of(first, labels)
    found = paired_differences([own, own], num_resamples=20)[0, 1]
    assert all(found[name] == (0, 0, 0) for name in found if name != "ece")
    assert found["ece"].low <= 0 <= found["ece"].high


@pytest.mark.slow
def test_intervals_cover_the_true_difference_in_94_to_96_percent_of_1000_data_sets() -> None:
    truth = paired_differences(models(1_000_000, 10**6), num_resamples=2, with_ranking=False)
    names = ("accuracy", "nll", "brier", "ece", "mean_confidence", "confidence_correct", "confidence_wrong")
    hits = dict.fromkeys((*names, "confidence_gap"), 0)
    for seed in range(1000):
        found = paired_differences(models(500, seed), num_resamples=400, seed=seed, with_ranking=False)
        for name in hits:
            hits[name] += sum(found[pair][name][1] <= truth[pair][name][0] <= found[pair][name][2] for pair in found)
    coverage = {name: count / 3000 for name, count in hits.items()}
    assert all(0.94 <= share <= 0.96 for share in coverage.values()), coverage


def test_fewer_than_100_samples_and_other_samples_are_refused() -> None:
    (first, second), labels = logits(99)
    with pytest.raises(DataError, match="at least 100"):
        paired_differences([predictions_of(each, labels) for each in (first, second)])
    (first, second), labels = logits()
    with pytest.raises(DataError, match="the same samples"):
        paired_differences([predictions_of(first, labels), predictions_of(second, labels.flip(0))])


def test_differences_of_features_are_those_of_the_metric_and_vanish_for_one_model() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 6
    centres = torch.randn(6, 5, generator=generator)[labels]
    x, y = (centres + spread * torch.randn(120, 5, generator=generator) for spread in (0.3, 1.0))
    found = paired_separations([x, y, x], labels, num_resamples=100)
    for column, name in enumerate(("within", "total", "r_squared")):
        difference = class_separation(y, labels)[column] - class_separation(x, labels)[column]
        assert found[0, 1][name].estimate == pytest.approx(difference, abs=1e-12)
        assert found[0, 2][name] == (0, 0, 0)
    assert found[0, 1]["within"].low > 0


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (1, 0), (3, 9), (40, 41), (2000, 2300)])
def test_mcnemar_is_the_binomial_test_of_scipy(only_first: int, only_second: int) -> None:
    first = torch.tensor([True] * (only_first + 5) + [False] * (only_second + 7))
    second = torch.tensor([False] * only_first + [True] * (5 + only_second) + [False] * 7)
    found = mcnemar(first, second)
    total = only_first + only_second
    assert found[:2] == (only_first, only_second)
    expected = binomtest(only_first, total).pvalue if total else 1.0
    assert found.p_value == pytest.approx(expected, rel=1e-9)


def test_linear_cka_is_that_of_gram_matrices() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(40, width, generator=generator) + 3.0 for width in (7, 11))
    centre = np.eye(40) - 1 / 40
    k, m = (centre @ (each.double().numpy() @ each.double().numpy().T) @ centre for each in (x, y))
    expected = np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m))
    assert linear_cka(x, y) == pytest.approx(expected, abs=1e-9)


def test_linear_cka_does_not_see_rotation_scale_or_shift() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 7, generator=generator)
    turn = torch.linalg.qr(torch.randn(7, 7, generator=generator)).Q
    assert linear_cka(x, 3.0 * x @ turn + 5.0) == pytest.approx(1.0, abs=1e-6)
    assert linear_cka(x, torch.ones(40, 3)) != linear_cka(x, torch.ones(40, 3))  # nan: features that never change


def test_differences_in_detection_are_those_of_resampled_scores() -> None:
    generator = torch.Generator().manual_seed(5)
    scores = [
        ({"top": (torch.randn(60, generator=generator) + shift).round(decimals=1)}, {"top": torch.randn(40).sign() / 2})
        for shift in (1.0, 2.0)
    ]
    interval = paired_detections(scores, num_resamples=50)[0, 1]
    whole = [detection(known["top"], others["top"]) for known, others in scores]
    # Draws as vectors of counts, here as samples that occur several times.
    rows = [
        [torch.randint(size, (size,), generator=stream) for _ in range(50)]
        for size, stream in ((60, torch.Generator().manual_seed(0)), (40, torch.Generator().manual_seed(1)))
    ]
    drawn = [
        [detection(known["top"][of_known], others["top"][of_others]) for known, others in scores]
        for of_known, of_others in zip(*rows, strict=True)
    ]
    for name in ("auroc", "fpr95"):
        found = interval[f"ood_{name}_top"]
        differences = [getattr(second, name) - getattr(first, name) for first, second in drawn]
        assert found.estimate == pytest.approx(getattr(whole[1], name) - getattr(whole[0], name), abs=1e-12)
        assert found.low == pytest.approx(min(np.quantile(differences, 0.025), found.estimate), abs=1e-12)
        assert found.high == pytest.approx(max(np.quantile(differences, 0.975), found.estimate), abs=1e-12)
