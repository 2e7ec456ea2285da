"""Zipf label smoothing: ranks by logits or by votes, ties, and what is refused."""

import pytest
import torch

from maxsup.functional import cross_entropy, zipf_label_smoothing_cross_entropy
from maxsup.losses import ZipfLabelSmoothingLoss
from tests.reference import losses as reference


def divergence(logits: list[float], label: int, **options) -> float:
    """``KL(p || q~)`` of one sample as the library computes it."""
    z, y = torch.tensor([logits], dtype=torch.float64), torch.tensor([label])
    return (zipf_label_smoothing_cross_entropy(z, y, 1.0, **options) - cross_entropy(z, y)).item()


def test_the_rank_of_the_true_class_is_skipped_and_not_closed_up():
    # Ranks are 1 (true class), 2, 3: the others share 1/2 and 1/3, not 1 and 1/2.
    p = torch.tensor([0.6, 0.4], dtype=torch.float64)
    log_q = torch.tensor([1.0, 0.0], dtype=torch.float64).log_softmax(0)
    assert divergence([3.0, 1.0, 0.0], 0) == pytest.approx((p * (p.log() - log_q)).sum().item(), abs=1e-12)


def test_tied_classes_share_the_smallest_rank():
    # Votes 5, 3, 3, 0 rank 1, 2, 2, 4.
    z = [0.0, 1.0, 2.0, 3.0, 0.5]
    votes = torch.tensor([[9.0, 5.0, 3.0, 3.0, 0.0]], dtype=torch.float64)
    shares = torch.tensor([1 / 2, 1 / 3, 1 / 3, 1 / 5], dtype=torch.float64)
    p = shares / shares.sum()
    log_q = torch.tensor(z[1:], dtype=torch.float64).log_softmax(0)
    assert divergence(z, 0, votes=votes) == pytest.approx((p * (p.log() - log_q)).sum().item(), abs=1e-12)


def test_all_votes_for_the_true_class_make_the_others_uniform():
    z = [0.5, -0.5, 1.5, 0.0]
    votes = torch.tensor([[9.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    log_q = torch.tensor(z[1:], dtype=torch.float64).log_softmax(0)
    uniform = (torch.tensor(1 / 3, dtype=torch.float64).log() - log_q).mean()
    assert divergence(z, 0, votes=votes) == pytest.approx(uniform.item(), abs=1e-12)


def test_power_zero_is_uniform_and_a_large_power_is_one_class():
    z = [0.5, -0.5, 1.5, 0.0]
    log_q = torch.tensor(z[1:], dtype=torch.float64).log_softmax(0)
    assert divergence(z, 0, power=0.0) == pytest.approx((-log_q.mean() - torch.tensor(3.0).log()).item(), abs=1e-6)
    assert divergence(z, 0, power=60.0) == pytest.approx(-log_q.max().item(), abs=1e-6)


def test_the_true_logit_gets_no_gradient_from_the_divergence():
    z = torch.tensor([[0.5, -0.5, 1.5, 0.0]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1])
    (gradient,) = torch.autograd.grad(zipf_label_smoothing_cross_entropy(z, y, 1.0) - cross_entropy(z, y), z)
    others = [0, 2, 3]
    p = reference.zipf_distribution(z[0].tolist(), 1, range(4), 1.0)
    q = z.detach()[0, others].softmax(0).tolist()
    assert gradient[0, 1].item() == pytest.approx(0.0, abs=1e-12)
    assert gradient[0, others].tolist() == pytest.approx([a - p[k] for a, k in zip(q, others, strict=True)], abs=1e-12)


def test_positions_of_a_feature_map_vote_for_their_top_class():
    logits, target = torch.randn(3, 4, dtype=torch.float64), torch.tensor([0, 1, 2])
    dense = torch.randn(3, 4, 5, 5, dtype=torch.float64)
    votes = torch.stack([(dense.argmax(1) == k).sum((1, 2)) for k in range(4)], 1).double()
    loss = ZipfLabelSmoothingLoss(0.3, ranking="dense")
    expected = zipf_label_smoothing_cross_entropy(logits, target, 0.3, votes=votes)
    assert torch.allclose(loss(logits, target, **{loss.needs[0]: dense}), expected, rtol=1e-12, atol=0)


def test_dense_ranking_says_that_it_needs_something_and_refuses_without():
    loss = ZipfLabelSmoothingLoss(ranking="dense")
    assert len(loss.needs) == 1
    with pytest.raises(ValueError, match=f"must be given {loss.needs[0]}; got None"):
        loss(torch.randn(3, 4), torch.tensor([0, 1, 2]))


def test_votes_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"votes must .*; got \(3, 5\)") as error:
        zipf_label_smoothing_cross_entropy(torch.randn(3, 4), torch.tensor([0, 1, 2]), votes=torch.ones(3, 5))
    assert "(3, 4)" in str(error.value)


def test_an_unknown_ranking_is_refused():
    with pytest.raises(ValueError, match="ranking must be one of 'logits', 'dense'; got 'votes'") as error:
        ZipfLabelSmoothingLoss(ranking="votes")
    assert str(error.value).endswith((".", "?"))


def test_two_classes_leave_nothing_to_rank():
    z, y = torch.randn(4, 2, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    assert torch.allclose(zipf_label_smoothing_cross_entropy(z, y, 1.0), cross_entropy(z, y), rtol=1e-12, atol=0)
