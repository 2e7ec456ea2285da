"""Losses of the evidence are label smoothing, to rounding, on right predictions and differ on errors as they say."""

import pytest
import torch

from maxsup.losses import create_loss
from tools.evidence.losses import gained_label_smoothing

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(64, 10, generator=GENERATOR, dtype=torch.float64) * 3
RIGHT = LOGITS.argmax(1)
WRONG = LOGITS.argmin(1)


def _loss(name, labels, **options):
    return create_loss(name, **options)(LOGITS, labels)


@pytest.mark.parametrize("gain", [-1.0, 0.0, 0.5, 1.0])
def test_every_gain_is_label_smoothing_where_predictions_are_right(gain):
    ours = gained_label_smoothing(LOGITS, RIGHT, alpha=0.1, gain=gain)
    torch.testing.assert_close(ours, _loss("ls", RIGHT, alpha=0.1))


def test_reg_only_with_its_share_of_alpha_is_label_smoothing_where_predictions_are_right():
    torch.testing.assert_close(_loss("reg_only", RIGHT, alpha=0.09), _loss("ls", RIGHT, alpha=0.1))


def test_gain_0_is_label_smoothing_and_gain_1_is_maxsup_on_errors():
    for gain, name in ((0.0, "ls"), (1.0, "maxsup")):
        ours = gained_label_smoothing(LOGITS, WRONG, alpha=0.1, gain=gain)
        torch.testing.assert_close(ours, _loss(name, WRONG, alpha=0.1))


def test_gain_minus_1_is_as_far_below_label_smoothing_as_maxsup_is_above():
    ls = _loss("ls", WRONG, alpha=0.1)
    mirrored = gained_label_smoothing(LOGITS, WRONG, alpha=0.1, gain=-1.0)
    torch.testing.assert_close(ls - mirrored, _loss("maxsup", WRONG, alpha=0.1) - ls)
