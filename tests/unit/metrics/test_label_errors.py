"""Likely label errors against cleanlab."""

import pytest
import torch
from cleanlab.count import compute_confident_joint

from maxsup.metrics import likely_label_errors
from tests.unit.metrics.cases import CASES


@pytest.mark.parametrize("name", ["usual", "float32", "repeated", "all_wrong", "two_classes", "far_from_zero"])
def test_label_errors_are_those_of_cleanlab(name: str) -> None:
    logits, labels = CASES[name]()
    probs = logits.double().softmax(dim=1).numpy()
    _, expected = compute_confident_joint(labels.numpy(), probs, calibrate=False, return_indices_of_off_diagonals=True)
    found = likely_label_errors(logits, labels)
    assert sorted(found.indices.tolist()) == sorted(expected)
    assert found.confidence.tolist() == sorted(found.confidence.tolist())


def test_planted_errors_are_found_with_their_class() -> None:
    labels = torch.arange(200) % 5
    logits = 12.0 * torch.nn.functional.one_hot(labels) + torch.randn(200, 5)
    given = labels.clone()
    given[:8] = (labels[:8] + 1) % 5
    found = likely_label_errors(logits, given)
    assert set(found.indices[:8].tolist()) == set(range(8))
    assert torch.equal(found.suggested[:8], labels[found.indices[:8]])


def test_a_perfect_predictor_and_a_constant_one_find_none() -> None:
    labels = torch.arange(40) % 4
    assert len(likely_label_errors(90.0 * torch.eye(4)[labels], labels).indices) == 0
    assert len(likely_label_errors(torch.eye(1, 4).expand(40, 4), torch.zeros(40, dtype=torch.int64)).indices) == 0
