"""Strength that follows the confidence of each sample: adaptive label smoothing and adaptive MaxSup."""

import math

import pytest
import torch

from maxsup.functional import adaptive_alpha, adaptive_label_smoothing_cross_entropy, maxsup_cross_entropy
from maxsup.losses import AdaptiveLabelSmoothingLoss, MaxSupLoss
from tests.reference import losses as reference

TARGET = torch.tensor([0, 1, 2, 3, 0])


@pytest.fixture
def logits() -> torch.Tensor:
    return 2.0 * torch.randn(5, 4, dtype=torch.float64)


def test_adaptive_alpha_is_one_minus_the_relative_entropy(logits: torch.Tensor):
    expected = [reference.adaptive_alpha(z) for z in logits.tolist()]
    assert adaptive_alpha(logits).tolist() == pytest.approx(expected, abs=1e-12)


def test_adaptive_alpha_runs_from_uniform_to_certain():
    logits = torch.tensor([[0.0, 0.0, 0.0], [800.0, 0.0, 0.0]], dtype=torch.float64)
    assert adaptive_alpha(logits).tolist() == pytest.approx([0.0, 1.0], abs=1e-12)


def test_adaptive_alpha_has_the_shape_of_the_samples():
    assert adaptive_alpha(torch.randn(4)).shape == ()
    assert adaptive_alpha(torch.randn(2, 4)).shape == (2,)
    assert adaptive_alpha(torch.randn(2, 4, 3, 5)).shape == (2, 3, 5)


def test_adaptive_alpha_lets_the_gradient_through(logits: torch.Tensor):
    assert torch.autograd.gradcheck(adaptive_alpha, (logits.requires_grad_(),))


def test_adaptive_alpha_counts_the_classes_that_are_not_masked():
    logits = torch.tensor([[1.0, -1.0, 0.5, -math.inf]], dtype=torch.float64)
    assert adaptive_alpha(logits).item() == pytest.approx(adaptive_alpha(logits[:, :3]).item(), abs=1e-12)


def test_adaptive_maxsup_scales_alpha_by_the_confidence_of_the_sample(logits: torch.Tensor):
    values = MaxSupLoss(0.2, reduction="none", adaptive=True)(logits, TARGET)
    expected = [
        reference.maxsup_adaptive(z, y, alpha=0.2) for z, y in zip(logits.tolist(), TARGET.tolist(), strict=True)
    ]
    assert values.tolist() == pytest.approx(expected, abs=1e-12)


def test_adaptive_maxsup_takes_the_strength_as_a_constant_of_the_gradient(logits: torch.Tensor):
    leaf = logits.clone().requires_grad_()
    MaxSupLoss(0.2, reduction="sum", adaptive=True)(leaf, TARGET).backward()
    strengths = 0.2 * adaptive_alpha(logits)
    for row in range(len(logits)):
        sample = logits[row].clone().requires_grad_()
        maxsup_cross_entropy(sample, TARGET[row], strengths[row].item()).backward()
        assert torch.allclose(leaf.grad[row], sample.grad, rtol=0, atol=1e-12)


def test_adaptive_maxsup_of_strength_zero_is_cross_entropy(logits: torch.Tensor):
    value = MaxSupLoss(0.0, adaptive=True)(logits, TARGET)
    assert torch.equal(value, torch.nn.functional.cross_entropy(logits, TARGET))


def test_adaptive_ls_refuses_to_train_without_a_teacher(logits: torch.Tensor):
    with pytest.raises(ValueError, match="must be given teacher_logits; got None") as error:
        AdaptiveLabelSmoothingLoss()(logits, TARGET)
    assert "teacher_logits=..." in str(error.value)


def test_adaptive_ls_evaluates_without_a_teacher(logits: torch.Tensor):
    value = AdaptiveLabelSmoothingLoss().eval()(logits, TARGET)
    assert torch.equal(value, torch.nn.functional.cross_entropy(logits, TARGET))


def test_adaptive_ls_refuses_a_teacher_of_another_shape(logits: torch.Tensor):
    with pytest.raises(ValueError, match=r"teacher_logits must .*; got \(5, 3\)") as error:
        AdaptiveLabelSmoothingLoss()(logits, TARGET, teacher_logits=logits[:, :3])
    assert "(5, 4)" in str(error.value)


def test_adaptive_ls_is_cross_entropy_where_the_model_is_unsure():
    logits = torch.zeros(2, 4, dtype=torch.float64)
    teacher = torch.randn(2, 4, dtype=torch.float64)
    value = adaptive_label_smoothing_cross_entropy(logits, torch.tensor([0, 1]), teacher)
    assert value.item() == pytest.approx(math.log(4), abs=1e-12)


def test_adaptive_ls_gives_the_teacher_no_gradient(logits: torch.Tensor):
    teacher = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    value = AdaptiveLabelSmoothingLoss()(logits.requires_grad_(), TARGET, teacher_logits=teacher)
    value.backward()
    assert teacher.grad is None
    assert logits.grad.abs().sum() > 0
