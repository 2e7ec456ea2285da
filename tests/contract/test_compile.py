"""``torch.compile(fullgraph=True)``: the same numbers, no graph breaks, no recompilation when the strength changes."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import maxsup
from maxsup.schedules import Linear
from tests.contract.calls import (
    NAMES,
    SCHEDULED,
    TAKES_PROBABILITIES,
    call_function,
    labels_for,
    logits_without_ties,
    make_loss,
    needs_of,
    probabilities_for,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def value_and_gradient(
    loss, logits: torch.Tensor, target: torch.Tensor, needs: dict
) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target, **needs)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def agree(name: str, backend: str, target_of, tolerance: float) -> bool:
    logits = logits_without_ties(6, 4)
    target, needs = target_of(logits), needs_of(name, logits)
    eager = value_and_gradient(make_loss(name), logits, target, needs)
    compiled_loss = torch.compile(make_loss(name), fullgraph=True, backend=backend)
    compiled = value_and_gradient(compiled_loss, logits, target, needs)
    return all(torch.allclose(a, b, rtol=tolerance, atol=tolerance) for a, b in zip(eager, compiled, strict=True))


def partly_ignored(logits: torch.Tensor) -> torch.Tensor:
    target = labels_for(logits)
    target[1] = -100
    return target


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_loss_matches_eager_on_labels(name: str):
    assert agree(name, "aot_eager", partly_ignored, 1e-12)


@pytest.mark.parametrize("name", TAKES_PROBABILITIES)
def test_a_compiled_loss_matches_eager_on_probabilities(name: str):
    assert agree(name, "aot_eager", probabilities_for, 1e-12)


def test_maxsup_compiled_to_machine_code_matches_eager():
    assert agree("maxsup", "inductor", partly_ignored, 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_loss_in_eval_mode_is_cross_entropy(name: str):
    logits = logits_without_ties(6, 4)
    compiled = torch.compile(make_loss(name).eval(), fullgraph=True, backend="aot_eager")
    expected = torch.nn.functional.cross_entropy(logits, labels_for(logits))
    assert torch.allclose(compiled(logits, labels_for(logits)), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_function_matches_eager(name: str):
    logits = logits_without_ties(6, 4)
    compiled = torch.compile(call_function, fullgraph=True, backend="aot_eager")
    expected = call_function(name, logits, labels_for(logits))
    assert torch.allclose(compiled(name, logits, labels_for(logits)), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_changing_strength_does_not_recompile(name: str):
    counter = CompileCounter()
    loss = maxsup.create_loss(name, **{SCHEDULED[name]: Linear(0.1, 0.3)})
    compiled = torch.compile(loss, fullgraph=True, backend=counter)
    logits = logits_without_ties(6, 4, dtype=torch.float32)
    if name == "ols":
        loss.set_progress(0.0)
        loss(logits, labels_for(logits))
    values = []
    for step in range(6):
        loss.set_progress(step / 5)
        values.append(compiled(logits, labels_for(logits), **needs_of(name, logits)).item())
    assert counter.frame_count == 1
    assert len(set(values)) == 6


def test_num_items_that_changes_every_step_compiles_once():
    counter = CompileCounter()
    compiled = torch.compile(maxsup.MaxSupLoss(0.1), fullgraph=True, backend=counter)
    logits = logits_without_ties(6, 4, dtype=torch.float32)
    values = {compiled(logits, labels_for(logits), num_items=torch.tensor(float(n))).item() for n in (3, 6, 9, 12)}
    assert counter.frame_count == 1
    assert len(values) == 4
