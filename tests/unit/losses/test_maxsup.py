"""MaxSup itself: shapes, edge cases, and targets that are smoothed already."""

import math
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import maxsup
from maxsup.functional import maxsup_cross_entropy, maxsup_penalty
from maxsup.schedules import Linear

SMOOTHED = torch.tensor([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05]])
LOGITS = torch.tensor([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]])


@pytest.mark.parametrize("shape", [(4,), (3, 4), (3, 4, 5), (2, 4, 3, 2)])
def test_the_penalty_reduces_the_class_axis(shape: tuple[int, ...]):
    logits = torch.randn(shape)
    axis = 0 if len(shape) == 1 else 1
    assert torch.allclose(maxsup_penalty(logits), logits.amax(axis) - logits.mean(axis), rtol=1e-6, atol=1e-6)


def test_the_penalty_averages_over_classes_that_are_not_masked():
    logits = torch.tensor([[3.0, 1.0, -math.inf]])
    assert maxsup_penalty(logits).item() == 1.0


def test_the_penalty_is_never_negative():
    assert (maxsup_penalty(torch.randn(100, 5, dtype=torch.float64)) >= 0).all()


def test_a_single_class_costs_nothing():
    logits = torch.tensor([[3.0], [-2.0]], requires_grad=True)
    value = maxsup_cross_entropy(logits, torch.tensor([0, 0]))
    value.backward()
    assert value == 0
    assert (logits.grad == 0).all()


def test_equal_logits_have_no_penalty_and_push_the_first_class():
    logits = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    value = maxsup_penalty(logits)
    value.backward()
    assert value.item() == 0
    assert logits.grad[0].tolist() == [0.75, -0.25, -0.25, -0.25]


def test_a_strength_may_be_a_tensor_with_a_gradient():
    logits, target = torch.randn(6, 4, dtype=torch.float64), torch.randint(4, (6,))
    alpha = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    maxsup_cross_entropy(logits, target, alpha).backward()
    assert alpha.grad.item() == pytest.approx(maxsup_penalty(logits).mean().item(), abs=1e-12)


def test_targets_that_are_smoothed_already_warn_once_for_every_loss():
    for loss in (maxsup.MaxSupLoss(0.1), maxsup.MaxSupLoss(0.1)):
        with pytest.warns(UserWarning, match="smoothed") as caught:
            values = [loss(LOGITS, SMOOTHED) for _ in range(3)]
        assert len(caught) == 1
        assert torch.equal(values[0], values[2])


@pytest.mark.parametrize("wrapping", ["none", "hook", "disabled compiler", "checkpoint"])
def test_the_warning_points_to_the_line_that_called(wrapping: str):
    call = loss = maxsup.MaxSupLoss(0.1)
    if wrapping == "hook":
        loss.register_forward_hook(lambda *_: None)
    if wrapping == "disabled compiler":
        call = torch.compiler.disable(loss)
    if wrapping == "checkpoint":
        call = partial(checkpoint, loss, use_reentrant=False)
    with pytest.warns(UserWarning, match="smoothed") as caught:
        call(LOGITS, SMOOTHED)
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_mixed_but_unsmoothed_targets_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = maxsup.MaxSupLoss(0.1)(LOGITS, torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.5, 0.5]]))
    assert torch.isfinite(value)


def test_predictions_of_a_teacher_do_not_warn():
    teacher = torch.softmax(torch.tensor([[3.0, 0.0, 1.0], [0.5, 2.0, -1.0]]), dim=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = maxsup.MaxSupLoss(0.1)(LOGITS, teacher)
    assert torch.isfinite(value)


def test_targets_that_need_a_gradient_give_no_other_warning():
    target = SMOOTHED.clone().requires_grad_()
    with pytest.warns(UserWarning, match="smoothed") as caught:
        maxsup.MaxSupLoss(0.1)(LOGITS, target).backward()
    assert len(caught) == 1
    assert target.grad is not None


@pytest.mark.parametrize("loss", [maxsup.MaxSupLoss(0.0), maxsup.MaxSupLoss(0.1).eval()], ids=["alpha zero", "eval"])
def test_smoothed_targets_do_not_warn_where_nothing_smooths_again(loss: maxsup.MaxSupLoss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = loss(LOGITS, SMOOTHED)
    assert torch.equal(value, F.cross_entropy(LOGITS, SMOOTHED))


def test_smoothed_targets_warn_as_soon_as_a_schedule_leaves_zero():
    loss = maxsup.MaxSupLoss(Linear(0.0, 0.1))
    loss.set_progress(0.0)
    loss(LOGITS, SMOOTHED)
    loss.set_progress(0.5)
    with pytest.warns(UserWarning, match="smoothed") as caught:
        loss(LOGITS, SMOOTHED)
    assert len(caught) == 1
