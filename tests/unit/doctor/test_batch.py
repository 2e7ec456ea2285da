"""The doctor finds what is wrong with logits and shapes, and says nothing about healthy batches."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from maxsup.doctor import examine_accumulation, examine_batch
from maxsup.losses import MaxSupLoss
from tests.unit.doctor.cases import made_labels, made_logits, names, only


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_probabilities_in_place_of_logits_are_found(dtype: torch.dtype) -> None:
    found = examine_batch(made_logits().softmax(dim=1).to(dtype), made_labels())
    assert names(found) == [("softmax_before_loss", "error")]


def test_log_probabilities_are_only_a_note() -> None:
    found = examine_batch(made_logits().log_softmax(dim=1), made_labels())
    assert names(found) == [("log_softmax_before_loss", "note")]


def test_masked_classes_are_a_note_and_an_error_under_the_smoothing_of_torch() -> None:
    logits = made_logits()
    logits[:, 9] = -math.inf
    assert names(examine_batch(logits, made_labels())) == [("masked_classes", "note")]
    assert names(examine_batch(logits, made_labels(), criterion=MaxSupLoss())) == [("masked_classes", "note")]
    torch_loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    finding = only(examine_batch(logits, made_labels(), criterion=torch_loss))
    assert finding.level == "error"
    assert "8 of 80 logits are -inf" in finding.sentence
    assert torch_loss(logits, made_labels()) == math.inf


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, torch.finfo(torch.float32).min),
        (torch.float16, torch.finfo(torch.float16).min),
        (torch.bfloat16, -1e4),
        (torch.float32, -1e9),
    ],
)
def test_classes_masked_with_a_number_are_found_where_a_mean_of_logits_matters(
    dtype: torch.dtype, value: float
) -> None:
    logits = made_logits().to(dtype)
    logits[:, 9] = value
    assert names(examine_batch(logits, made_labels())) == [("finite_masks", "warning")]
    finding = only(examine_batch(logits, made_labels(), criterion=MaxSupLoss()))
    assert (finding.topic, finding.level) == ("finite_masks", "error")
    assert "8 of 80 logits are -1000 or less" in finding.sentence
    assert "Mask with -inf" in finding.advice
    assert examine_batch(logits, made_labels(), criterion=nn.CrossEntropyLoss()) == []


def test_the_mean_that_a_masking_number_spoils_is_told() -> None:
    logits = made_logits()
    logits[:, 9] = torch.finfo(torch.float32).min
    finding = only(examine_batch(logits, made_labels()))
    assert "(lowest: -3.4e+38)" in finding.sentence
    assert "falls to -3.4e+37." in finding.sentence
    assert logits.mean(dim=1).min() < -3.4e37


def test_a_target_on_a_masked_class_is_found() -> None:
    logits = made_logits()
    logits[:, 3] = -math.inf
    found = examine_batch(logits, made_labels())
    assert names(found) == [("masked_target", "error"), ("masked_classes", "note")]
    assert "1 of 8 samples" in found[0].sentence
    assert "sample 3" in found[0].sentence


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_logits_are_found_with_their_place(value: float) -> None:
    logits = made_logits()
    logits[5, 2] = value
    finding = only(examine_batch(logits, made_labels()))
    assert (finding.topic, finding.level) == ("non_finite_logits", "error")
    assert f"1 of 80 logits are nan or inf (first: {value} in sample 5)" in finding.sentence


def test_what_ignored_rows_hold_does_not_matter() -> None:
    logits, labels = made_logits(), made_labels()
    logits[5] = math.nan
    labels[5] = -100
    assert examine_batch(logits, labels) == []


@pytest.mark.parametrize(
    ("logits", "targets", "name", "fix"),
    [
        (torch.randn(4, 6, 10), torch.zeros(4, 6, dtype=torch.long), "target_shape", "logits.movedim(-1, 1)"),
        (torch.randn(4, 10), torch.zeros(4, 1, dtype=torch.long), "target_shape", "targets.squeeze(1)"),
        (torch.randn(4, 10), torch.zeros(5, dtype=torch.long), "target_shape", "the same samples"),
        (torch.randn(4, 10), torch.arange(4.0), "label_dtype", "targets.long()"),
        (torch.randn(4, 10), torch.eye(10)[:4].long(), "label_dtype", "targets.float()"),
        (torch.ones(4, 10, dtype=torch.long), torch.arange(4), "logits_dtype", "raw outputs"),
        (torch.zeros(3, 0), torch.zeros(3, dtype=torch.long), "logits_dtype", "raw outputs"),
        (torch.randn(4, 10), 2 * torch.eye(10)[:4], "target_sum", "Divide each row by its sum"),
        (torch.randn(4, 10), -torch.eye(10)[:4], "target_range", "how targets are made"),
    ],
)
def test_targets_that_do_not_fit_are_found(logits: Tensor, targets: Tensor, name: str, fix: str) -> None:
    finding = only(examine_batch(logits, targets))
    assert (finding.topic, finding.level) == (name, "error")
    assert fix in finding.advice


def test_classes_on_the_wrong_axis_are_found_by_their_number() -> None:
    found = examine_batch(torch.randn(4, 6, 10), torch.zeros(4, 10, dtype=torch.long), num_classes=10)
    assert names(found) == [("num_classes", "error")]
    assert "6 classes on axis 1, not 10" in found[0].sentence


def test_micro_batches_of_unequal_size_are_found() -> None:
    assert examine_accumulation([torch.arange(8), torch.arange(8)]) == []
    finding = only(examine_accumulation([torch.arange(8), torch.tensor([1, 2, -100, -100])]))
    assert finding.topic == "accumulation_denominator"
    assert "2 to 8 targets" in finding.sentence
    assert "weighs 4 times" in finding.sentence
    assert "num_items=10" in finding.advice


sizes = st.tuples(st.integers(1, 6), st.integers(2, 7))


@st.composite
def healthy_logits(draw: st.DrawFn) -> Tensor:
    num_rows, num_classes = draw(sizes)
    scores = st.floats(-30, 30, width=32)
    values = draw(st.lists(st.lists(scores, min_size=num_classes, max_size=num_classes), min_size=num_rows))
    logits = torch.tensor(values[:num_rows])
    # Rows that are distributions, or their logarithms, cannot be told from the outputs of a softmax.
    is_certain = (logits >= 0).all() & ((logits.sum(dim=1) - 1).abs() < 1e-2).all()
    is_log = (logits <= 0).all() & (logits.logsumexp(dim=1).abs() < 1e-2).all()
    assume(not bool(is_certain) and not bool(is_log))
    return logits


@given(healthy_logits(), st.data())
def test_no_finding_for_labels_in_range(logits: Tensor, data: st.DataObject) -> None:
    label = st.one_of(st.integers(0, logits.shape[1] - 1), st.just(-100))
    labels = data.draw(st.lists(label, min_size=len(logits), max_size=len(logits)))
    assume(any(label != -100 for label in labels))
    assert examine_batch(logits, torch.tensor(labels), num_classes=logits.shape[1], criterion=MaxSupLoss()) == []


@given(healthy_logits(), st.data())
def test_no_finding_for_one_hot_and_mixed_labels(logits: Tensor, data: st.DataObject) -> None:
    label = st.integers(0, logits.shape[1] - 1)
    first, second = (
        torch.tensor(data.draw(st.lists(label, min_size=len(logits), max_size=len(logits)))) for _ in range(2)
    )
    share = data.draw(st.floats(0, 1))
    one_hot = torch.eye(logits.shape[1])
    assert examine_batch(logits, share * one_hot[first] + (1 - share) * one_hot[second], criterion=MaxSupLoss()) == []


@pytest.mark.parametrize("shape", [(32, 1000), (5,), (4, 7, 6), (2, 3, 8, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_finding_for_random_logits_of_any_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    size = shape[0] if len(shape) == 1 else shape[1]
    samples = () if len(shape) == 1 else (shape[0], *shape[2:])
    labels = torch.randint(size, samples)
    for scale in (0.0, 1e-3, 1.0, 20.0):
        assert examine_batch((scale * torch.randn(shape)).to(dtype), labels, num_classes=size) == []


def test_of_mixed_labels_the_rows_of_micro_batches_are_compared() -> None:
    [finding] = examine_accumulation([torch.eye(5), torch.eye(5)[:4]])
    assert "hold 4 to 5 targets" in finding.sentence
    assert "num_items=9," in finding.advice
