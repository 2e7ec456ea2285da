"""Tensors that are not ordinary: subclasses, fake and meta tensors, tracers and forward derivatives.

They need another way through the losses than ordinary ones, above all where a batch is large.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from tests.contract.calls import NAMES, call_with_head
from tests.contract.samples import scattered

SHAPES = [(6, 4), (5000, 4), (2, 4, 2500)]
"""Few samples, and more logits than a small batch has, as rows and as planes."""


class Tagged(torch.Tensor):
    """A subclass that wraps nothing, as torchvision's masks are."""


class Wrapped(torch.Tensor):
    """A subclass without memory of its own, as distributed tensors are."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, requires_grad: bool = False) -> "Wrapped":
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=inner.device, requires_grad=requires_grad
        )

    def __init__(self, inner: torch.Tensor, requires_grad: bool = False) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def inner_of(value):
            return value.inner if isinstance(value, Wrapped) else value

        result = function(*torch.utils._pytree.tree_map(inner_of, args), **(kwargs or {}))
        return torch.utils._pytree.tree_map(
            lambda value: Wrapped(value) if isinstance(value, torch.Tensor) else value, result
        )


def batch(shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    logits = scattered(shape)
    target = (torch.arange(logits[:, 0].numel()) % 4).reshape(logits[:, 0].shape)
    target.view(-1)[1] = -100
    return logits, target


def loss_of(name: str):
    return lambda logits, target: call_with_head(name, logits, target)


def cases() -> list:
    return [
        pytest.param(name, shape, id=f"{name}-{shape}")
        for name in [*NAMES, "head"]
        for shape in SHAPES
        if name != "head" or len(shape) == 2
    ]


def plain_result(name: str, logits: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = logits.clone().requires_grad_()
    value = loss_of(name)(leaf, target)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize(("name", "shape"), cases())
def test_a_subclass_gives_the_loss_of_the_tensor_it_is(name: str, shape: tuple[int, ...]):
    logits, target = batch(shape)
    expected, expected_gradient = plain_result(name, logits, target)
    tagged = logits.clone().as_subclass(Tagged).requires_grad_()
    value = loss_of(name)(tagged, target.as_subclass(Tagged))
    (gradient,) = torch.autograd.grad(value, tagged)
    assert torch.allclose(value, expected, rtol=1e-12)
    assert torch.allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-14)


def test_a_subclass_without_memory_gives_the_loss_of_what_it_holds(name: str):
    logits, target = batch(SHAPES[1])
    expected, expected_gradient = plain_result(name, logits, target)
    wrapped = Wrapped(logits, requires_grad=True)
    value = loss_of(name)(wrapped, target)
    (gradient,) = torch.autograd.grad(value, wrapped)
    assert torch.allclose(value.inner, expected, rtol=1e-12)
    assert torch.allclose(gradient.inner, expected_gradient, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("name", "shape"), cases())
def test_shapes_and_types_are_known_without_data(name: str, shape: tuple[int, ...]):
    logits, target = batch(shape)
    if name != "ols":  # the tests' own matrix has data
        leaf = logits.to("meta").requires_grad_()
        with torch.device("meta"):
            value = loss_of(name)(leaf, target.to("meta"))
        assert torch.autograd.grad(value, leaf)[0].shape == shape
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        leaf = mode.from_tensor(logits).requires_grad_()
        value = loss_of(name)(leaf, mode.from_tensor(target))
        (gradient,) = torch.autograd.grad(value, leaf)
    assert value.shape == ()
    assert gradient.shape == shape
    assert gradient.dtype == torch.float64


@pytest.mark.parametrize(("name", "shape"), cases())
def test_the_forward_derivative_is_the_backward_one(name: str, shape: tuple[int, ...]):
    logits, target = batch(shape)
    direction = scattered(shape).roll(1, 0)
    _, gradient = plain_result(name, logits, target)
    with forward_ad.dual_level():
        value = loss_of(name)(forward_ad.make_dual(logits, direction), target)
        derivative = forward_ad.unpack_dual(value).tangent
    assert torch.allclose(derivative, (gradient * direction).sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("name", "shape"), cases())
def test_a_traced_loss_serves_other_logits(name: str, shape: tuple[int, ...]):
    logits, target = batch(shape)
    traced = torch.jit.trace(loss_of(name), (logits, target), check_trace=False)
    other = logits.flip(0).contiguous().requires_grad_()
    expected, expected_gradient = plain_result(name, other.detach(), target)
    value = traced(other, target)
    assert torch.allclose(value, expected, rtol=1e-12)
    assert torch.allclose(torch.autograd.grad(value, other)[0], expected_gradient, rtol=1e-10, atol=1e-14)
