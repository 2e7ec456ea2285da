"""``torch.func``: per-sample values and gradients of single samples equal those of the batch."""

from collections.abc import Callable

import pytest
import torch
from torch.autograd.functional import jacobian
from torch.func import grad, hessian, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from maxsup.functional import online_label_smoothing_cross_entropy
from tests.contract.calls import MIXABLE, NAMES, call_function, call_with_head, make_loss, value_and_gradient
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF

pytestmark = pytest.mark.usefixtures("each_implementation")

SMOOTH = [name for name in NAMES if CASE_OF[name].is_smooth]


def single(name: str):
    """The loss of one sample as a function of its logits, its target and what the loss needs for it."""

    def value(logits: torch.Tensor, target: torch.Tensor, needs: dict[str, torch.Tensor]) -> torch.Tensor:
        return call_function(name, logits, target, **needs)

    return value


def test_vmapped_labels_give_the_values_and_gradients_of_the_batch(name: str):
    logits = distinct_logits(5, 4)
    target, needs = labels_for(logits), needs_of(name, logits)
    values, gradients = value_and_gradient(name, logits, target, reduction="none")
    assert torch.allclose(vmap(single(name))(logits, target, needs), values, rtol=1e-12, atol=1e-13)
    assert torch.allclose(vmap(grad(single(name)))(logits, target, needs), gradients, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", MIXABLE)
def test_vmapped_probabilities_give_the_gradients_of_the_batch(name: str):
    logits = distinct_logits(5, 4)
    target, needs = mixed_for(logits), needs_of(name, logits)
    _, gradients = value_and_gradient(name, logits, target, reduction="none")
    assert torch.allclose(vmap(grad(single(name)))(logits, target, needs), gradients, rtol=1e-12, atol=1e-13)


def test_a_vectorised_jacobian_is_the_plain_one(name: str):
    logits = distinct_logits(3, 4)
    target = labels_for(logits)

    def values(z: torch.Tensor) -> torch.Tensor:
        return call_function(name, z, target, reduction="none")

    vectorised, plain = (jacobian(values, logits, vectorize=is_vectorised) for is_vectorised in (True, False))
    assert torch.allclose(vectorised, plain, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_hessian_is_symmetric(name: str):
    logits = distinct_logits(4)
    matrix = hessian(single(name))(logits, torch.tensor(1), needs_of(name, logits))
    assert matrix.shape == (4, 4)
    assert torch.allclose(matrix, matrix.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"ols"}))
def test_a_module_gives_the_values_of_the_batch_under_vmap(name: str):
    logits = distinct_logits(5, 4)
    target, needs = labels_for(logits), needs_of(name, logits)
    expected = make_loss(name, reduction="none")(logits, target, **needs)
    loss = make_loss(name)
    found = vmap(lambda z, y, own: loss(z, y, **own))(logits, target, needs)
    assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("transform", [vmap, lambda loss: vmap(grad(loss))], ids=["vmap", "grad"])
def test_a_loss_that_counts_its_predictions_says_that_a_transform_cannot(transform: Callable):
    logits = distinct_logits(5, 4)
    target, loss = labels_for(logits), make_loss("ols")
    with pytest.raises(RuntimeError, match=r"must be called outside torch\.func transforms.*criterion\.matrix"):
        transform(loss)(logits, target)
    assert int(loss.num_seen) == 0
    inside = vmap(lambda z, y: online_label_smoothing_cross_entropy(z, y, loss.matrix, loss.alpha))(logits, target)
    assert torch.allclose(inside.mean(), loss(logits, target), rtol=1e-12, atol=1e-13)
    assert int(loss.num_seen) == 5
    assert vmap(loss.eval())(logits, target).shape == (5,)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("name", [*NAMES, "head"])
def test_many_upstream_gradients_in_vmap_are_so_many_backward_passes(name: str, reduction: str):
    logits = distinct_logits(5, 4).requires_grad_()
    loss = call_with_head(name, logits, labels_for(logits), reduction=reduction)
    upstream = torch.linspace(-1, 2, 3 * loss.numel(), dtype=loss.dtype).reshape(3, *loss.shape)

    def backward(one: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(loss, logits, one, retain_graph=True)[0]

    expected = torch.stack([backward(one) for one in upstream])
    for _ in range(2):  # a first backward pass may leave less behind
        assert torch.allclose(vmap(backward)(upstream), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", [*NAMES, "head"])
def test_a_loss_and_its_gradient_can_be_recorded_for_other_logits(name: str, mode: str):
    def value_and_slope(logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = logits.detach().requires_grad_()
        value = call_with_head(name, logits, target, reduction="sum")
        return value.detach(), torch.autograd.grad(value, logits)[0]

    logits, others = distinct_logits(5, 4), distinct_logits(5, 4)
    target = labels_for(logits)
    recorded = make_fx(value_and_slope, tracing_mode=mode)(logits, target)
    for found, expected in zip(recorded(others, target), value_and_slope(others, target), strict=True):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)
