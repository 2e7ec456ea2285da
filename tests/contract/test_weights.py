"""Class weights: they move a mixed target towards the heavy classes and scale the sample as a whole."""

import pytest
import torch

from tests.contract.calls import MIXABLE, call_function
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of

pytestmark = pytest.mark.usefixtures("each_implementation")

WEIGHT = torch.tensor([0.5, 2.0, 0.0, 3.0], dtype=torch.float64)


def test_the_weight_of_a_label_scales_its_sample(name: str):
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    plain = call_function(name, logits, target, reduction="none")
    weighted = call_function(name, logits, target, reduction="none", weight=WEIGHT)
    assert torch.allclose(weighted, WEIGHT[target] * plain, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", MIXABLE)
def test_weights_are_a_heavier_sample_with_a_moved_target(name: str):
    logits = distinct_logits(6, 4)
    mass = WEIGHT * mixed_for(logits)
    scale = mass.sum(-1)
    moved = call_function(name, logits, mass / scale.unsqueeze(-1), reduction="none")
    weighted = call_function(name, logits, mixed_for(logits), reduction="none", weight=WEIGHT)
    assert torch.allclose(weighted, scale * moved, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("far", [-1e2, -1e4, -1e6])
@pytest.mark.parametrize("name", MIXABLE)
def test_weights_on_a_mixed_target_leave_the_loss_bounded_below(name: str, far: float):
    logits = torch.tensor([[far, 0.0, 0.0, 0.0]], dtype=torch.float64)
    target = torch.tensor([[0.5, 0.5, 0.0, 0.0]], dtype=torch.float64)
    weight = torch.tensor([0.0, 2.0, 1.0, 1.0], dtype=torch.float64)
    teacher = {need: torch.tensor([[-9.0, 9.0, 0.0, 0.0]], dtype=torch.float64) for need in needs_of(name, logits)}
    assert call_function(name, logits, target, weight=weight, **teacher) >= 0


def test_equal_weights_do_not_change_the_mean_over_labels(name: str):
    logits = distinct_logits(6, 4)
    weight = torch.full((4,), 2.5, dtype=torch.float64)
    plain = call_function(name, logits, labels_for(logits))
    assert torch.allclose(call_function(name, logits, labels_for(logits), weight=weight), plain, rtol=1e-12, atol=0)


def test_a_class_of_weight_zero_teaches_nothing(name: str):
    logits = distinct_logits(6, 4).requires_grad_()
    target = labels_for(logits)
    (gradient,) = torch.autograd.grad(call_function(name, logits, target, weight=WEIGHT), logits)
    assert (gradient[target == 2] == 0).all()
    assert (gradient[target != 2].abs().sum(-1) > 0).all()
