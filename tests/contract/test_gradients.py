"""Derivatives: gradcheck in float64 for every loss, second derivatives where the formula has them."""

from functools import partial

import pytest
import torch
from torch.autograd import gradcheck as torch_gradcheck
from torch.autograd import gradgradcheck

import maxsup
from tests.conftest import IS_INTERPRETED
from tests.contract.calls import MIXABLE, NAMES, call_function
from tests.contract.samples import WEIGHT, distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF, NUM_LOSSES

pytestmark = pytest.mark.usefixtures("each_implementation")

# One random direction in the interpreter, where every call of a loss takes a twentieth of a second.
gradcheck = partial(torch_gradcheck, fast_mode=IS_INTERPRETED)
# A part of the value is a constant of the gradient, so finite differences of the value do not apply.
DETACHED = {"adaptive_ls", "acls"}
CHECKED = [name for name in NAMES if name not in DETACHED]
SMOOTH = [name for name in NAMES if CASE_OF[name].is_smooth]


def test_every_loss_has_its_gradient_checked():
    assert len(CHECKED) + len(DETACHED) == NUM_LOSSES == len(maxsup.list_losses())


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("shape", [(4,), (6, 4), (3, 4, 2)], ids=str)
def test_the_gradient_on_labels_is_the_finite_difference(name: str, shape: tuple[int, ...]):
    logits = distinct_logits(*shape).requires_grad_()
    target = labels_for(logits)
    if target.dim() > 0:
        target.view(-1)[1] = -100
    assert gradcheck(lambda z: call_function(name, z, target, weight=WEIGHT), (logits,))


@pytest.mark.parametrize("name", [name for name in MIXABLE if name not in DETACHED])
def test_the_gradient_on_probabilities_is_the_finite_difference(name: str):
    logits = distinct_logits(6, 4).requires_grad_()
    target = mixed_for(logits)
    assert gradcheck(lambda z: call_function(name, z, target, weight=WEIGHT), (logits,))


@pytest.mark.parametrize("name", CHECKED)
def test_the_gradient_holds_for_uneven_upstream_gradients(name: str):
    logits = distinct_logits(6, 4).requires_grad_()
    target = labels_for(logits)
    upstream = torch.tensor([0.3, -2.0, 0.0, 5.0, 1.0, -0.7], dtype=torch.float64)
    assert gradcheck(lambda z: call_function(name, z, target, weight=WEIGHT, reduction="none") * upstream, (logits,))
    values = call_function(name, logits, target, weight=WEIGHT, reduction="none")
    (whole,) = torch.autograd.grad(values, logits, upstream, retain_graph=True)
    for row in range(len(logits)):
        (single,) = torch.autograd.grad(values[row], logits, retain_graph=True)
        assert torch.allclose(whole[row], upstream[row] * single[row], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3)], ids=str)
def test_values_and_a_loss_may_be_changed_in_place(name: str, shape: tuple[int, ...]):
    found = []
    logits = distinct_logits(*shape).requires_grad_()
    factors = torch.rand(shape[:1] + shape[2:], dtype=torch.float64)
    for is_in_place in (True, False):
        values = call_function(name, logits, labels_for(logits), reduction="none")
        loss = call_function(name, logits, labels_for(logits))
        if is_in_place:
            values *= factors
            loss /= 3
        else:
            values, loss = values * factors, loss / 3
        found.append(torch.autograd.grad(values.sum() + loss, logits)[0])
    assert torch.allclose(*found, rtol=1e-12, atol=1e-14)


def test_a_graph_that_is_kept_gives_its_gradient_as_often_as_asked(name: str):
    logits = distinct_logits(5, 4).requires_grad_()
    loss = call_function(name, logits, labels_for(logits))
    first, second, scaled = (
        torch.autograd.grad(loss, logits, torch.tensor(scale, dtype=torch.float64), retain_graph=True)[0]
        for scale in (1.0, 1.0, 1024.0)
    )
    assert torch.equal(first, second)
    assert torch.equal(1024.0 * first, scaled)


def test_a_loss_scaled_before_backward_scales_the_gradient(name: str):
    logits = distinct_logits(5, 4).requires_grad_()
    (plain,) = torch.autograd.grad(call_function(name, logits, labels_for(logits)), logits)
    (scaled,) = torch.autograd.grad(1024.0 * call_function(name, logits, labels_for(logits)), logits)
    assert torch.equal(1024.0 * plain, scaled)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_second_derivative_is_the_finite_difference_of_the_first(name: str):
    logits = distinct_logits(5, 4).requires_grad_()
    target = labels_for(logits)
    assert gradgradcheck(lambda z: call_function(name, z, target, weight=WEIGHT), (logits,))


@pytest.mark.parametrize("as_probabilities", [False, True], ids=["labels", "probabilities"])
def test_adaptive_ls_pulls_towards_the_mixed_target(as_probabilities: bool):
    logits = distinct_logits(6, 4).requires_grad_()
    target = mixed_for(logits) if as_probabilities else labels_for(logits)
    teacher = needs_of("adaptive_ls", logits)["teacher_logits"]
    values = call_function("adaptive_ls", logits, target, reduction="none")
    upstream = torch.tensor([0.3, -2.0, 0.0, 5.0, 1.0, -0.7], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(values, logits, upstream)
    q = logits.detach().softmax(-1)
    strength = 1 + (q * q.log()).sum(-1, keepdim=True) / torch.log(torch.tensor(4.0, dtype=torch.float64))
    label = target if as_probabilities else torch.nn.functional.one_hot(target, 4)
    mixed = (1 - strength) * label + strength * teacher.softmax(-1)
    assert torch.allclose(gradient, upstream.unsqueeze(-1) * (q - mixed), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["maxsup", "err_amp_max", "focal_maxsup"])
def test_the_first_of_tied_top_logits_takes_the_whole_gradient_of_the_maximum(name: str):
    logits = torch.tensor([[1.0, 3.0, 3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([3])
    loss = call_function(name, logits, target) - call_function(name, logits, target, alpha=1e-300)
    (gradient,) = torch.autograd.grad(loss, logits)
    sign = -1.0 if name == "err_amp_max" else 1.0
    assert gradient[0, 1] - gradient[0, 2] == pytest.approx(sign * CASE_OF[name].strength["alpha"], abs=1e-12)
