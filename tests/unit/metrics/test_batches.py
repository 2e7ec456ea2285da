"""Sums and tables of predictions: any split of the samples is the whole."""

import math

import pytest
import torch
import torch.distributed as dist

from maxsup.metrics import ConfusionSums, PredictionSums, PredictionTable, aurc, expected_calibration_error, reliability
from maxsup.metrics.facts import FACTS
from tests.unit.metrics.cases import Case

SUMMED = ("accuracy", "accuracy_top5", "nll", "brier", "ece", "confidence_correct", "confidence_wrong")
NAMES = (*SUMMED, "adaptive_ece", "smooth_ece", "aurc", "excess_aurc", "augrc", "auroc", "fpr95")


def check_numbers(sums: PredictionSums, table: PredictionTable, case: Case) -> None:
    """Both give what the public functions give for the whole set."""
    expected = {name: FACTS[name].function(*case) for name in NAMES}
    computed = sums.compute()
    assert table.compute() == pytest.approx(expected, abs=1e-12, nan_ok=True)
    for name in SUMMED:
        assert computed[name] == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name


def split(case: Case, sizes: list[int]) -> list[Case]:
    return list(zip(case[0].split(sizes), case[1].split(sizes), strict=True))


@pytest.mark.parametrize("sizes", [[400], [1] * 400, [0, 3, 0, 250, 147], [100] * 4])
def test_any_split_into_batches_gives_the_numbers_of_the_whole(predictions: Case, sizes: list[int]) -> None:
    sums, table = PredictionSums(), PredictionTable()
    for part in split(predictions, sizes):
        sums.update(*part)
        table.update(*part)
    check_numbers(sums, table, predictions)
    assert sums.compute()["n"] == len(table) == 400


def test_sums_and_table_say_what_the_functions_say(case: Case) -> None:
    sums, table = PredictionSums(), PredictionTable()
    sums.update(*case)
    table.update(*case)
    check_numbers(sums, table, case)


def test_merged_parts_are_the_whole(predictions: Case) -> None:
    sums, table = PredictionSums(), PredictionTable()
    for part in split(predictions, [10, 300, 90]):
        one, other = PredictionSums(), PredictionTable()
        one.update(*part)
        other.update(*part)
        sums.merge(one)
        table.merge(other)
    whole = PredictionSums()
    whole.update(*predictions)
    assert sums.compute() == pytest.approx(whole.compute(), abs=1e-12)
    check_numbers(sums, table, predictions)
    assert sums.group_accuracy({"all": range(12)}) == pytest.approx(whole.group_accuracy({"all": range(12)}))


def test_sums_draw_the_reliability_diagram_of_the_whole(predictions: Case) -> None:
    sums = PredictionSums()
    for part in split(predictions, [150, 250]):
        sums.update(*part)
    own, expected = sums.reliability(), reliability(*predictions)
    assert torch.equal(own.count, expected.count)
    torch.testing.assert_close(own.accuracy, expected.accuracy, equal_nan=True, rtol=0, atol=1e-12)
    torch.testing.assert_close(own.confidence, expected.confidence, equal_nan=True, rtol=0, atol=1e-12)


def test_nothing_counted_is_nan() -> None:
    numbers = PredictionSums().compute()
    assert (numbers["n"], numbers["missing"]) == (0, 0)
    assert all(math.isnan(numbers[key]) for key in SUMMED)


def test_an_empty_table_has_no_numbers() -> None:
    with pytest.raises(ValueError, match="the table holds no sample yet"):
        PredictionTable().compute()


def test_what_could_not_be_read_is_counted_apart() -> None:
    sums, others = PredictionSums(), PredictionSums()
    sums.add_missing(2)
    others.add_missing(3)
    assert sums.merge(others).compute()["missing"] == 5


def test_a_group_counts_its_classes_alike() -> None:
    sums = PredictionSums()
    sums.update(torch.eye(3)[torch.tensor([0, 0, 0, 1, 2])] * 5, torch.tensor([0, 0, 1, 1, 2]))
    # Class 0: 2 of 2, class 1: 1 of 2, class 2: 1 of 1.
    assert sums.group_accuracy({"many": [0, 1], "low": [2]}) == {"many": 0.75, "low": 1.0}


def test_a_table_ranks_by_another_confidence_in_the_order_samples_came(predictions: Case) -> None:
    table = PredictionTable()
    for part in split(predictions, [10, 300, 90]):
        table.update(*part)
    confidence = predictions[0].max(dim=1).values
    found = table.compute(confidence)
    assert found["aurc"] == pytest.approx(aurc(*predictions, confidence=confidence), abs=1e-12)
    assert found["ece"] == pytest.approx(expected_calibration_error(*predictions), abs=1e-12)


def test_a_process_without_a_batch_takes_part(predictions: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process has counted everything; here the sum over both is played by adding its part."""
    other = PredictionSums()
    other.update(*predictions)
    shapes = []

    def all_reduce(counts: torch.Tensor, op: object = None) -> None:
        if counts.ndim == 0:
            counts.fill_(12)
            return
        shapes.append(tuple(counts.shape))
        counts += {8: other._scalars, 3: other._bins, 4: other._classes}[len(counts)]

    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    sums = PredictionSums()
    sums.sync(torch.device("cpu"))
    assert shapes == [(8,), (3, 15), (4, 12)]
    assert sums.compute() == other.compute()


def test_counts_that_processes_have_shared_are_not_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # The other process counts the same as this one.
    monkeypatch.setattr(dist, "all_reduce", lambda counts, op=None: counts if op else counts.mul_(2))
    sums, once = PredictionSums(), PredictionSums()
    masks, once_masks = ConfusionSums(12), ConfusionSums(12)
    for number, width in ((2, 5), (4, 12)):
        logits, labels = torch.randn(30, width), torch.arange(30) % width
        for each in (sums, once, once):
            each.update(logits, labels)
        for each in (masks, once_masks, once_masks):
            each.update(logits.argmax(1), labels)
        for _ in range(2):
            sums.sync(torch.device("cpu"))
            masks.sync(torch.device("cpu"))
        assert sums.compute() == pytest.approx(once.compute(), rel=1e-12)
        assert sums.compute()["n"] == number * 30
        assert torch.equal(sums._classes, once._classes)
        assert torch.equal(masks.matrix, once_masks.matrix)
