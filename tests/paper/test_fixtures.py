"""Worked numbers: z = [2, 0.5, -1, 0, 1], K = 5, a wrong label (4) and a correct one (0), six decimals."""

import math

import pytest
import torch

import maxsup.functional as functional

LOGITS = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]], dtype=torch.float64)
TEACHER = torch.tensor([[1.0, 2.0, 0.0, 0.0, -1.0]], dtype=torch.float64)
WRONG, CORRECT = 4, 0
TOLERANCE = 1e-6
"""The numbers are rounded to six decimals."""

VALUES = [
    ("cross_entropy", {}, 1.574438, 0.574438),
    ("label_smoothing_cross_entropy", {"alpha": 0.1}, 1.624438, 0.724438),
    ("label_smoothing_cross_entropy", {"alpha": 0.1, "convention": "k-1"}, 1.636938, 0.761938),
    ("maxsup_cross_entropy", {"alpha": 0.1}, 1.724438, 0.724438),
    ("regularization_only_cross_entropy", {"alpha": 0.1}, 1.691105, 0.761938),
    ("error_amplification_mean_cross_entropy", {"alpha": 0.1}, 1.474438, 0.574438),
    ("error_amplification_max_cross_entropy", {"alpha": 0.1}, 1.474438, 0.574438),
    ("logit_penalty_cross_entropy", {"beta": 2e-3}, 1.580688, 0.580688),
    ("logit_norm_cross_entropy", {"tau": 0.04}, 10.000046, 0.000046),
    ("confidence_penalty_cross_entropy", {"beta": 0.1}, 1.453789, 0.453789),
    ("focal_cross_entropy", {"gamma": 2.0}, 0.989774, 0.109689),
    ("focal_label_smoothing_cross_entropy", {"alpha": 0.1, "gamma": 2.0}, 1.039774, 0.259689),
    ("focal_label_smoothing_cross_entropy", {"mode": "gt_modulated"}, 1.021207, 0.138332),
    ("focal_label_smoothing_cross_entropy", {"mode": "per_class"}, 1.055984, 0.263907),
    ("focal_maxsup_cross_entropy", {"alpha": 0.1, "gamma": 2.0}, 1.139774, 0.259689),
    ("zipf_label_smoothing_cross_entropy", {"alpha": 0.1}, 1.582525, 0.580156),
    ("maxsup_cross_entropy", {"alpha": 0.1, "z_loss": 0.01}, 1.790715, 0.790715),
    ("mbls_cross_entropy", {"margin": 1.0}, 1.644438, 0.644438),
    ("acls_cross_entropy", {"margin": 1.0}, 1.687563, 0.687563),
    ("poly1_cross_entropy", {}, 2.367314, 1.011417),
    ("dual_focal_cross_entropy", {}, 1.029268, 0.063682),
    ("distillation_cross_entropy", {"teacher_logits": TEACHER}, 0.887293, 0.787293),
]

GRADIENTS = {
    "cross_entropy": [0.563021, 0.125627, 0.028031, 0.076197, -0.792876],
    "label_smoothing_cross_entropy": [0.543021, 0.105627, 0.008031, 0.056197, -0.712876],
    "maxsup_cross_entropy": [0.643021, 0.105627, 0.008031, 0.056197, -0.812876],
}


@pytest.mark.parametrize(("function", "options", "wrong", "correct"), VALUES)
def test_the_value_of_a_wrong_and_of_a_correct_sample(function: str, options: dict, wrong: float, correct: float):
    loss = getattr(functional, function)
    assert loss(LOGITS, torch.tensor([WRONG]), **options).item() == pytest.approx(wrong, abs=TOLERANCE)
    assert loss(LOGITS, torch.tensor([CORRECT]), **options).item() == pytest.approx(correct, abs=TOLERANCE)


@pytest.mark.parametrize("function", GRADIENTS)
def test_the_gradient_of_a_wrong_sample(function: str):
    logits = LOGITS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(getattr(functional, function)(logits, torch.tensor([WRONG])), logits)
    assert gradient[0].tolist() == pytest.approx(GRADIENTS[function], abs=TOLERANCE)


def test_the_gradient_of_a_correct_sample_is_the_same_for_label_smoothing_and_maxsup():
    gradients = []
    for loss in (functional.label_smoothing_cross_entropy, functional.maxsup_cross_entropy):
        logits = LOGITS.clone().requires_grad_()
        gradients.append(torch.autograd.grad(loss(logits, torch.tensor([CORRECT])), logits)[0])
    assert torch.allclose(*gradients, rtol=0, atol=1e-12)


def test_the_entropy_behind_the_confidence_penalty():
    penalised = functional.confidence_penalty_cross_entropy(LOGITS, torch.tensor([WRONG]), beta=1.0)
    entropy = functional.cross_entropy(LOGITS, torch.tensor([WRONG])) - penalised
    assert entropy.item() == pytest.approx(1.206489, abs=TOLERANCE)


def test_adaptive_alpha():
    assert functional.adaptive_alpha(LOGITS).item() == pytest.approx(0.250366, abs=TOLERANCE)


@pytest.mark.parametrize(("label", "divergence"), [(WRONG, 0.080875), (CORRECT, 0.057180)])
def test_the_divergence_behind_zipf_label_smoothing(label: int, divergence: float):
    target = torch.tensor([label])
    smoothed = functional.zipf_label_smoothing_cross_entropy(LOGITS, target, alpha=1.0)
    assert (smoothed - functional.cross_entropy(LOGITS, target)).item() == pytest.approx(divergence, abs=TOLERANCE)


def test_the_two_terms_of_label_smoothing():
    terms = functional.label_smoothing_terms(LOGITS, torch.tensor([WRONG]))
    assert terms.regularization.item() == pytest.approx((0.5 + 2.0 + 1.0) / 5, abs=1e-12)
    assert terms.error_amplification.item() == pytest.approx(-1.0 / 5, abs=1e-12)


def test_the_best_probability_of_the_true_class_under_label_smoothing():
    logit_gap = math.log((1 - 0.1 + 0.1 / 1000) / (0.1 / 1000))
    logits = torch.zeros(1, 1000, dtype=torch.float64)
    logits[0, 3] = logit_gap
    logits.requires_grad_()
    for loss in (functional.label_smoothing_cross_entropy, functional.maxsup_cross_entropy):
        (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([3]), 0.1), logits)
        assert gradient.abs().max() < 1e-12
    assert logit_gap == pytest.approx(9.105, abs=1e-3)


def test_the_factor_between_the_focal_gradient_and_the_detached_one():
    gradients = []
    for detach in (False, True):
        logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
        loss = functional.focal_cross_entropy(logits, torch.tensor([0]), detach_modulation=detach)
        gradients.append(torch.autograd.grad(loss, logits)[0][0, 0].item())
    p = 0.5
    expected = ((1 - p) ** 2 - 2 * (1 - p) * p * math.log(p)) / (1 - p) ** 2
    assert gradients[0] / gradients[1] == pytest.approx(expected, abs=1e-12)
