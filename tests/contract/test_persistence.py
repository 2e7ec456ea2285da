"""A loss survives pickling, copying and a state_dict round trip."""

import copy
import pickle

import pytest
import torch

import maxsup
from maxsup.schedules import Linear
from tests.contract.calls import SCHEDULED, make_loss
from tests.contract.samples import WEIGHT, labels_for, needs_of


def trained(name: str) -> torch.nn.Module:
    """A weighted loss that has seen a batch and an end of epoch."""
    loss = make_loss(name, weight=WEIGHT.clone())
    value_of(loss, name)
    loss.end_epoch()
    value_of(loss, name)
    return loss


def value_of(loss: torch.nn.Module, name: str) -> torch.Tensor:
    logits = 2.0 * torch.eye(4, dtype=torch.float64) + logits_of_a_fixed_batch()
    return loss(logits, labels_for(logits), **needs_of(name, logits))


def logits_of_a_fixed_batch() -> torch.Tensor:
    return torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4)


def test_a_pickled_loss_computes_the_same(name: str):
    loss = trained(name)
    assert torch.equal(value_of(pickle.loads(pickle.dumps(loss)), name), value_of(loss, name))


def test_a_copied_loss_computes_the_same_and_shares_nothing(name: str):
    loss = trained(name)
    twin = copy.deepcopy(loss)
    assert torch.equal(value_of(twin, name), value_of(loss, name))
    twin.weight.zero_()
    assert loss.weight.sum() == 6.5


def test_a_state_dict_restores_the_loss(name: str):
    loss = trained(name)
    state = pickle.loads(pickle.dumps(loss.state_dict()))
    fresh = make_loss(name, weight=WEIGHT.clone())
    fresh.load_state_dict(state)
    assert torch.equal(value_of(fresh, name), value_of(loss, name))


@pytest.mark.parametrize("name", SCHEDULED)
def test_the_progress_of_a_schedule_is_part_of_the_state(name: str):
    option = SCHEDULED[name]
    loss = maxsup.create_loss(name, **{option: Linear(0.1, 0.3)})
    loss.set_progress(0.25)
    fresh = maxsup.create_loss(name, **{option: Linear(0.1, 0.3)})
    fresh.load_state_dict(pickle.loads(pickle.dumps(loss.state_dict())))
    fresh.end_epoch()
    assert getattr(fresh, option) == pytest.approx(0.15, abs=1e-12)
    assert torch.isfinite(value_of(fresh, name))


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_copy_has_its_own_progress(name: str):
    option = SCHEDULED[name]
    loss = maxsup.create_loss(name, **{option: Linear(0.1, 0.3)})
    loss.set_progress(0.25)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert getattr(twin, option) == getattr(loss, option)
        twin.set_progress(1.0)
        assert getattr(twin, option) == pytest.approx(0.3, abs=1e-12)
        assert getattr(loss, option) == pytest.approx(0.15, abs=1e-12)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_that_nobody_advances_raises_on_the_first_training_call(name: str):
    loss = maxsup.create_loss(name, **{SCHEDULED[name]: Linear(0.1, 0.3)})
    with pytest.raises(RuntimeError) as error:
        value_of(loss, name)
    assert "set_progress" in str(error.value)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_gives_the_strength_at_its_progress(name: str):
    option = SCHEDULED[name]
    scheduled = maxsup.create_loss(name, **{option: Linear(0.1, 0.3)})
    scheduled.set_progress(0.5)
    constant = maxsup.create_loss(name, **{option: 0.2})
    for loss in (scheduled, constant):
        loss.end_epoch()
    assert getattr(scheduled, option) == pytest.approx(0.2, abs=1e-12)
    assert torch.allclose(value_of(scheduled, name), value_of(constant, name), rtol=1e-12, atol=0)
