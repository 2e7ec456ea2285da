"""What is refused, in one sentence, and what is left of a sample once its logits are gone."""

import math

import numpy as np
import pytest
import torch

from maxsup.metrics import accuracy, aurc, expected_calibration_error
from maxsup.metrics import predictions as module
from maxsup.metrics.predictions import predictions_of

LOGITS = torch.randn(4, 3)
LABELS = torch.tensor([0, 1, 2, 0])


def changed(value: float) -> torch.Tensor:
    logits = LOGITS.clone()
    logits[2, 1] = value
    return logits


@pytest.mark.parametrize(
    ("logits", "labels", "sentence"),
    [
        (LOGITS[0], LABELS, r"logits must have shape \(samples, classes\); got shape \(3,\)"),
        (LOGITS.long(), LABELS, "logits must be floating-point numbers; got torch.int64"),
        (LOGITS[:, :0], LABELS, "logits must have at least one class"),
        (LOGITS[:0], LABELS[:0], "logits must hold at least one sample"),
        (LOGITS, LABELS[:3], r"labels must have one entry per sample, shape \(4,\); got shape \(3,\)"),
        (LOGITS, LABELS[:, None], r"got shape \(4, 1\)"),
        (LOGITS, LABELS.float(), "labels must be class indices; got torch.float32"),
        (LOGITS, LABELS == 0, "labels must be class indices; got torch.bool"),
        (LOGITS, torch.tensor([0, 1, 3, 0]), "labels must be classes of the logits, from 0 to 2; got 3 in row 2"),
        (LOGITS, torch.tensor([0, -100, 2, 0]), "labels must be class indices of at least 0; got -100 in row 1"),
        (changed(math.nan), LABELS, "logits must be finite numbers, .* got nan in row 2"),
        (changed(math.inf), LABELS, "logits must be finite numbers, .* got inf in row 2"),
        (torch.full((4, 3), -math.inf), LABELS, "logits must be finite numbers, .* got -inf in row 0"),
    ],
)
@pytest.mark.parametrize("metric", [accuracy, expected_calibration_error, aurc])
def test_bad_input_is_refused_in_a_sentence(
    metric: object, logits: torch.Tensor, labels: torch.Tensor, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        metric(logits, labels)


@pytest.mark.parametrize(("logits", "labels"), [(LOGITS.numpy(), LABELS), (LOGITS, np.array([0, 1, 2, 0]))])
def test_arrays_are_refused_with_the_way_to_convert_them(logits: object, labels: object) -> None:
    with pytest.raises(TypeError, match="must be a tensor; got ndarray"):
        accuracy(logits, labels)


def test_a_bad_row_is_named_in_whatever_block_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 3)
    with pytest.raises(ValueError, match="got nan in row 2"):
        accuracy(changed(math.nan), LABELS)


def test_blocks_of_any_size_give_the_same_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = torch.randn(37, 5), torch.randint(5, (37,))
    whole = predictions_of(logits, labels)
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 20)
    for own, expected in zip(predictions_of(logits, labels), whole, strict=True):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-15)


def test_inputs_stay_as_they_were() -> None:
    logits, labels = LOGITS.double().requires_grad_(), LABELS.clone()
    before = logits.detach().clone()
    accuracy(logits, labels)
    assert torch.equal(logits, before)
    assert torch.equal(labels, LABELS)
    assert logits.grad is None


def test_rows_that_are_not_contiguous_are_read_right() -> None:
    logits, labels = torch.randn(5, 40).T, torch.randint(5, (40,))
    assert accuracy(logits, labels) == accuracy(logits.contiguous(), labels)
