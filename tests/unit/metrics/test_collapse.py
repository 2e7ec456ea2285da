"""Neural collapse against explicit covariance matrices, and in the case that gave it its name."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from maxsup.metrics import neural_collapse
from maxsup.metrics import predictions as module


def by_matrices(rows: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> list[float]:
    """The definitions, with a covariance matrix within, one between, and its pseudo-inverse."""
    features, weights = rows.double().numpy(), weight.double().numpy()
    classes = sorted(set(labels.tolist()))
    members = [features[(labels == k).numpy()] for k in classes]
    means = np.stack([part.mean(axis=0) for part in members])
    centred = means - means.mean(axis=0)
    within = np.mean([np.cov(part.T, bias=True) for part in members], axis=0)
    between = centred.T @ centred / len(classes)
    nc1 = np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / len(classes)
    lengths = np.linalg.norm(centred, axis=1)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in permutations(centred, 2)]
    angles = [abs(cosine + 1 / (len(classes) - 1)) for cosine in cosines]
    own = weights[classes]
    nc3 = np.sum((own / np.linalg.norm(own) - centred / np.linalg.norm(centred)) ** 2)
    nc4 = []
    for part in members:
        predicted = (part @ weights.T + bias.double().numpy()).argmax(axis=1)
        nearest = np.linalg.norm(part[:, None] - means, axis=2).argmin(axis=1)
        nc4.append(np.mean(predicted != np.array(classes)[nearest]))
    return [nc1, lengths.std() / lengths.mean(), np.mean(angles), nc3, np.mean(nc4)]


@pytest.mark.parametrize("width", [3, 8, 40])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_numbers_are_those_of_the_definitions(width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    # Classes of different sizes, one missing; fewer and more dimensions than classes; several blocks.
    monkeypatch.setattr(module, "FEATURE_ELEMENTS", 100)
    labels = torch.randint(7, (150,))
    labels[labels == 4] = 6
    rows = (torch.randn(150, width, dtype=dtype) + 2 * torch.randn(7, width, dtype=dtype)[labels]).to(dtype)
    weight, bias = torch.randn(7, width, dtype=dtype), torch.randn(7, dtype=dtype)
    found = neural_collapse(rows, labels, weight, bias)
    assert list(found) == pytest.approx(by_matrices(rows, labels, weight, bias), rel=1e-6, abs=1e-9)


def test_a_simplex_with_its_own_classifier_is_collapsed() -> None:
    corners = torch.eye(5, dtype=torch.float64) - 0.2
    labels = torch.arange(50) % 5
    found = neural_collapse(corners[labels], labels, weight=3 * corners, bias=torch.zeros(5))
    assert list(found) == pytest.approx([0.0] * 5, abs=1e-12)


def test_a_shift_and_a_scale_of_features_do_not_matter() -> None:
    labels = torch.arange(60) % 4
    rows = torch.randn(60, 6, dtype=torch.float64) + torch.randn(4, 6, dtype=torch.float64)[labels]
    weight = torch.randn(4, 6, dtype=torch.float64)
    before, after = neural_collapse(rows, labels, weight), neural_collapse(7 * rows + 100, labels, weight)
    assert list(after)[:4] == pytest.approx(list(before)[:4], rel=1e-8)


def test_without_a_classifier_the_last_two_are_nan() -> None:
    found = neural_collapse(torch.randn(20, 3), torch.arange(20) % 2)
    assert [math.isnan(value) for value in found] == [False, False, False, True, True]


def test_equal_class_means_leave_nan() -> None:
    found = neural_collapse(torch.ones(6, 3), torch.arange(6) % 2, weight=torch.randn(2, 3))
    assert [math.isnan(value) for value in found] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": torch.zeros(8).long()}, "labels must hold at least two classes; got only class 0"),
        ({"features": torch.randn(8)}, r"features must have shape \(samples, dimensions\)"),
        ({"features": torch.full((8, 3), math.nan)}, "features must be finite; got nan or inf in row 0"),
        ({"weight": torch.randn(2, 4)}, "weight must have a row for each of 2 classes and 3 columns; got shape"),
        ({"weight": torch.randn(1, 3)}, "weight must have a row for each of 2 classes"),
        ({"bias": torch.randn(3)}, r"bias must have shape \(2,\); got shape \(3,\)"),
        ({"weight": None, "bias": torch.randn(2)}, "bias must come with a weight"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change: dict[str, Tensor], sentence: str) -> None:
    good = {"features": torch.randn(8, 3), "labels": torch.arange(8) % 2, "weight": torch.randn(2, 3), "bias": None}
    with pytest.raises(ValueError, match=sentence):
        neural_collapse(**{**good, **change})
