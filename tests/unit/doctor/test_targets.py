"""The doctor finds what is wrong with targets: smoothing, labels that are no class, batches that count nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from maxsup.doctor import examine_batch
from maxsup.losses import MaxSupLoss
from tests.unit.doctor.cases import made_labels, made_logits, names, only, smoothed


@pytest.mark.parametrize(
    ("floor", "num_classes", "words"),
    [
        (0.01, 10, "0.01 with K=10, which is alpha=0.1 over all K classes"),
        (0.1 / 9, 10, "which is 0.1 over the K - 1 other classes, the same as alpha=0.1111 over all K"),
        (0.1 / 1000, 1000, "0.0001 with K=1000, which is alpha=0.1 over all K classes"),
        (0.1 / 999, 1000, "which is 0.1 over the K - 1 other classes, the same as alpha=0.1001 over all K"),
        (0.0123, 10, "alpha=0.123 over all K classes, or 0.1107 over the K - 1 others"),
    ],
)
def test_smoothed_targets_are_found_with_their_strength(floor: float, num_classes: int, words: str) -> None:
    labels = made_labels(16, num_classes)
    finding = only(examine_batch(made_logits(16, num_classes), smoothed(labels, num_classes, floor)))
    assert (finding.topic, finding.level) == ("smoothed_targets", "warning")
    assert words in finding.sentence


def test_smoothing_is_seen_through_mixed_labels() -> None:
    targets = smoothed(made_labels(), 10, 0.02)
    finding = only(examine_batch(made_logits(), 0.3 * targets + 0.7 * targets.flip(0)))
    assert "alpha=0.2 over all K" in finding.sentence


@pytest.mark.parametrize(
    "criterion", [MaxSupLoss(alpha=0.1), nn.CrossEntropyLoss(label_smoothing=0.1), "MaxSupLoss(alpha=0.1)"]
)
def test_a_loss_that_smooths_smoothed_targets_is_an_error(criterion: Any) -> None:
    finding = only(examine_batch(made_logits(), smoothed(made_labels(), 10, 0.01), criterion=criterion))
    assert (finding.topic, finding.level) == ("double_smoothing", "error")
    assert "alpha=0.1 over all K" in finding.sentence


def test_only_the_other_convention_is_noted_under_plain_cross_entropy() -> None:
    plain = nn.CrossEntropyLoss()
    assert examine_batch(made_logits(), smoothed(made_labels(), 10, 0.01), criterion=plain) == []
    finding = only(examine_batch(made_logits(), smoothed(made_labels(), 10, 0.1 / 9), criterion=plain))
    assert (finding.topic, finding.level) == ("k_minus_1_convention", "note")
    assert "spreads 0.1 over the K - 1 other classes, which equals alpha=0.111111 over all K=10" in finding.sentence


def test_the_targets_of_a_teacher_are_only_a_note() -> None:
    assert names(examine_batch(made_logits(), made_logits().softmax(dim=1))) == [("soft_targets", "note")]


def test_a_batch_that_counts_nothing_is_found() -> None:
    labels = torch.full((8,), -100)
    assert names(examine_batch(made_logits(), labels)) == [("all_ignored", "error")]
    for criterion in (MaxSupLoss(empty="zero"), "MaxSupLoss(empty='zero')"):
        assert examine_batch(made_logits(), labels, criterion=criterion) == []
    assert names(examine_batch(made_logits(), torch.zeros(8, 10))) == [("all_ignored", "warning")]


@pytest.mark.parametrize(("stray", "ignore_index"), [(255, -100), (-100, 255), (-1, -100)])
def test_the_wrong_ignore_index_is_named(stray: int, ignore_index: int) -> None:
    labels = made_labels()
    labels[2:4] = stray
    finding = only(examine_batch(made_logits(), labels, ignore_index=ignore_index))
    assert finding.topic == "ignore_index"
    assert finding.sentence.startswith(f"2 of 8 targets are {stray},")
    assert f"ignore_index={stray}" in finding.advice
    assert examine_batch(made_logits(), labels, ignore_index=stray) == []
    assert examine_batch(made_logits(), labels, criterion=MaxSupLoss(ignore_index=stray)) == []


def test_labels_outside_the_classes_are_found() -> None:
    finding = only(examine_batch(made_logits(num_classes=5), torch.tensor([0, 1, 2, 3, 4, 5, 6, 7])))
    assert finding.topic == "label_range"
    assert "3 of 8 targets lie outside the classes 0 to 4 (first: 5 in sample 5)" in finding.sentence


def test_labels_that_count_from_one_are_recognised() -> None:
    finding = only(examine_batch(made_logits(10), made_labels(10) + 1))
    assert finding.advice == "Labels seem to count from 1: use targets - 1."


@pytest.mark.parametrize(
    ("weight", "words"),
    [([1.0] * 9, "shape (9,) for 10 classes"), ([-1.0] * 10, "smallest is -1"), ([0.0] * 10, "has weight 0")],
)
def test_class_weights_that_cannot_work_are_found(weight: list[float], words: str) -> None:
    finding = only(examine_batch(made_logits(), made_labels(), weight=torch.tensor(weight)))
    assert finding.topic == "class_weights"
    assert words in finding.sentence


def test_probability_targets_have_no_index_to_ignore() -> None:
    assert names(examine_batch(made_logits(), torch.eye(10)[:8], ignore_index=255)) == [("ignore_index", "error")]


def test_class_weights_in_words_are_compared_with_the_logits() -> None:
    [finding] = examine_batch(torch.randn(4, 3), torch.arange(4) % 3, criterion="MaxSupLoss(weight=[1.0, 2.0])")
    assert finding.topic == "class_weights"
