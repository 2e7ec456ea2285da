from pathlib import Path

import numpy as np
import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.diagnosis.outputs import Outputs, checked_outputs
from tests.refusals import refused

LOGITS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
LABELS = np.arange(12) % 3
FEATURES = np.random.default_rng(1).normal(size=(12, 4))


@pytest.mark.parametrize(
    ("logits", "labels", "sentence"),
    [
        (LOGITS, np.eye(3)[LABELS], r"got one-hot rows, \(12, 3\). Take their argmax\(axis=1\)"),
        (LOGITS, 0.9 * np.eye(3)[LABELS] + 0.05, r"got a row per sample, \(12, 3\). Take their argmax\(axis=1\)"),
        (LOGITS.T, LABELS, r"a row for each of the 12 labels; got \(3, 12\), .* Transpose them: logits.T."),
        (LABELS, LOGITS, r"got \(12,\) and \(12, 3\). Exchange the two."),
        (np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True), LABELS, "got probabilities, every row sums to 1"),
        (LOGITS, LABELS[:-1], "one class for each of the 12 rows of logits; got "),
    ],
)
def test_arrays_that_are_turned_or_of_another_kind_get_the_hint_they_need(
    logits: np.ndarray, labels: np.ndarray, sentence: str
) -> None:
    for made in (np.asarray, torch.as_tensor):
        with pytest.raises(DataError, match=sentence):
            checked_outputs(made(logits), made(labels))


@pytest.mark.parametrize("kind", ["<f2", ">f4", "<f8", "<i4"])
def test_other_kinds_of_numbers_become_float32(tmp_path: Path, kind: str) -> None:
    values = (4 * LOGITS).round().astype(kind)
    np.save(tmp_path / "l.npy", np.asfortranarray(values))
    found = checked_outputs(np.load(tmp_path / "l.npy"), LABELS)
    assert found.logits.dtype == torch.float32
    assert found.logits.tolist() == values.astype(np.float32).tolist()


def test_features_of_other_samples_are_refused() -> None:
    with refused(DataError, "bad-outputs", "12", "11"):
        checked_outputs(LOGITS, LABELS, FEATURES[:-1])


def test_logits_between_0_and_1_are_logits_unless_rows_sum_to_1() -> None:
    assert checked_outputs(np.full((12, 3), 0.5, dtype=np.float32), LABELS).logits.shape == (12, 3)


def test_log_probabilities_are_logits() -> None:
    assert len(checked_outputs(torch.from_numpy(LOGITS).log_softmax(1), LABELS).labels) == 12


def test_bare_arrays_must_have_as_many_rows_each() -> None:
    with pytest.raises(ValueError, match="features must have one entry for each row of logits; got 2 for 3 rows"):
        Outputs(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2, 4))


def test_classes_that_do_not_occur_do_not_count_for_the_median() -> None:
    outputs = Outputs(torch.zeros(6, 9), torch.tensor([0, 0, 0, 0, 8, 8]))
    assert (len(outputs), outputs.num_classes, outputs.num_a_class) == (6, 9, 2)
