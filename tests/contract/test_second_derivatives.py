"""Second derivatives of every loss in every form: those of the formula, or an error; never silently left out."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradgradcheck

from maxsup.functional import implementation, linear_maxsup_cross_entropy, maxsup_cross_entropy
from tests.contract.calls import call_function
from tests.contract.samples import distinct_logits, labels_for

REDUCTIONS = ["mean", "sum", "none"]
SHAPES = [(6, 4), (5, 4, 3)]


def penalty_gradient(loss: torch.Tensor, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Gradient of the squared norm of the gradient, as a gradient penalty needs it."""
    upstream = torch.linspace(1, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    first = torch.autograd.grad(loss, tensors, upstream, create_graph=True)
    return list(torch.autograd.grad(sum(part.square().sum() for part in first), tensors))


@pytest.mark.usefixtures("each_implementation")
def test_a_gradient_penalty_is_that_of_the_formula(name: str):
    for shape in SHAPES:
        logits = distinct_logits(*shape).requires_grad_()
        target = labels_for(logits)
        target.view(-1)[1] = -100
        for reduction in REDUCTIONS:
            (found,) = penalty_gradient(call_function(name, logits, target, reduction=reduction), [logits])
            with implementation("reference"):
                (expected,) = penalty_gradient(call_function(name, logits, target, reduction=reduction), [logits])
            assert expected.abs().max() > 0
            assert torch.allclose(found, expected, rtol=1e-10, atol=1e-13)


def head_tensors() -> list[torch.Tensor]:
    return [torch.randn(*shape, dtype=torch.float64).requires_grad_() for shape in [(5, 3), (4, 3), (4,)]]


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_gradient_penalty_on_a_head_is_that_of_its_logits(reduction: str):
    tensors, target = head_tensors(), torch.tensor([0, 1, -100, 3, 2])
    hidden, weight, bias = tensors
    loss = linear_maxsup_cross_entropy(hidden, weight, target, 0.3, bias=bias, reduction=reduction)
    logits_loss = maxsup_cross_entropy(F.linear(*tensors), target, 0.3, reduction=reduction)
    found, expected = penalty_gradient(loss, tensors), penalty_gradient(logits_loss, tensors)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-10, atol=1e-13)


@pytest.mark.usefixtures("each_implementation")
def test_second_derivatives_of_a_head_are_finite_differences_of_the_first():
    hidden, weight, bias = head_tensors()
    target = torch.tensor([0, 1, -100, 3, 2])

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        return linear_maxsup_cross_entropy(tensors[0], tensors[1], target, 0.3, bias=tensors[2])

    assert gradgradcheck(loss, (hidden, weight, bias))


@pytest.mark.usefixtures("each_implementation")
def test_tied_embeddings_have_the_second_derivatives_of_their_logits():
    _, weight, _ = head_tensors()
    tokens, target = torch.tensor([3, 0, 0, 2, 1]), torch.tensor([0, 1, -100, 3, 2])
    found = linear_maxsup_cross_entropy(weight[tokens].tanh(), weight, target, 0.3)
    expected = maxsup_cross_entropy(F.linear(weight[tokens].tanh(), weight), target, 0.3)
    (found,), (expected,) = penalty_gradient(found, [weight]), penalty_gradient(expected, [weight])
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_vectorised_jacobian_of_a_head_is_that_of_its_logits(reduction: str):
    tensors, target = head_tensors(), torch.tensor([0, 1, -100, 3, 2])
    losses = [
        linear_maxsup_cross_entropy(*tensors[:2], target, 0.3, bias=tensors[2], reduction=reduction),
        maxsup_cross_entropy(F.linear(*tensors), target, 0.3, reduction=reduction),
    ]
    upstreams = torch.randn(3, *losses[0].shape, dtype=torch.float64)
    found, expected = (torch.autograd.grad(loss, tensors, upstreams, is_grads_batched=True) for loss in losses)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_compiled_losses_refuse_second_derivatives():
    def both(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        head = linear_maxsup_cross_entropy(logits, torch.eye(4, dtype=torch.float64), target, 0.3)
        return maxsup_cross_entropy(logits, target, 0.3) + head

    logits = distinct_logits(6, 4).requires_grad_()
    loss = torch.compile(both, fullgraph=True, backend="aot_eager")(logits, labels_for(logits))
    with pytest.raises(RuntimeError, match="double backward"):
        penalty_gradient(loss, [logits])
