"""The registry names every loss, and each name keeps its promises."""

import inspect
import re

import pytest
import torch

import maxsup
import maxsup.functional
import maxsup.losses
from tests.contract.calls import MIXABLE, call_function, make_loss
from tests.contract.samples import WEIGHT, distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF, NUM_LOSSES

DEFAULTS = {"weight": None, "ignore_index": -100, "reduction": "mean", "num_items": None, "empty": "nan", "z_loss": 0.0}


def test_the_losses_that_are_tested_are_the_registered_ones():
    assert len(maxsup.list_losses()) == NUM_LOSSES
    assert sorted(maxsup.list_losses()) == sorted(CASE_OF)


def test_a_name_creates_its_class(name: str):
    assert type(maxsup.create_loss(name)) is getattr(maxsup.losses, CASE_OF[name].class_name)


def test_a_class_says_what_it_needs(name: str):
    assert getattr(maxsup.losses, CASE_OF[name].class_name).needs == CASE_OF[name].needs


def test_the_file_of_a_loss_is_its_card(name: str):
    loss = getattr(maxsup.losses, CASE_OF[name].class_name)
    function = getattr(maxsup.functional, CASE_OF[name].function)
    card = inspect.getmodule(loss).__doc__
    assert loss.__module__ == function.__module__
    assert "**Formula" in card
    assert "**Interacts with" in card
    assert ">>>" in function.__doc__


def test_a_class_is_understood_without_its_function(name: str):
    text = getattr(maxsup.losses, CASE_OF[name].class_name).__doc__
    assert not re.match("Module form|The same", text)
    assert [part for part in ("math::", "Args:", "Shape:", ">>> ") if part not in text] == []


def test_the_registry_knows_the_formula_and_the_source_of_a_loss(name: str):
    facts = maxsup.losses.LOSSES.facts(name)
    assert facts["formula"]
    assert facts["source"]


@pytest.mark.parametrize("option", DEFAULTS)
def test_a_function_takes_the_shared_options_with_the_same_defaults(name: str, option: str):
    logits = distinct_logits(5, 4)
    given = call_function(name, logits, labels_for(logits), **{option: DEFAULTS[option]})
    assert torch.equal(given, call_function(name, logits, labels_for(logits)))


def test_a_function_refuses_an_option_it_does_not_know(name: str):
    logits = distinct_logits(5, 4)
    with pytest.raises(TypeError) as error:
        call_function(name, logits, labels_for(logits), no_such_option=1)
    assert "no_such_option" in str(error.value)


def test_a_module_equals_its_function_on_labels(name: str):
    logits = distinct_logits(6, 4, 2)
    target = labels_for(logits)
    target[0, 0] = -100
    expected = call_function(name, logits, target, weight=WEIGHT)
    assert torch.equal(make_loss(name, weight=WEIGHT)(logits, target, **needs_of(name, logits)), expected)


@pytest.mark.parametrize("name", MIXABLE)
def test_a_module_equals_its_function_on_probabilities(name: str):
    logits = distinct_logits(6, 4)
    target = mixed_for(logits)
    expected = call_function(name, logits, target)
    assert torch.equal(make_loss(name)(logits, target, **needs_of(name, logits)), expected)


def test_a_module_divides_by_num_items(name: str):
    logits = distinct_logits(6, 4)
    needs = needs_of(name, logits)
    total = make_loss(name, reduction="sum")(logits, labels_for(logits), **needs)
    mean = make_loss(name)(logits, labels_for(logits), num_items=torch.tensor(12), **needs)
    assert torch.allclose(mean, total / 12, rtol=1e-14, atol=0)


def test_a_module_takes_labels_of_any_integer_dtype(name: str):
    logits = distinct_logits(6, 4)
    needs = needs_of(name, logits)
    expected = make_loss(name)(logits, labels_for(logits), **needs)
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        assert torch.equal(make_loss(name)(logits, labels_for(logits).to(dtype), **needs), expected)


def test_a_mask_of_bytes_may_be_ignored_at_255(name: str):
    logits = distinct_logits(2, 4, 3)
    target = labels_for(logits)
    target[1, 1] = 255
    loss, needs = make_loss(name, ignore_index=255), needs_of(name, logits)
    assert torch.equal(loss(logits, target.to(torch.uint8), **needs), loss(logits, target, **needs))


def test_a_module_refuses_an_input_it_does_not_know(name: str):
    logits = distinct_logits(6, 4)
    with pytest.raises(TypeError) as error:
        make_loss(name)(logits, labels_for(logits), no_such_input=logits, **needs_of(name, logits))
    assert "no_such_input" in str(error.value)


def test_ending_an_epoch_is_always_allowed(name: str):
    loss = make_loss(name)
    logits = distinct_logits(6, 4)
    loss(logits, labels_for(logits), **needs_of(name, logits))
    loss.end_epoch()
    assert torch.isfinite(loss(logits, labels_for(logits), **needs_of(name, logits)))


def test_a_module_prints_its_strength_and_what_it_ignores(name: str):
    loss = make_loss(name, ignore_index=255)
    assert "ignore_index=255" in repr(loss)
    for option, value in list(CASE_OF[name].strength.items())[:1]:
        assert f"{option}={value}" in repr(loss)
