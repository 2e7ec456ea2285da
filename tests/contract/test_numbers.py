"""The strength and the denominator of a mean: numbers of any type that torch computes with, in every form."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.contract.calls import MIXABLE, NAMES, SCHEDULED, call_function, call_with_head, make_loss
from tests.contract.samples import distinct_logits, labels_for, needs_of

pytestmark = pytest.mark.usefixtures("each_implementation")

STRENGTHS = {**SCHEDULED, "head": "alpha"}
SCALARS = [np.float64(0.25), np.float32(0.25), np.float16(0.25), torch.tensor(0.25), torch.tensor([0.25])]
NO_NUMBERS = [Fraction(1, 4), np.array(0.25), Decimal("0.25")]


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("name", STRENGTHS)
def test_a_strength_is_one_number_of_any_type_torch_computes_with(name: str, reduction: str):
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    expected = call_with_head(name, logits, target, reduction=reduction, **{STRENGTHS[name]: 0.25})
    for strength in SCALARS:
        found = call_with_head(name, logits, target, reduction=reduction, **{STRENGTHS[name]: strength})
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("strength", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", STRENGTHS)
def test_a_strength_torch_does_not_compute_with_is_refused_alike_everywhere(name: str, strength: object):
    logits, option = distinct_logits(6, 4), STRENGTHS[name]
    sentence = f"{option} must be a number; got {strength!r}. Pass one number, such as float({option})."
    with pytest.raises(TypeError) as error:
        call_with_head(name, logits, labels_for(logits), **{option: strength})
    assert str(error.value) == sentence
    if name != "head":
        with pytest.raises(TypeError) as error:
            make_loss(name, **{option: strength})
        assert str(error.value) == sentence


@pytest.mark.parametrize("name", [*NAMES, "head"])
def test_a_denominator_is_one_number_of_any_type(name: str):
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    expected = call_with_head(name, logits, target, num_items=5.0)
    for num_items in (5, np.int64(5), torch.tensor(5), torch.tensor([5]), torch.tensor([[5.0]])):
        found = call_with_head(name, logits.clone().requires_grad_(), target, num_items=num_items)
        assert found.shape == ()
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("num_items", [torch.tensor([2, 3]), torch.tensor([])], ids=repr)
@pytest.mark.parametrize("name", [*NAMES, "head"])
def test_a_denominator_for_each_sample_is_refused(name: str, num_items: torch.Tensor):
    logits = distinct_logits(6, 4)
    with pytest.raises(ValueError, match=r"num_items must be one number; got a tensor of shape .*\. Pass its sum\."):
        call_with_head(name, logits, labels_for(logits), num_items=num_items)


@pytest.mark.parametrize("num_items", ["5", Fraction(5), np.array(5)], ids=repr)
def test_a_denominator_that_is_no_number_is_refused(name: str, num_items: object):
    logits = distinct_logits(6, 4)
    with pytest.raises(TypeError, match=r"num_items must be a number; got .*num_items"):
        call_function(name, logits, labels_for(logits), num_items=num_items)


@pytest.mark.parametrize("shape", [(3, 0), (0, 0), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("name", sorted(set(MIXABLE) - {"ce", "ols"}))
def test_logits_without_classes_are_refused_in_one_sentence(name: str, shape: tuple[int, ...]):
    logits = torch.zeros(shape)
    with pytest.raises(ValueError, match=r"input must have at least one class; got float32 of shape .*\. Check the"):
        call_function(name, logits, torch.zeros(shape), **needs_of(name, logits))
