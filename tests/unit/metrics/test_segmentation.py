"""One confusion matrix over a whole set, with pixels that count nothing."""

import math

import pytest
import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

from maxsup.metrics import ConfusionSums

IGNORED = 255


def random_masks(num_classes: int, num_images: int = 6, side: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions and labels, a tenth of which are ignored."""
    labels = torch.randint(0, num_classes, (num_images, side, side))
    predictions = torch.where(torch.rand(labels.shape) < 0.6, labels, torch.randint(0, num_classes, labels.shape))
    return predictions, labels.masked_fill(torch.rand(labels.shape) < 0.1, IGNORED)


def counted(num_classes: int, predictions: torch.Tensor, labels: torch.Tensor) -> ConfusionSums:
    sums = ConfusionSums(num_classes)
    sums.update(predictions, labels)
    return sums


@pytest.mark.parametrize("num_classes", [2, 7, 150])
def test_numbers_are_those_of_torchmetrics(num_classes: int) -> None:
    predictions, labels = random_masks(num_classes)
    found = counted(num_classes, predictions, labels).compute()
    options = {"num_classes": num_classes, "ignore_index": IGNORED}
    expected = {
        "miou": MulticlassJaccardIndex(**options)(predictions, labels),
        "accuracy": MulticlassAccuracy(average="micro", **options)(predictions, labels),
        "class_accuracy": MulticlassAccuracy(average="macro", **options)(predictions, labels),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value.item(), abs=1e-6), name


def test_a_case_counted_by_hand() -> None:
    # Class 0: 3 pixels, 2 found, 1 false alarm; class 1: 2 pixels, 1 found, 1 false alarm; class 2 nowhere.
    labels = torch.tensor([[0, 0, 0, 1, 1, IGNORED]])
    predictions = torch.tensor([[0, 0, 1, 1, 0, 2]])
    sums = counted(3, predictions, labels)
    found = sums.compute()
    assert sums.class_iou()[:2].tolist() == [2 / 4, 1 / 3]
    assert math.isnan(sums.class_iou()[2])
    assert found == pytest.approx(
        {"accuracy": 3 / 5, "class_accuracy": (2 / 3 + 1 / 2) / 2, "miou": (1 / 2 + 1 / 3) / 2}
    )
    assert sums.majority_miou() == pytest.approx((3 / 5) / 2)


def test_the_majority_number_is_that_of_predicting_the_commonest_class_everywhere() -> None:
    _, labels = random_masks(5)
    commonest = int(torch.bincount(labels[labels != IGNORED]).argmax())
    expected = counted(5, torch.full_like(labels, commonest), labels).compute()["miou"]
    assert counted(5, labels.where(labels != IGNORED, 0), labels).majority_miou() == pytest.approx(expected, abs=1e-12)


def test_a_false_alarm_on_an_absent_class_counts_against_the_mean() -> None:
    labels = torch.zeros(1, 10, dtype=torch.int64)
    predictions = labels.clone()
    predictions[0, 0] = 1
    assert counted(2, predictions, labels).compute()["miou"] == pytest.approx(0.9 / 2)


def test_the_mean_is_over_the_set_and_not_over_images() -> None:
    predictions, labels = random_masks(4)
    whole = counted(4, predictions, labels)
    parts = ConfusionSums(4)
    for each in range(len(labels)):
        parts.merge(counted(4, predictions[each : each + 1], labels[each : each + 1]))
    single = [counted(4, predictions[[each]], labels[[each]]).compute()["miou"] for each in range(len(labels))]
    assert parts.compute() == whole.compute()
    assert sum(single) / len(single) != pytest.approx(whole.compute()["miou"], abs=1e-6)


def test_predictions_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"predictions must have the shape of labels; got \(1, 4, 4\)"):
        counted(2, torch.zeros(1, 4, 4, dtype=torch.int64), torch.zeros(1, 8, 8, dtype=torch.int64))


def test_masks_without_a_label_have_no_numbers() -> None:
    sums = ConfusionSums(3)
    sums.update(torch.zeros(1, 4, dtype=torch.int64), torch.full((1, 4), 255))
    assert all(math.isnan(value) for value in [*sums.compute().values(), sums.majority_miou()])


def test_counts_of_another_number_of_classes_are_not_merged() -> None:
    sums, other = ConfusionSums(3), counted(1, torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(ValueError, match="other must have 3 classes too; got 1"):
        sums.merge(other)
    assert sums.matrix.sum() == 0
