"""What changes between forward and backward: the gradient is that of forward, or autograd refuses, as torch does."""

from collections.abc import Callable

import pytest
import torch

import maxsup
from maxsup.losses import LinearMaxSupLoss
from maxsup.schedules import Linear
from tests.contract.calls import NAMES, SCHEDULED, call_with_head
from tests.contract.samples import WEIGHT, distinct_logits, labels_for, needs_of

pytestmark = pytest.mark.usefixtures("each_implementation")

REDUCTIONS = ["mean", "none"]
FORMS = [*NAMES, "head"]
# Where a schedule refills its tensor, autograd refuses the backward pass.
IS_REFILLED = torch.__version__ < "2.5"


def gradients(loss: torch.Tensor, logits: torch.Tensor, meanwhile: Callable[[], object]) -> list[torch.Tensor]:
    """Gradients of a first backward, of one after ``meanwhile``, and of one that can be differentiated again."""
    upstream = torch.ones_like(loss)
    found = [torch.autograd.grad(loss, logits, upstream, retain_graph=True)[0]]
    meanwhile()
    for create_graph in (False, True):
        found += torch.autograd.grad(loss, logits, upstream, retain_graph=True, create_graph=create_graph)
    return [gradient.detach() for gradient in found]


def assert_right_or_refused(loss: torch.Tensor, logits: torch.Tensor, meanwhile: Callable[[], object]) -> None:
    try:
        first, *later = gradients(loss, logits, meanwhile)
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            return
        raise
    for gradient in later:
        assert torch.allclose(gradient, first, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", FORMS)
def test_labels_that_change_are_noticed(name: str, reduction: str):
    logits = distinct_logits(6, 4).requires_grad_()
    target = labels_for(logits)
    loss = call_with_head(name, logits, target, reduction=reduction)
    assert_right_or_refused(loss, logits, lambda: target.fill_(2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_class_weights_that_change_are_noticed(name: str, reduction: str):
    logits = distinct_logits(6, 4).requires_grad_()
    weight = WEIGHT.clone()
    loss = call_with_head(name, logits, labels_for(logits), weight=weight, reduction=reduction)
    assert_right_or_refused(loss, logits, lambda: weight.fill_(7))


@pytest.mark.parametrize("name", FORMS)
def test_a_number_of_items_that_changes_is_noticed(name: str):
    logits = distinct_logits(6, 4).requires_grad_()
    num_items = torch.tensor(12.0)
    loss = call_with_head(name, logits, labels_for(logits), num_items=num_items)
    assert_right_or_refused(loss, logits, lambda: num_items.fill_(1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", [*SCHEDULED, "head"])
def test_a_strength_that_changes_is_noticed(name: str, reduction: str):
    logits = distinct_logits(6, 4).requires_grad_()
    strength = torch.tensor(0.3, dtype=torch.float64)
    options = {SCHEDULED.get(name, "alpha"): strength, "reduction": reduction}
    loss = call_with_head(name, logits, labels_for(logits), **options)
    assert_right_or_refused(loss, logits, lambda: strength.fill_(0.9))


@pytest.mark.skipif(IS_REFILLED, reason="the strength is refilled before torch 2.5, and autograd refuses")
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", [*SCHEDULED, "head"])
def test_a_schedule_that_moves_leaves_a_pending_backward_as_it_was(name: str, reduction: str):
    logits = distinct_logits(6, 4).requires_grad_()
    schedule = {SCHEDULED.get(name, "alpha"): Linear(0.1, 0.9), "reduction": reduction}
    batch = (logits, labels_for(logits))
    if name == "head":
        loss = LinearMaxSupLoss(**schedule)
        batch = (logits, torch.eye(4, dtype=torch.float64), batch[1])
    else:
        loss = maxsup.create_loss(name, **schedule)
    loss.set_progress(0.0)
    loss.end_epoch()
    value = loss(*batch, **({} if name == "head" else needs_of(name, logits)))
    first, *later = gradients(value, logits, lambda: loss.set_progress(1.0))
    for gradient in later:
        assert torch.allclose(gradient, first, rtol=1e-12, atol=1e-15)


def test_torch_refuses_labels_that_have_changed():
    logits = distinct_logits(6, 4).requires_grad_()
    target = labels_for(logits)
    loss = torch.nn.functional.cross_entropy(logits, target)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(loss, logits, lambda: target.fill_(2))
