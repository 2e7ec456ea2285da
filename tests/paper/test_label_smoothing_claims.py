"""Section "Revisiting Label Smoothing": what label smoothing is at the level of logits."""

import math

import pytest
import torch

from maxsup.functional import (
    cross_entropy,
    error_amplification_max_cross_entropy,
    error_amplification_mean_cross_entropy,
    label_smoothing_cross_entropy,
    label_smoothing_terms,
    maxsup_cross_entropy,
    regularization_only_cross_entropy,
)
from tests.paper.samples import ALPHA, NUM_CLASSES, TOLERANCE, close, one_hot


def entropy_to(distribution: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """``H(distribution, q)`` of each sample."""
    return -(distribution * logits.log_softmax(-1)).sum(-1)


def test_definition_of_the_softened_label(logits: torch.Tensor, target: torch.Tensor):
    softened = (1 - ALPHA) * one_hot(target) + ALPHA / NUM_CLASSES
    smoothed = label_smoothing_cross_entropy(logits, target, ALPHA, reduction="none")
    assert close(smoothed, entropy_to(softened, logits))


def test_lemma_ls_decomposition(logits: torch.Tensor, target: torch.Tensor):
    plain = cross_entropy(logits, target, reduction="none")
    uniform = entropy_to(torch.full((NUM_CLASSES,), 1 / NUM_CLASSES, dtype=torch.float64), logits)
    smoothed = label_smoothing_cross_entropy(logits, target, ALPHA, reduction="none")
    assert close(smoothed, plain + ALPHA * (uniform - plain))


def test_th_ce_ls(logits: torch.Tensor, target: torch.Tensor):
    z_gt = logits.gather(1, target.unsqueeze(1)).squeeze(1)
    smoothed = label_smoothing_cross_entropy(logits, target, ALPHA, reduction="none")
    term = smoothed - cross_entropy(logits, target, reduction="none")
    assert close(term, ALPHA * (z_gt - logits.mean(-1)))


def test_th_ce_ls_with_cutmix_and_mixup(logits: torch.Tensor, target: torch.Tensor):
    share = 0.3
    mixed = share * one_hot(target) + (1 - share) * one_hot(target.flip(0))
    z_mixed = (mixed * logits).sum(-1)
    smoothed = label_smoothing_cross_entropy(logits, mixed, ALPHA, reduction="none")
    term = smoothed - cross_entropy(logits, mixed, reduction="none")
    assert close(term, ALPHA * (z_mixed - logits.mean(-1)))
    assert close(smoothed, entropy_to((1 - ALPHA) * mixed + ALPHA / NUM_CLASSES, logits))


def test_cor_ls_is_the_sum_of_eq_decomp(logits: torch.Tensor, target: torch.Tensor):
    terms = label_smoothing_terms(logits, target)
    smoothed = label_smoothing_cross_entropy(logits, target, ALPHA, reduction="none")
    ls_term = smoothed - cross_entropy(logits, target, reduction="none")
    assert close(ls_term, ALPHA * (terms.regularization + terms.error_amplification))


def test_eq_decomp_sums_over_smaller_and_larger_logits(logits: torch.Tensor, target: torch.Tensor):
    terms = label_smoothing_terms(logits, target)
    for i, (row, label) in enumerate(zip(logits.tolist(), target.tolist(), strict=True)):
        gaps = [row[label] - value for value in row]
        assert terms.regularization[i].item() == pytest.approx(
            math.fsum(gap for gap in gaps if gap > 0) / NUM_CLASSES, abs=TOLERANCE
        )
        assert terms.error_amplification[i].item() == pytest.approx(
            math.fsum(gap for gap in gaps if gap < 0) / NUM_CLASSES, abs=TOLERANCE
        )


def test_eq_decomp_error_amplification_vanishes_on_correct_predictions(logits: torch.Tensor):
    terms = label_smoothing_terms(logits, logits.argmax(-1))
    assert (terms.error_amplification == 0).all()
    assert (terms.regularization > 0).all()


def test_eq_decomp_lowers_the_true_logit_and_spares_the_top_one_on_errors():
    logits = torch.tensor([[2.0, 0.5, -1.0, 0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    terms = label_smoothing_terms(logits, torch.tensor([4]))
    (gradient,) = torch.autograd.grad(terms.regularization.sum() + terms.error_amplification.sum(), logits)
    assert gradient[0, 4].item() == pytest.approx(1 - 1 / 5, abs=TOLERANCE)
    assert gradient[0, 0].item() == pytest.approx(-1 / 5, abs=TOLERANCE)


def test_tab_pre_label_smoothing_row(logits: torch.Tensor, target: torch.Tensor):
    terms = label_smoothing_terms(logits, target)
    expected = cross_entropy(logits, target) + ALPHA * (terms.regularization + terms.error_amplification).mean()
    assert close(label_smoothing_cross_entropy(logits, target, ALPHA), expected)


@pytest.mark.parametrize(
    ("loss", "compare"),
    [(regularization_only_cross_entropy, torch.lt), (error_amplification_mean_cross_entropy, torch.gt)],
    ids=["smaller", "larger"],
)
def test_tab_pre_each_part_averages_over_the_logits_on_its_side(loss, compare, logits, target):
    plain = cross_entropy(logits, target, reduction="none")
    z_gt = logits.gather(1, target.unsqueeze(1))
    chosen = compare(logits, z_gt)
    expected = ALPHA * ((z_gt - logits) * chosen).sum(-1) / chosen.sum(-1).clamp(min=1)
    assert close(loss(logits, target, ALPHA, reduction="none") - plain, expected)


def test_tab_pre_error_amplification_row_of_the_top_logit(logits: torch.Tensor, target: torch.Tensor):
    plain = cross_entropy(logits, target, reduction="none")
    expected = ALPHA * (logits.gather(1, target.unsqueeze(1)).squeeze(1) - logits.amax(-1))
    assert close(error_amplification_max_cross_entropy(logits, target, ALPHA, reduction="none") - plain, expected)


def test_tab_pre_maxsup_row(logits: torch.Tensor, target: torch.Tensor):
    plain = cross_entropy(logits, target, reduction="none")
    expected = ALPHA * (logits.amax(-1) - logits.mean(-1))
    assert close(maxsup_cross_entropy(logits, target, ALPHA, reduction="none") - plain, expected)


def test_tab_pre_error_amplification_is_inactive_on_correct_predictions(logits: torch.Tensor):
    target = logits.argmax(-1)
    plain = cross_entropy(logits, target, reduction="none")
    for loss in (error_amplification_mean_cross_entropy, error_amplification_max_cross_entropy):
        assert torch.equal(loss(logits, target, ALPHA, reduction="none"), plain)


def test_tab_pre_error_amplification_stays_bounded_below(logits: torch.Tensor, target: torch.Tensor):
    gap = logits.amax(-1) - logits.gather(1, target.unsqueeze(1)).squeeze(1)
    for loss in (error_amplification_mean_cross_entropy, error_amplification_max_cross_entropy):
        assert (loss(logits, target, ALPHA, reduction="none") >= (1 - ALPHA) * gap - TOLERANCE).all()
