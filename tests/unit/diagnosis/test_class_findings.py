"""The verdict on single classes, on predictions made by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from maxsup.core.finding import Finding
from maxsup.diagnosis.class_findings import class_errors, class_numbers, classes_finding, confusion_rows
from maxsup.metrics.predictions import predictions_of


def outputs(confusions: dict[tuple[int, int], int], num_classes: int, size: int) -> tuple[Tensor, Tensor]:
    """Logits of ``size`` samples a class, all right but for so many of one class that are taken for another."""
    labels = torch.arange(num_classes).repeat_interleave(size)
    predicted = labels.clone()
    for (label, wrong), count in confusions.items():
        first = int((predicted[label * size : (label + 1) * size] == label).nonzero()[0]) + label * size
        predicted[first : first + count] = wrong
    return 5.0 * torch.eye(num_classes)[predicted], labels


def finding(confusions: dict[tuple[int, int], int], num_classes: int = 12, size: int = 50) -> Finding:
    logits, labels = outputs(confusions, num_classes, size)
    predictions = predictions_of(logits, labels)
    errors = class_errors(predictions, tuple(f"n{index}" for index in range(num_classes)), num_classes)
    return classes_finding(errors, float(predictions.is_correct.double().mean()), size)


def test_one_class_of_twelve_that_is_right_in_12_percent_is_damage() -> None:
    found = finding({(5, 7): 44})
    assert found.level == "error"
    assert found.value == pytest.approx(0.12)
    assert found.threshold == pytest.approx((600 - 44) / 600 - 0.1)
    assert "'n5' taken for 'n7', in 88.0% of 50" in found.sentence


@pytest.mark.parametrize(
    ("confusions", "level"),
    [
        ({}, "good"),
        ({(0, 1): 3}, "good"),  # 94 %, as chance has it
        ({(3, 1): 9, (3, 2): 9, (3, 4): 9}, "warning"),  # 46 %, and nothing it is taken for most
    ],
)
def test_the_bound_of_the_worst_class_decides(confusions: dict[tuple[int, int], int], level: str) -> None:
    assert finding(confusions).level == level


def test_two_classes_that_are_taken_for_each_other_are_reported_though_no_class_is_bad() -> None:
    confusions = {(a, b): 90 for a, b in ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4))}
    found = finding(confusions, num_classes=6, size=200)
    assert found.level == "warning"
    assert "side by side" in found.advice


def test_a_class_of_one_sample_hides_no_class_that_is_surely_bad() -> None:
    logits, labels = outputs({(0, 1): 45}, 4, 50)
    logits, labels = torch.cat([logits, 5.0 * torch.eye(4)[[0]]]), torch.cat([labels, torch.tensor([3])])
    keep = labels != 3
    keep[-1] = True
    errors = class_errors(predictions_of(logits[keep], labels[keep]), (), 4)
    assert errors.scores.worst == 3
    assert errors.worst == 0


def test_few_samples_a_class_decide_nothing() -> None:
    assert finding({(0, 1): 3}, num_classes=100, size=4).level == "unknown"


def test_numbers_and_rows_are_those_of_the_predictions() -> None:
    predictions = predictions_of(*outputs({(5, 7): 44, (1, 0): 5}, 12, 50))
    errors = class_errors(predictions, (), 12)
    numbers = class_numbers(errors)
    assert numbers["worst_class_accuracy"][0] == pytest.approx(0.12)
    assert numbers["top_confusion"][0] == pytest.approx(0.88)
    assert [(row["label"], row["predicted"], row["count"]) for row in confusion_rows(errors)] == [
        ("class 5", "class 7", 44),
        ("class 1", "class 0", 5),
    ]
