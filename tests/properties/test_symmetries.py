"""What must not change a loss: a common shift, the names of the classes, the neighbours in the batch."""

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

import maxsup
import maxsup.functional
from tests.conftest import examples
from tests.properties.batches import Batch, batches, holds_for
from tests.reference.cases import CASE_OF, CASES

EXAMPLES = examples(25)
SHIFT_INVARIANT = [case.name for case in CASES if case.is_shift_invariant]


def without_ties(batch: Batch) -> Batch:
    """The same batch with distinct logits in each row: the grid of the logits is 1/16."""
    batch.rows = [[value + k / 1024 for k, value in enumerate(row)] for row in batch.rows]
    return batch


def value_and_gradient(name: str, batch: Batch, logits: Tensor | None = None) -> tuple[Tensor, Tensor]:
    logits = (batch.input(torch.float64) if logits is None else logits).detach().requires_grad_()
    function = getattr(maxsup.functional, CASE_OF[name].function)
    loss = function(logits, batch.target(torch.float64), **batch.keywords(torch.float64))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    return loss.detach(), gradient


def close(left: Tensor, right: Tensor, tolerance: float) -> bool:
    return torch.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_only_the_three_losses_that_look_at_the_size_of_the_logits_depend_on_a_shift():
    assert set(maxsup.list_losses()) - set(SHIFT_INVARIANT) == {"acls", "logit_norm", "logit_penalty"}


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
def test_a_shift_of_all_logits_changes_nothing(name: str):
    @holds_for(EXAMPLES, batch=batches(CASE_OF[name]), shift=st.integers(-64, 64))
    def holds(batch: Batch, shift: int) -> None:
        value, gradient = value_and_gradient(name, batch)
        shifted, shifted_gradient = value_and_gradient(name, batch, batch.input(torch.float64) + shift)
        assert close(value, shifted, 1e-11)
        assert close(gradient, shifted_gradient, 1e-11)


@pytest.mark.parametrize("name", ["logit_penalty", "logit_norm"])
def test_a_shift_matters_to_a_loss_on_the_size_of_the_logits(name: str):
    function = getattr(maxsup.functional, CASE_OF[name].function)
    logits, target = torch.tensor([[2.0, 0.5, -1.0]], dtype=torch.float64), torch.tensor([1])
    assert not close(function(logits, target), function(logits + 3.0, target), 1e-3)


def renamed(batch: Batch, names: list[int]) -> Batch:
    """The batch in which class ``names[k]`` is now called ``k``."""
    new_name = {old: new for new, old in enumerate(names)}

    def reordered(row: list[float]) -> list[float]:
        return [row[old] for old in names]

    shared = dict(batch.shared)
    if shared.get("weight") is not None:
        shared["weight"] = reordered(shared["weight"])
    shared["ignore_index"] = new_name.get(shared["ignore_index"], shared["ignore_index"])
    targets = (
        [reordered(row) for row in batch.targets]
        if batch.holds_probabilities
        else [new_name.get(label, label) for label in batch.targets]
    )
    return Batch(
        batch.shape,
        [reordered(row) for row in batch.rows],
        targets,
        shared,
        batch.options,
        {key: [reordered(row) for row in rows] for key, rows in batch.per_sample.items()},
        {key: [reordered(rows[old]) for old in names] for key, rows in batch.per_class.items()},
        batch.num_items_is_tensor,
    )


@pytest.mark.parametrize("name", maxsup.list_losses())
def test_renaming_the_classes_renames_the_gradient_and_keeps_the_value(name: str):
    @holds_for(EXAMPLES, batch=batches(CASE_OF[name]).map(without_ties), data=st.data())
    def holds(batch: Batch, data: st.DataObject) -> None:
        names = data.draw(st.permutations(range(len(batch.rows[0]))))
        value, gradient = value_and_gradient(name, batch)
        new_value, new_gradient = value_and_gradient(name, renamed(batch, names))
        axis = 0 if gradient.dim() == 1 else 1
        assert close(value, new_value, 1e-12)
        assert close(gradient.index_select(axis, torch.tensor(names)), new_gradient, 1e-12)


@pytest.mark.parametrize("name", maxsup.list_losses())
def test_a_sample_does_not_see_its_neighbours(name: str):
    @holds_for(EXAMPLES, batch=batches(CASE_OF[name]), other=st.integers(-128, 127).map(lambda n: n / 16))
    def holds(batch: Batch, other: float) -> None:
        batch.shared["reduction"] = "none"
        batch.without_num_items()
        values, gradient = value_and_gradient(name, batch)
        batch.rows[1:] = [[other * (k + 1) for k in range(len(row))] for row in batch.rows[1:]]
        new_values, new_gradient = value_and_gradient(name, batch)
        assert torch.equal(values.reshape(-1)[0], new_values.reshape(-1)[0])
        first = (0, slice(None), 0) if gradient.dim() == 3 else (0,) if gradient.dim() == 2 else ()
        assert torch.equal(gradient[first], new_gradient[first])
