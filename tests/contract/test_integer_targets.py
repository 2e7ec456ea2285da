"""Class indices of every integer dtype act like int64, in value, gradient and refusal."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import maxsup
from maxsup.functional import linear_maxsup_cross_entropy
from tests.conftest import IS_INTERPRETED
from tests.contract.calls import NAMES
from tests.contract.samples import needs_of
from tests.reference.cases import CASE_OF

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.uint64]
# In the interpreter, where every kernel takes a twentieth of a second, one of them and int8 below.
TRIED = DTYPES[:1] if IS_INTERPRETED else DTYPES
NUM_CLASSES = 200
"""More than an int8 can hold; -100 as a uint8 (156) is one of them."""
FORMS = ["training", "evaluation", "pixels", "linear head"]
BAD = {torch.uint8: [200, 255], torch.int8: [-1, -99], torch.int16: [200, -1], torch.int32: [200, 2**31 - 1]}


def form_of(name: str, form: str, **options: object) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Value and gradient of fixed logits as a function of the targets."""
    logits = torch.randn(6, NUM_CLASSES, 2) if form == "pixels" else torch.randn(12, NUM_CLASSES)

    def call(target: Tensor) -> tuple[Tensor, Tensor]:
        leaf = logits.clone().requires_grad_()
        if form == "linear head":
            weight = torch.eye(NUM_CLASSES)
            loss = linear_maxsup_cross_entropy(leaf, weight, target, 0.3, **options)
        else:
            criterion = maxsup.create_loss(name, **CASE_OF[name].strength, **options).train(form != "evaluation")
            criterion.end_epoch()
            loss = criterion(leaf, target.reshape(6, 2) if form == "pixels" else target, **needs_of(name, logits))
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]

    return call


def assert_same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    # Other dtypes take another path in a small batch, which rounds differently.
    for left, right in zip(found, expected, strict=True):
        assert torch.allclose(left, right, rtol=1e-5, atol=1e-7)


def cases() -> list[tuple[str, str]]:
    return [(name, form) for name in NAMES for form in FORMS if form != "linear head" or name == "maxsup"]


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize(("name", "form"), cases())
def test_targets_of_every_integer_give_the_same_loss(name: str, form: str):
    call = form_of(name, form)
    target = torch.tensor([0, 1, 2, 3, 100, 127, 5, 6, 156, 7, 199, 8])
    for dtype in TRIED:
        given = target.clamp(max=127) if dtype == torch.int8 else target
        assert_same(call(given.to(dtype)), call(given))
    ignored = target.where(target != 7, -100).clamp(max=127)
    assert_same(call(ignored.to(torch.int8)), call(ignored))


@pytest.mark.parametrize(("name", "form"), cases())
def test_an_unsigned_target_may_be_ignored_by_its_own_number(name: str, form: str):
    call = form_of(name, form, ignore_index=255)
    target = torch.tensor([0, 255, 2, 3, 100, 127, 5, 255, 156, 7, 199, 8])
    for dtype in (torch.uint8, torch.uint16):
        assert_same(call(target.to(dtype)), call(target))


@pytest.mark.parametrize(("name", "form"), cases())
def test_what_is_no_class_is_named_in_every_integer(name: str, form: str):
    call = form_of(name, form)
    for dtype in DTYPES:
        for bad in BAD.get(dtype, [200]):
            target = torch.arange(12)
            target[7] = bad
            with pytest.raises(ValueError, match=rf"got {bad} in row (7|\(3, 1\))"):
                call(target.to(dtype))


def test_the_byte_that_minus_a_hundred_becomes_is_no_ignored_target(name: str):
    logits, loss = torch.randn(2, 10), maxsup.create_loss(name)
    loss.end_epoch()
    with pytest.raises(ValueError, match="got 156 in row 1"):
        loss(logits, torch.tensor([0, 156], dtype=torch.uint8), **needs_of(name, logits))
