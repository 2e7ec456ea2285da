"""The closed form of class separation against all pairs."""

import math

import pytest
import torch
from torch import Tensor

from maxsup.metrics import SeparationSums, class_separation
from maxsup.metrics import predictions as module
from tests.reference import metrics as loops


@pytest.mark.parametrize("has_self_pairs", [True, False])
def test_the_closed_form_is_the_mean_over_all_pairs(features: tuple[Tensor, Tensor], has_self_pairs: bool) -> None:
    rows, labels = features
    expected = loops.class_separation(rows.tolist(), labels.tolist(), has_self_pairs=has_self_pairs)
    assert list(class_separation(rows, labels, has_self_pairs=has_self_pairs)) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_features_are_summed_in_float64(dtype: torch.dtype) -> None:
    rows, labels = (torch.randn(3000, 24) + 2 * torch.randn(24)).to(dtype), torch.randint(9, (3000,))
    unit = rows.double() / rows.double().norm(dim=1, keepdim=True)
    distance = 1.0 - unit @ unit.T
    member = torch.nn.functional.one_hot(labels).double()
    member /= member.sum(dim=0)
    pairs = member.T @ distance @ member
    found = class_separation(rows, labels)
    assert found.within == pytest.approx(float(pairs.diagonal().mean()), abs=1e-10)
    assert found.total == pytest.approx(float(pairs.mean()), abs=1e-10)


def test_self_pairs_are_a_known_factor() -> None:
    rows, labels = torch.randn(200, 6, dtype=torch.float64), torch.arange(200) % 4
    ours, theirs = (class_separation(rows, labels, has_self_pairs=has).within for has in (True, False))
    assert theirs == pytest.approx(ours * 50 / 49, abs=1e-12)


@pytest.mark.parametrize("sizes", [[61], [1] * 61, [0, 20, 41]])
def test_any_split_into_batches_gives_the_numbers_of_the_whole(
    features: tuple[Tensor, Tensor], sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = class_separation(*features)
    monkeypatch.setattr(module, "FEATURE_ELEMENTS", 15)
    sums = SeparationSums()
    for rows, labels in zip(features[0].split(sizes), features[1].split(sizes), strict=True):
        part = SeparationSums()
        part.update(rows, labels)
        sums.merge(part)
        sums.update(rows[:0], labels[:0])
    assert list(sums.compute()) == pytest.approx(expected, abs=1e-12)


def test_order_scale_and_names_of_classes_do_not_matter(features: tuple[Tensor, Tensor]) -> None:
    rows, labels = features
    order = torch.randperm(len(labels))
    scaled = rows * torch.rand(len(rows), 1, dtype=torch.float64).add(0.1)
    found = class_separation(scaled[order], (30 - 3 * labels)[order])
    assert list(found) == pytest.approx(class_separation(rows, labels), abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "labels", "has_self_pairs", "expected"),
    [
        (torch.tensor([[0.1, 0.7, 0.3]]).repeat(9, 1), torch.arange(9) % 3, True, [0.0, 0.0, math.nan]),
        (torch.eye(4)[torch.arange(12) % 4], torch.arange(12) % 4, True, [0.0, 0.75, 1.0]),
        (torch.eye(3), torch.arange(3), True, [0.0, 2 / 3, 1.0]),
        (torch.eye(3), torch.arange(3), False, [math.nan, 1.0, math.nan]),
        (torch.zeros(4, 3), torch.tensor([0, 0, 1, 1]), True, [1.0, 1.0, 0.0]),
    ],
    ids=["all alike", "on the axes", "one sample each", "one sample each, without self-pairs", "zeros"],
)
def test_known_cases(rows: Tensor, labels: Tensor, has_self_pairs: bool, expected: list[float]) -> None:
    found = class_separation(rows, labels, has_self_pairs=has_self_pairs)
    assert list(found) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_one_class_has_an_r_squared_of_zero() -> None:
    found = class_separation(torch.randn(20, 3, dtype=torch.float64), torch.full((20,), 5))
    assert found.within == pytest.approx(found.total, abs=1e-12)
    assert found.r_squared == pytest.approx(0.0, abs=1e-12)


def test_nothing_counted_is_nan() -> None:
    assert all(math.isnan(value) for value in SeparationSums().compute())


@pytest.mark.parametrize(
    ("rows", "labels", "sentence"),
    [
        (torch.randn(4), torch.zeros(4).long(), r"features must have shape \(samples, dimensions\); got shape \(4,\)"),
        (torch.ones(4, 2).long(), torch.zeros(4).long(), "features must be floating-point numbers; got torch.int64"),
        (torch.randn(0, 2), torch.zeros(0).long(), "features must hold at least one sample"),
        (torch.randn(4, 2), torch.zeros(3).long(), "labels must have one entry per sample"),
        (torch.randn(4, 2), torch.tensor([0, -1, 0, 0]), "labels must be class indices of at least 0; got -1 in row 1"),
        (torch.tensor([[1.0], [math.nan]]), torch.tensor([1, 0]), "features must be finite; got nan or inf in row 1"),
        (torch.tensor([[1.0], [math.inf]]), torch.tensor([1, 0]), "features must be finite; got nan or inf in row 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(rows: Tensor, labels: Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        class_separation(rows, labels)


def test_features_of_another_width_are_refused() -> None:
    sums = SeparationSums()
    sums.update(torch.randn(3, 4), torch.arange(3))
    with pytest.raises(ValueError, match="features must keep their width of 4; got 5"):
        sums.update(torch.randn(3, 5), torch.arange(3))
