"""Ranks of features against NumPy's singular values."""

import math

import numpy as np
import pytest
import torch

from maxsup.metrics import SpectrumSums, feature_rank

Features = tuple[torch.Tensor, torch.Tensor]


def entropy_rank(values: np.ndarray, floor: float = 0.0) -> float:
    shares = values / values.sum() + floor
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def expected(features: torch.Tensor, labels: torch.Tensor) -> list[float]:
    rows, classes = features.double().numpy(), labels.numpy()
    inner = rows.copy()
    for label in np.unique(classes):
        inner[classes == label] -= rows[classes == label].mean(axis=0)
    spectra = [np.linalg.svd(each, compute_uv=False) for each in (rows - rows.mean(axis=0), inner)]
    ranks = [entropy_rank(each**2) for each in spectra]
    ratios = [float((each**2).sum() ** 2 / (each**4).sum()) for each in spectra]
    rankme = [entropy_rank(np.linalg.svd(each, compute_uv=False), 1e-7) for each in (rows, inner)]
    return [*ranks, *ratios, *rankme]


def test_ranks_are_those_of_numpy(features: Features) -> None:
    assert list(feature_rank(*features)) == pytest.approx(expected(*features), rel=1e-8)


@pytest.mark.parametrize("rank", [1, 3])
def test_features_in_a_subspace_fill_no_more_than_it(rank: int) -> None:
    features = torch.randn(200, rank, dtype=torch.float64) @ torch.randn(rank, 20, dtype=torch.float64)
    found = feature_rank(features, torch.arange(200) % 4)
    assert max(found) < rank + 0.01
    assert list(found) == pytest.approx(expected(features, torch.arange(200) % 4), rel=1e-4)


def test_a_single_class_fills_within_what_it_fills_in_all(features: Features) -> None:
    found = feature_rank(features[0], torch.zeros(61, dtype=torch.int64))
    assert found.effective_rank_within == pytest.approx(found.effective_rank)
    assert found.participation_ratio_within == pytest.approx(found.participation_ratio)


def test_equal_features_have_no_rank_and_collapsed_classes_none_within() -> None:
    same = feature_rank(torch.ones(6, 4), torch.arange(6) % 2)
    assert math.isnan(same.effective_rank)
    assert same.rankme == pytest.approx(1.0, abs=1e-4)
    collapsed = feature_rank(torch.eye(3)[torch.arange(9) % 3], torch.arange(9) % 3)
    assert math.isnan(collapsed.participation_ratio_within)
    assert collapsed.effective_rank == pytest.approx(2.0)


def test_batches_in_any_split_give_the_ranks_of_all(features: Features) -> None:
    parts = [SpectrumSums() for _ in range(3)]
    for part, rows, labels in zip(parts, features[0].split(21), features[1].split(21), strict=True):
        part.update(rows, labels)
    merged = SpectrumSums().merge(parts[2]).merge(parts[0]).merge(parts[1])
    assert list(merged.compute()) == pytest.approx(list(feature_rank(*features)), rel=1e-10)


def test_a_feature_that_is_no_number_is_refused_with_its_row(features: Features) -> None:
    features[0][40, 2] = torch.nan
    with pytest.raises(ValueError, match="in row 40"):
        feature_rank(*features)


def test_batches_of_another_width_are_refused() -> None:
    sums = SpectrumSums()
    sums.update(torch.randn(4, 3), torch.arange(4))
    with pytest.raises(ValueError, match="features must keep their width of 3; got 5"):
        sums.update(torch.randn(4, 5), torch.arange(4))
