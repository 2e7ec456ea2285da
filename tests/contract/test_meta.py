"""A loss built on ``meta``, as large models are, and then materialised, is the loss it would have been."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import maxsup
from maxsup.losses import LOSSES, LinearMaxSupLoss
from maxsup.schedules import Linear
from tests.contract.calls import NAMES, SCHEDULED
from tests.contract.samples import NUM_CLASSES, distinct_logits, labels_for, needs_of
from tests.reference.cases import CASE_OF

NAME_OF = {LOSSES[name]: name for name in NAMES}


def loss_of(name: str, *, is_scheduled: bool) -> nn.Module:
    options = dict(CASE_OF[name].strength)
    if is_scheduled and name in SCHEDULED:
        strength = options[SCHEDULED[name]]
        options[SCHEDULED[name]] = Linear(strength / 2, strength)
    if name == "ols":
        options |= {"num_classes": NUM_CLASSES, "variant": "reimplementation"}
    return maxsup.create_loss(name, **options)


def materialised_alone(loss: nn.Module) -> nn.Module:
    return loss.to_empty(device="cpu")


def materialised_in_a_model(loss: nn.Module) -> nn.Module:
    nn.ModuleDict({"criterion": loss}).to_empty(device="cpu")
    return loss


def materialised_by_module(loss: nn.Module) -> nn.Module:
    """What FSDP does with every module that has a state of its own."""
    for module in loss.modules():
        if any(True for _ in (*module.parameters(recurse=False), *module.buffers(recurse=False))):
            module.to_empty(device="cpu", recurse=False)
            module.reset_parameters()
    return loss


def loaded_by_assignment(loss: nn.Module) -> nn.Module:
    fresh = loss_of(NAME_OF[type(loss)], is_scheduled=loss.schedule is not None)
    loss.load_state_dict(fresh.state_dict(), assign=True)
    return loss


WAYS: list[Callable[[nn.Module], nn.Module]] = [
    materialised_alone,
    materialised_in_a_model,
    materialised_by_module,
    loaded_by_assignment,
]


@pytest.mark.parametrize("is_scheduled", [False, True], ids=["constant", "scheduled"])
def test_a_materialised_loss_trains_like_one_built_on_the_device(name: str, is_scheduled: bool):
    for way in WAYS:
        with torch.device("meta"):
            loss = loss_of(name, is_scheduled=is_scheduled)
        loss, twin = way(loss), loss_of(name, is_scheduled=is_scheduled)
        logits = distinct_logits(8, NUM_CLASSES, dtype=torch.float32)
        if loss.schedule is not None:
            with pytest.raises(RuntimeError, match="set_progress must be called"):
                loss(logits, labels_for(logits), **needs_of(name, logits))
        for each in (loss, twin):
            each.end_epoch()
        for epoch in range(2):
            values = []
            for each in (loss, twin):
                each.set_progress(epoch / 2)
                values.append(each(logits, labels_for(logits), **needs_of(name, logits)))
                each.end_epoch()
            assert torch.equal(*values), way
        for key, state in twin.state_dict().items():
            assert torch.equal(loss.state_dict()[key], state), (way, key)


def test_the_linear_head_with_a_schedule_is_built_on_meta():
    with torch.device("meta"):
        loss = LinearMaxSupLoss(Linear(0.1, 0.3))
    loss.to_empty(device="cpu").set_progress(0.5)
    hidden, weight, target = torch.randn(3, 2), torch.randn(4, 2), torch.tensor([0, 1, 3])
    assert torch.equal(loss(hidden, weight, target), LinearMaxSupLoss(0.2)(hidden, weight, target))


def test_what_is_real_survives_when_the_model_around_it_is_materialised(name: str):
    loss = loss_of(name, is_scheduled=True)
    loss.weight = torch.tensor([1.0, 2.0, 3.0, 4.0])
    loss.set_progress(0.25)
    before = {key: state.clone() for key, state in loss.state_dict().items()}
    nn.ModuleDict({"criterion": loss}).to_empty(device="cpu")
    assert all(torch.equal(loss.state_dict()[key], state) for key, state in before.items())


def test_class_weights_that_were_never_loaded_show():
    with torch.device("meta"):
        loss = maxsup.create_loss("maxsup", weight=torch.tensor([1.0, 2.0]))
    loss.to_empty(device="cpu")
    assert loss(torch.zeros(1, 2), torch.tensor([0])).isnan()
    loss.load_state_dict({"weight": torch.tensor([1.0, 2.0])})
    assert loss(torch.zeros(1, 2), torch.tensor([0])).isfinite()


def test_a_loss_that_is_still_on_meta_loads_no_state_and_says_nothing_wrong():
    with torch.device("meta"):
        loss = maxsup.create_loss("maxsup", alpha=Linear(0.1, 0.2))
    state = maxsup.create_loss("maxsup", alpha=Linear(0.1, 0.2)).state_dict()
    with pytest.warns(UserWarning, match="meta"):
        loss.load_state_dict(state)
    assert not loss._advanced
