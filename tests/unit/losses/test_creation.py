"""``create_loss`` and ``list_losses``: names, options, and what is said about wrong ones."""

import pytest
import torch

import maxsup
from maxsup.functional import label_smoothing_cross_entropy, maxsup_cross_entropy
from maxsup.schedules import Constant, Linear


def test_maxsup_takes_the_place_of_cross_entropy_argument_by_argument():
    weight = torch.tensor([1.0, 2.0])
    loss = maxsup.MaxSupLoss(0.2, weight, 255, "sum")
    assert (loss.alpha, loss.ignore_index, loss.reduction) == (0.2, 255, "sum")
    assert torch.equal(loss.weight, weight)


def test_defaults_are_the_published_ones():
    assert maxsup.MaxSupLoss().alpha == 0.1
    assert maxsup.create_loss("ls").alpha == 0.1
    assert maxsup.create_loss("ols").alpha == 0.5
    assert maxsup.create_loss("zipf_ls").alpha == 0.1
    assert maxsup.create_loss("logit_penalty").beta == 2e-3
    assert maxsup.create_loss("confidence_penalty").beta == 0.1
    assert maxsup.create_loss("logit_norm").tau == 0.04
    assert maxsup.create_loss("focal").gamma == 2.0


@pytest.mark.parametrize(
    ("wrong", "nearest"), [("maxsupp", "maxsup"), ("focal_l", "focal_ls"), ("logitnorm", "logit_norm")]
)
def test_an_unknown_loss_is_answered_with_the_nearest_name(wrong: str, nearest: str):
    with pytest.raises(ValueError, match=f"must be a registered name; got '{wrong}'") as error:
        maxsup.create_loss(wrong)
    assert f"'{nearest}'" in str(error.value)


def test_an_option_of_another_loss_is_refused():
    with pytest.raises(TypeError, match="got 'tau'") as error:
        maxsup.create_loss("maxsup", tau=0.1)
    assert "maxsup" in str(error.value)


@pytest.mark.parametrize("wrong", [-0.1, float("inf"), float("nan")])
@pytest.mark.parametrize("function", [maxsup_cross_entropy, label_smoothing_cross_entropy])
def test_a_function_refuses_a_strength_that_is_not_a_finite_number_of_at_least_zero(function, wrong: float):
    with pytest.raises(ValueError, match=r"alpha must be .*; got") as error:
        function(torch.randn(2, 3), torch.tensor([0, 1]), wrong)
    assert repr(wrong) in str(error.value)


@pytest.mark.parametrize("wrong", ["0.1", True, None, [0.1]])
def test_a_function_refuses_a_strength_that_is_not_a_number(wrong: object):
    with pytest.raises(TypeError, match=r"alpha must be a number; got") as error:
        maxsup_cross_entropy(torch.randn(2, 3), torch.tensor([0, 1]), wrong)
    assert repr(wrong) in str(error.value)


def test_a_constant_schedule_needs_no_progress():
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert torch.equal(maxsup.MaxSupLoss(Constant(0.2))(logits, target), maxsup.MaxSupLoss(0.2)(logits, target))


def test_progress_outside_of_training_is_refused():
    loss = maxsup.MaxSupLoss(Linear(0.1, 0.2))
    with pytest.raises(ValueError, match=r"progress must be between 0 and 1; got 1\.5"):
        loss.set_progress(1.5)
    loss.set_progress(1.0)
    assert loss.alpha == pytest.approx(0.2, abs=1e-12)


def test_a_schedule_that_was_not_advanced_may_evaluate():
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    value = maxsup.MaxSupLoss(Linear(0.1, 0.2)).eval()(logits, target)
    assert torch.equal(value, torch.nn.functional.cross_entropy(logits, target))


def test_a_schedule_at_strength_zero_is_cross_entropy():
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    loss = maxsup.MaxSupLoss(Linear(0.0, 0.1))
    loss.set_progress(0.0)
    assert torch.allclose(loss(logits, target), torch.nn.functional.cross_entropy(logits, target), rtol=1e-6, atol=0)


def test_a_margin_is_printed_after_a_schedule_and_not_inside_it():
    loss = maxsup.create_loss("mbls", alpha=Linear(0.1, 0.2), margin=2.0)
    assert f"(alpha={Linear(0.1, 0.2)!r}, margin=2.0, ignore_index=-100, reduction='mean')" in repr(loss)


def test_weights_follow_the_module_to_another_dtype():
    loss = maxsup.MaxSupLoss(0.1, weight=torch.ones(3)).double()
    assert loss.weight.dtype == torch.float64


def test_the_package_loads_its_parts_on_first_use():
    assert maxsup.__version__
    assert set(maxsup.__all__) <= set(dir(maxsup))
    with pytest.raises(AttributeError, match="no_such_name"):
        maxsup.no_such_name  # noqa: B018
