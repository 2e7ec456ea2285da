"""Calibration errors against torchmetrics and plain loops."""

import pytest
import torch

from maxsup.metrics import (
    ClasswiseSums,
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    reliability,
)
from tests.reference import metrics as loops
from tests.unit.metrics.cases import Case

ERRORS = {
    "equal width": (expected_calibration_error, loops.expected_calibration_error),
    "equal mass": (adaptive_calibration_error, loops.adaptive_calibration_error),
    "classwise": (classwise_calibration_error, loops.classwise_calibration_error),
}


@pytest.mark.parametrize("num_bins", [1, 2, 15, 100])
@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_those_of_the_loops(case: Case, kind: str, num_bins: int) -> None:
    own, reference = ERRORS[kind]
    expected = reference(case[0].tolist(), case[1].tolist(), num_bins)
    assert own(*case, num_bins=num_bins) == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("num_bins", [10, 15])
def test_the_error_of_equal_widths_is_that_of_torchmetrics(predictions: Case, num_bins: int) -> None:
    from torchmetrics.classification import MulticlassCalibrationError

    logits, labels = predictions
    theirs = MulticlassCalibrationError(12, n_bins=num_bins, norm="l1")(logits.softmax(dim=1), labels)
    assert expected_calibration_error(logits, labels, num_bins) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.slow
def test_the_classwise_error_is_the_mean_of_that_of_torchmetrics_over_classes(predictions: Case) -> None:
    from torchmetrics.classification import BinaryCalibrationError

    logits, labels = predictions
    probs = logits.softmax(dim=1)
    theirs = [float(BinaryCalibrationError(n_bins=15)(probs[:, k], (labels == k).long())) for k in range(12)]
    assert classwise_calibration_error(logits, labels) == pytest.approx(sum(theirs) / 12, abs=1e-6)


def test_a_confidence_of_one_is_in_the_last_bin() -> None:
    # In float32 the softmax of a gap of 20 is exactly 1.
    logits = torch.tensor([[20.0, 0.0]] * 4)
    assert float(logits.softmax(dim=1).max()) == 1.0
    found = reliability(100 * logits, torch.tensor([0, 0, 0, 1]))
    assert found.count.tolist() == [0] * 14 + [4]
    assert (float(found.accuracy[-1]), float(found.confidence[-1])) == (0.75, 1.0)


def test_an_edge_belongs_to_the_bin_above_it() -> None:
    # Confidences of exactly 1/2 and 1/4, with edges at 1/4, 1/2 and 3/4.
    halves = reliability(torch.zeros(3, 2), torch.tensor([0, 0, 1]), num_bins=4)
    quarters = reliability(torch.zeros(3, 4), torch.tensor([0, 0, 1]), num_bins=4)
    assert halves.count.tolist() == [0, 0, 3, 0]
    assert quarters.count.tolist() == [0, 3, 0, 0]


def test_a_reliability_diagram_adds_up_to_the_error(case: Case) -> None:
    found = reliability(*case)
    is_full = found.count > 0
    gaps = (found.accuracy - found.confidence).abs()[is_full] * found.count[is_full]
    assert float(gaps.sum()) / len(case[1]) == pytest.approx(expected_calibration_error(*case), abs=1e-12)
    assert int(found.count.sum()) == len(case[1])
    assert found.edges.tolist() == [index / 15 for index in range(16)]
    assert found.accuracy[~is_full].isnan().all()


def test_shuffled_samples_have_the_same_errors() -> None:
    # Tied samples, right and wrong: an order-dependent split of the bins would show.
    logits = torch.tensor([[1.0, 0.0]] * 7 + [[2.0, 0.0]] * 6)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1])
    expected = adaptive_calibration_error(logits, labels, num_bins=4)
    for _ in range(5):
        order = torch.randperm(13)
        found = adaptive_calibration_error(logits[order], labels[order], num_bins=4)
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("batch_size", [1, 7, 400])
def test_the_classwise_error_of_parts_is_that_of_the_whole(predictions: Case, batch_size: int) -> None:
    logits, labels = predictions
    sums = [ClasswiseSums(), ClasswiseSums()]
    for index, part in enumerate(zip(logits.split(batch_size), labels.split(batch_size), strict=True)):
        sums[index % 2].update(*part)
    assert sums[0].merge(sums[1]).compute() == pytest.approx(classwise_calibration_error(*predictions), abs=1e-12)


def test_an_empty_one_merges_and_has_no_error(predictions: Case) -> None:
    sums = ClasswiseSums()
    assert str(sums.compute()) == "nan"
    sums.update(*predictions)
    assert ClasswiseSums().merge(sums).merge(ClasswiseSums()).compute() == classwise_calibration_error(*predictions)


def test_sums_of_other_bins_or_classes_do_not_merge() -> None:
    sums = ClasswiseSums(10)
    sums.update(torch.zeros(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="num_bins must be the same in both; got 10 and 15"):
        sums.merge(ClasswiseSums())
    with pytest.raises(ValueError, match="logits must keep their 3 classes; got 4"):
        sums.update(torch.zeros(2, 4), torch.tensor([0, 1]))


@pytest.mark.parametrize("num_bins", [0, -3, 1.5, True])
@pytest.mark.parametrize("metric", [*(own for own, _ in ERRORS.values()), reliability])
def test_a_number_of_bins_that_is_none_is_refused(predictions: Case, metric: object, num_bins: object) -> None:
    with pytest.raises(ValueError, match="num_bins must be an integer of at least 1; got"):
        metric(*predictions, num_bins=num_bins)
