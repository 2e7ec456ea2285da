"""Focal losses: the modulation, with and without its gradient, and the readings of focal label smoothing."""

import pytest
import torch

from maxsup.functional import focal_cross_entropy, focal_label_smoothing_cross_entropy
from maxsup.losses import FocalLabelSmoothingLoss, FocalLoss

TARGET = torch.tensor([0, 1, 2, 3, 0])


@pytest.fixture
def logits() -> torch.Tensor:
    return 2.0 * torch.randn(5, 4, dtype=torch.float64)


def gradient_of(loss, logits: torch.Tensor) -> torch.Tensor:
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


def test_a_detached_modulation_leaves_the_value_alone(logits: torch.Tensor):
    assert torch.equal(FocalLoss(detach_modulation=True)(logits, TARGET), FocalLoss()(logits, TARGET))


def test_a_detached_modulation_scales_the_gradient_of_cross_entropy(logits: torch.Tensor):
    gradient = gradient_of(
        lambda z: focal_cross_entropy(z, TARGET, 2.0, detach_modulation=True, reduction="sum"), logits
    )
    q = logits.softmax(-1)
    p = q.gather(1, TARGET.unsqueeze(1))
    assert torch.allclose(gradient, (1 - p) ** 2 * (q - torch.nn.functional.one_hot(TARGET, 4)), rtol=0, atol=1e-12)


def test_the_full_gradient_has_the_slope_of_the_modulation(logits: torch.Tensor):
    gradient = gradient_of(lambda z: focal_cross_entropy(z, TARGET, 2.0, reduction="sum"), logits)
    q = logits.softmax(-1)
    p = q.gather(1, TARGET.unsqueeze(1))
    factor = (1 - p) ** 2 - 2 * (1 - p) * p * p.log()
    assert torch.allclose(gradient, factor * (q - torch.nn.functional.one_hot(TARGET, 4)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_a_certain_and_correct_sample_costs_nothing_and_has_a_finite_gradient(gamma: float):
    logits = torch.tensor([[900.0, 0.0, 0.0]], requires_grad=True)
    value = focal_cross_entropy(logits, torch.tensor([0]), gamma)
    value.backward()
    assert value == 0
    assert torch.isfinite(logits.grad).all()


def test_mixing_labels_is_mixing_losses(logits: torch.Tensor):
    mixed = torch.tensor([0.7, 0.3, 0.0, 0.0], dtype=torch.float64).expand(5, 4)
    pure = [focal_cross_entropy(logits, torch.full((5,), label)) for label in (0, 1)]
    assert torch.allclose(focal_cross_entropy(logits, mixed), 0.7 * pure[0] + 0.3 * pure[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("mode", ["additive", "gt_modulated", "per_class"])
def test_every_reading_of_focal_label_smoothing_is_label_smoothing_at_gamma_zero(logits: torch.Tensor, mode: str):
    expected = torch.nn.functional.cross_entropy(logits, TARGET, label_smoothing=0.2)
    actual = focal_label_smoothing_cross_entropy(logits, TARGET, 0.2, 0.0, mode=mode)
    assert torch.allclose(actual, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("mode", ["additive", "gt_modulated", "per_class"])
def test_every_reading_of_focal_label_smoothing_is_focal_at_alpha_zero(logits: torch.Tensor, mode: str):
    expected = focal_cross_entropy(logits, TARGET, 2.0)
    actual = focal_label_smoothing_cross_entropy(logits, TARGET, 0.0, 2.0, mode=mode)
    assert torch.allclose(actual, expected, rtol=1e-12, atol=0)


def test_an_unknown_reading_is_refused():
    with pytest.raises(ValueError, match="mode must be one of 'additive', 'gt_modulated', 'per_class'") as error:
        FocalLabelSmoothingLoss(mode="aditive")
    assert "Did you mean 'additive'?" in str(error.value)
