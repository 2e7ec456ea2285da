"""Section "Max Suppression Regularization" and the appendices on its gradient and pseudo code."""

import pytest
import torch
import torch.nn.functional as F

import maxsup
from maxsup.functional import (
    cross_entropy,
    label_smoothing_cross_entropy,
    maxsup_cross_entropy,
    maxsup_penalty,
)
from maxsup.schedules import PAPER_SCHEDULES, Constant, Linear, epoch_progress
from tests.paper.samples import ALPHA, NUM_CLASSES, TOLERANCE, close, one_hot


def gradient_of(logits: torch.Tensor, target: torch.Tensor, loss=maxsup_cross_entropy) -> torch.Tensor:
    """Gradient of the sum over samples, so that each row is the gradient of its own sample."""
    leaf = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf, target, ALPHA, reduction="sum"), leaf)
    return gradient


def wrong_targets(logits: torch.Tensor) -> torch.Tensor:
    """The second best class of each sample."""
    return logits.topk(2).indices[:, 1]


def test_eq_label_maxsup(logits: torch.Tensor, target: torch.Tensor):
    log_q = logits.log_softmax(-1)
    uniform = -log_q.mean(-1)
    predicted = -log_q.gather(1, logits.argmax(-1, keepdim=True)).squeeze(1)
    term = maxsup_cross_entropy(logits, target, ALPHA, reduction="none") - cross_entropy(
        logits, target, reduction="none"
    )
    assert close(term, ALPHA * (uniform - predicted))


def test_eq_maxsup_uni(logits: torch.Tensor, target: torch.Tensor):
    term = maxsup_cross_entropy(logits, target, ALPHA, reduction="none") - cross_entropy(
        logits, target, reduction="none"
    )
    assert close(term, ALPHA * (logits.amax(-1) - logits.mean(-1)))
    assert close(maxsup_penalty(logits), logits.amax(-1) - logits.mean(-1))


def test_eq_maxsup_uni_does_not_look_at_the_label(logits: torch.Tensor, target: torch.Tensor):
    for labels in (target, target.flip(0), logits.argmax(-1)):
        term = maxsup_cross_entropy(logits, labels, ALPHA) - cross_entropy(logits, labels)
        assert close(term, ALPHA * maxsup_penalty(logits).mean())


def test_sec_maxsup_equals_label_smoothing_on_correct_predictions(logits: torch.Tensor):
    target = logits.argmax(-1)
    smoothed = label_smoothing_cross_entropy(logits, target, ALPHA, reduction="none")
    assert close(maxsup_cross_entropy(logits, target, ALPHA, reduction="none"), smoothed)
    assert close(gradient_of(logits, target), gradient_of(logits, target, label_smoothing_cross_entropy))


def test_sec_maxsup_gradient_of_the_regulariser(logits: torch.Tensor):
    leaf = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ALPHA * maxsup_penalty(leaf).sum(), leaf)
    top = one_hot(logits.argmax(-1)).bool()
    assert close(gradient[top], torch.full((50,), ALPHA * (1 - 1 / NUM_CLASSES), dtype=torch.float64))
    assert close(gradient[~top], torch.full((50 * (NUM_CLASSES - 1),), -ALPHA / NUM_CLASSES, dtype=torch.float64))


def test_app_grad_objective_is_cross_entropy_with_a_signed_target(logits: torch.Tensor, target: torch.Tensor):
    signed = one_hot(target) + ALPHA / NUM_CLASSES - ALPHA * one_hot(logits.argmax(-1))
    expected = -(signed * logits.log_softmax(-1)).sum(-1)
    assert close(maxsup_cross_entropy(logits, target, ALPHA, reduction="none"), expected)


def test_app_grad_general_formula(logits: torch.Tensor, target: torch.Tensor):
    expected = logits.softmax(-1) - one_hot(target) - ALPHA / NUM_CLASSES + ALPHA * one_hot(logits.argmax(-1))
    assert close(gradient_of(logits, target), expected)


def test_app_grad_correct_prediction(logits: torch.Tensor):
    target = logits.argmax(-1)
    gradient, q = gradient_of(logits, target), logits.softmax(-1)
    true = one_hot(target).bool()
    assert close(gradient[true], q[true] - (1 - ALPHA * (1 - 1 / NUM_CLASSES)))
    assert close(gradient[~true], q[~true] - ALPHA / NUM_CLASSES)


def test_app_grad_wrong_prediction(logits: torch.Tensor):
    target = wrong_targets(logits)
    gradient, q = gradient_of(logits, target), logits.softmax(-1)
    true = one_hot(target).bool()
    top = one_hot(logits.argmax(-1)).bool()
    others = ~(true | top)
    assert close(gradient[true], q[true] - (1 + ALPHA / NUM_CLASSES))
    assert close(gradient[top], q[top] + ALPHA * (1 - 1 / NUM_CLASSES))
    assert close(gradient[others], q[others] - ALPHA / NUM_CLASSES)


def test_app_grad_maxsup_pulls_the_true_logit_up_where_label_smoothing_pulls_it_down(logits: torch.Tensor):
    target = wrong_targets(logits)
    true = one_hot(target).bool()
    plain = gradient_of(logits, target, lambda z, y, alpha, **options: cross_entropy(z, y, **options))[true]
    assert (gradient_of(logits, target)[true] < plain).all()
    assert (gradient_of(logits, target, label_smoothing_cross_entropy)[true] > plain).all()


def test_alg_maxsup_one_step_of_gradient_descent(logits: torch.Tensor, target: torch.Tensor):
    features = torch.randn(50, 3, dtype=torch.float64)
    weights = torch.randn(3, NUM_CLASSES, dtype=torch.float64)
    stepped = weights.clone().requires_grad_()
    maxsup.MaxSupLoss(alpha=ALPHA)(features @ stepped, target).backward()
    z = (features @ weights).requires_grad_()
    ce_term = sum(F.cross_entropy(z[j], target[j]) for j in range(50)) / 50
    maxsup_term = sum(z[j].max() - z[j].sum() / NUM_CLASSES for j in range(50)) / 50
    (ce_term + ALPHA * maxsup_term).backward()
    assert close(weights - 0.1 * stepped.grad, weights - 0.1 * features.T @ z.grad)


def test_tab_alpha_and_tab_ablation_alpha_name_four_schedules():
    assert dict(PAPER_SCHEDULES) == {
        "constant": Constant(0.1),
        "linear": Linear(0.1, 0.2),
        "linear_from_zero": Linear(0.0, 0.1),
        "linear_high": Linear(0.2, 0.3),
    }


def test_app_alpha_rises_by_a_tenth_over_training():
    criterion = maxsup.MaxSupLoss(alpha=PAPER_SCHEDULES["linear"])
    seen = []
    for epoch in range(5):
        criterion.set_progress(epoch_progress(epoch, 5))
        seen.append(criterion.alpha)
    assert seen == pytest.approx([0.1, 0.125, 0.15, 0.175, 0.2], abs=TOLERANCE)
