"""Plain torch: the example, and criteria of the real timm."""

import pytest
import torch

from maxsup.integrations import replace_label_smoothing
from tests.integration.integrations.captured import captured_calls, example_main, mean_of, reference_mean


def test_the_example_trains_with_the_reference_loss() -> None:
    with captured_calls() as calls:
        losses = example_main("plain_torch")()
    assert losses[0] == pytest.approx(reference_mean(calls[0]), abs=1e-5)
    assert mean_of(losses[-4:]) < 0.6 * mean_of(losses[:4])


def test_the_criterion_of_timm_is_replaced_at_equal_strength() -> None:
    loss = pytest.importorskip("timm.loss")
    smoothed = loss.LabelSmoothingCrossEntropy(0.1)
    logits = torch.randn(32, 10)
    target = logits.argmax(dim=1)
    difference = replace_label_smoothing(smoothed)(logits, target) - smoothed(logits, target)
    assert abs(difference.item()) < 1e-6
