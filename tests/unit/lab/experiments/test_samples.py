"""Differences of classes and images by hand."""

import pytest
import torch

from maxsup.diagnosis.outputs import Outputs
from maxsup.lab.experiments.samples import class_differences, disagreements, label_errors

LABELS = torch.arange(12) % 3


def predicting(classes: list[int]) -> Outputs:
    return Outputs(5.0 * torch.eye(3)[torch.tensor(classes)], LABELS, indices=torch.arange(12) + 100)


RIGHT = LABELS.tolist()
# Images 0 and 3, both of class 0, are taken for class 1 by label smoothing in every seed, image 6 in half of them.
WRONG = [1 if row in (0, 3) else label for row, label in enumerate(RIGHT)]
MORE = [1 if row in (0, 3, 6) else label for row, label in enumerate(RIGHT)]
OUTPUTS = {
    "ls": {seed: predicting(MORE if seed % 2 else WRONG) for seed in range(6)},
    "maxsup": {seed: predicting(RIGHT) for seed in range(6)},
}


def test_differences_of_classes_are_paired_over_the_seeds() -> None:
    rows = {(row["class"], row["number"]): row for row in class_differences(OUTPUTS, "ls")}
    assert len(rows) == 6
    # Class 0 has four images: 2 wrong in three seeds, 3 in the others.
    assert rows["class 0", "accuracy"]["difference"] == pytest.approx((0.5 + 0.75) / 2)
    assert rows["class 0", "accuracy"]["is_conclusive"]
    assert rows["class 0", "accuracy"]["p"] == 2 / 64
    assert rows["class 0", "accuracy"]["adjusted_p"] == 6 / 64
    assert rows["class 1", "accuracy"]["difference"] == 0.0
    assert rows["class 0", "confidence"]["difference"] == pytest.approx(0.0)


def test_images_count_on_which_two_losses_differ_in_every_seed() -> None:
    found = disagreements(OUTPUTS, "maxsup", "ls")
    assert [row["index"] for row in found] == [100, 103]
    assert all((row["num_right"], row["num_right_other"]) == (6, 0) for row in found)
    assert found[0]["predicted_other"] == [1] * 6


def test_a_run_that_is_missing_leaves_the_other_pairs() -> None:
    fewer = {**OUTPUTS, "maxsup": {seed: OUTPUTS["maxsup"][seed] for seed in (1, 3)}}
    assert [row["index"] for row in disagreements(fewer, "maxsup", "ls")] == [100, 103, 106]
    assert class_differences(fewer, "ls")[0]["num_pairs"] == 2
    assert disagreements({**OUTPUTS, "maxsup": {}}, "maxsup", "ls") == []


def test_a_label_that_all_runs_contradict_is_likely_wrong() -> None:
    other = {loss: {0: predicting([2, *RIGHT[1:]])} for loss in ("ls", "maxsup")}
    assert [(row["index"], row["label"], row["suggested"]) for row in label_errors(other)] == [(100, 0, 2)]


def test_a_loss_that_is_not_compared_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'maxsup'"):
        disagreements(OUTPUTS, "maxsub", "ls")
