"""Where code that was released with a method and its formula part, the losses here follow the formula."""

import pytest
import torch
import torch.nn.functional as F

from maxsup.functional import acls_cross_entropy, distillation_cross_entropy, dual_focal_cross_entropy
from maxsup.losses import DistillationLoss

pytestmark = pytest.mark.usefixtures("each_implementation")


def test_acls_counts_one_top_class_where_two_tie():
    tied = torch.tensor([[3.0, 3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = acls_cross_entropy(tied, torch.tensor([2]), 1.0, 1.0, others=0.0)
    plain = F.cross_entropy(tied, torch.tensor([2]))
    assert (loss - plain).item() == pytest.approx(4.0, abs=1e-12)  # the released code says 8
    (gradient,) = torch.autograd.grad(loss - plain, tied)
    assert gradient.tolist() == [[4.0, 0.0, 0.0]]


@pytest.mark.parametrize("ignore_index", [-100, 2])
def test_an_ignored_row_counts_nothing_and_one_row_is_enough(ignore_index: int):
    logits = torch.tensor([[4.0, 1.0, -2.0], [50.0, 0.0, torch.nan]], dtype=torch.float64)
    target = torch.tensor([0, ignore_index])
    for loss in (lambda z, y, **o: acls_cross_entropy(z, y, 0.3, 1.0, **o), dual_focal_cross_entropy):
        alone = loss(logits[:1], target[:1])
        assert torch.isfinite(alone)
        assert torch.equal(loss(logits, target, ignore_index=ignore_index), alone)


def test_a_class_that_ties_with_the_true_one_is_not_the_next_lower_one():
    tied = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    q = tied.softmax(1)[0]
    found = dual_focal_cross_entropy(tied, torch.tensor([0]), 2.0)
    assert found.item() == pytest.approx(((1 - q[0] + q[2]) ** 2 * -q[0].log()).item(), rel=1e-12)
    lowest = dual_focal_cross_entropy(tied, torch.tensor([2]), 2.0)
    assert lowest.item() == pytest.approx(((1 - q[2]) ** 2 * -q[2].log()).item(), rel=1e-12)


def test_a_teacher_that_agrees_leaves_the_labels_alone_and_gets_no_gradient():
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    teacher = logits.detach().clone().requires_grad_()
    loss = distillation_cross_entropy(logits, torch.arange(4), teacher, alpha=0.75)
    assert torch.allclose(loss, 0.25 * F.cross_entropy(logits, torch.arange(4)), rtol=1e-12)
    loss.backward()
    assert teacher.grad is None


@pytest.mark.parametrize("shape", [(4, 3), (4, 6), (2, 5)], ids=str)
def test_a_teacher_of_other_classes_or_images_is_refused_in_one_sentence(shape: tuple[int, int]):
    with pytest.raises(
        ValueError, match=r"teacher_logits must have the shape of input, \(4, 5\); got .*\. Run a"
    ) as error:
        DistillationLoss()(torch.randn(4, 5), torch.arange(4), teacher_logits=torch.randn(shape))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_is_positive(temperature: float):
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        DistillationLoss(temperature=temperature)
