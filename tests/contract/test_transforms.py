"""``torch.func``: per-sample values and gradients of single samples equal those of the batch."""

import pytest
import torch
from torch.autograd.functional import jacobian
from torch.func import grad, hessian, vmap

from tests.contract.calls import MIXABLE, NAMES, call_function, value_and_gradient
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
