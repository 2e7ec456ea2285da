"""``torch.compile(fullgraph=True)`` for all shapes: the same numbers, no graph breaks, no recompilation.

Compiling takes seconds, so one compiled loss serves several questions.
"""

import pytest
import torch
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch.func import grad, vmap

import maxsup
from maxsup.functional import linear_maxsup_cross_entropy
from maxsup.schedules import Linear
from tests.contract.calls import MIXABLE, NAMES, SCHEDULED, call_function, make_loss
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Losses(torch.nn.Module):
    """Several losses of one batch, for a single compilation."""

    def __init__(self, names: list[str], **options) -> None:
        super().__init__()
        self.losses = torch.nn.ModuleDict({name: make_loss(name, **options) for name in names})

    def forward(self, logits: torch.Tensor, target: torch.Tensor, needs: dict[str, dict]) -> torch.Tensor:
        return torch.stack([loss(logits, target, **needs[name]) for name, loss in self.losses.items()])


def values_and_gradient(
    losses, names: list[str], logits: torch.Tensor, target: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Values of all losses, and the gradient of a sum in which each counts differently."""
    leaf = logits.clone().requires_grad_()
    values = losses(leaf, target, {name: needs_of(name, logits) for name in names})
    return values.detach(), torch.autograd.grad(values, leaf, torch.linspace(1, 2, len(names)).double())[0]


def assert_agree(names: list[str], compiled, logits: torch.Tensor, target: torch.Tensor, **options) -> None:
    """Values and gradient of compiled losses are those of eager mode, to 1e-12."""
    eager = Losses(names, **options)
    found, expected = (values_and_gradient(losses, names, logits, target) for losses in (compiled, eager))
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-12, atol=1e-12, equal_nan=True)


def partly_ignored(logits: torch.Tensor) -> torch.Tensor:
    target = labels_for(logits)
    target[1] = -100
    return target


def test_compiled_losses_match_eager_on_labels():
    compiled = torch.compile(Losses(NAMES), fullgraph=True, backend="aot_eager")
    logits = distinct_logits(6, 4)
    assert_agree(NAMES, compiled, logits, partly_ignored(logits))
    values, gradient = values_and_gradient(compiled, NAMES, logits, torch.full((6,), -100))
    assert values.isnan().all()
    assert torch.equal(gradient, torch.zeros_like(logits))


def test_a_loss_compiled_for_all_shapes_matches_eager(name: str):
    counter = CompileCounter()
    compiled = torch.compile(Losses([name]), fullgraph=True, backend=counter, dynamic=True)
    counts = []
    for num_rows in (6, 9, 5):
        logits = distinct_logits(num_rows, 4)
        assert_agree([name], compiled, logits, partly_ignored(logits))
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1


def test_compiled_losses_with_a_z_loss_match_eager_on_probabilities():
    logits, options = distinct_logits(6, 4), {"z_loss": 0.03}
    compiled = torch.compile(Losses(MIXABLE, **options), fullgraph=True, backend="aot_eager")
    assert_agree(MIXABLE, compiled, logits, mixed_for(logits), **options)


def test_maxsup_compiled_to_machine_code_matches_eager_and_is_mbls_with_margin_0_to_the_bit():
    logits = distinct_logits(6, 4)
    losses = Losses(["maxsup"])
    compiled = torch.compile(losses, fullgraph=True, backend="inductor")
    assert_agree(["maxsup"], compiled, logits, partly_ignored(logits))
    expected = values_and_gradient(compiled, ["maxsup"], logits, partly_ignored(logits))
    losses.losses["maxsup"] = maxsup.create_loss("mbls", alpha=0.3, margin=0)
    torch._dynamo.reset()
    found = values_and_gradient(compiled, ["maxsup"], logits, partly_ignored(logits))
    assert all(torch.equal(own, other) for own, other in zip(found, expected, strict=True))


def test_compiled_losses_in_eval_mode_are_cross_entropy():
    compiled = torch.compile(Losses(NAMES).eval(), fullgraph=True, backend="aot_eager")
    logits = distinct_logits(6, 4)
    expected = torch.nn.functional.cross_entropy(logits, labels_for(logits))
    values = compiled(logits, labels_for(logits), {name: {} for name in NAMES})
    assert torch.allclose(values, expected.expand_as(values), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_changing_strength_does_not_recompile_and_leaves_a_pending_backward_as_it_was(name: str):
    counter = CompileCounterWithBackend("aot_eager")
    loss = maxsup.create_loss(name, **{**CASE_OF[name].strength, SCHEDULED[name]: Linear(0.1, 0.3)})
    compiled = torch.compile(loss, fullgraph=True, backend=counter)
    logits = distinct_logits(6, 4, dtype=torch.float32).requires_grad_()
    batch, needs = (logits, labels_for(logits)), needs_of(name, logits)
    loss.set_progress(0.0)
    loss.end_epoch()
    if name == "ols":
        loss(*batch)
    (expected,) = torch.autograd.grad(loss(*batch, **needs), logits)
    pending = compiled(*batch, **needs)
    num_compiled = counter.frame_count
    values = []
    for step in range(1, 6):
        loss.set_progress(step / 5)
        values.append(compiled(*batch, **needs).item())
    assert counter.frame_count == num_compiled
    assert len(set(values)) == 5
    if torch.__version__ < "2.5":  # the strength is refilled there
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(pending, logits)
    else:
        assert torch.allclose(torch.autograd.grad(pending, logits)[0], expected, rtol=1e-5, atol=1e-6)


def test_num_items_that_changes_every_step_compiles_once():
    counter = CompileCounter()
    compiled = torch.compile(maxsup.MaxSupLoss(0.1), fullgraph=True, backend=counter)
    logits = distinct_logits(6, 4, dtype=torch.float32)
    values = {compiled(logits, labels_for(logits), num_items=torch.tensor(float(n))).item() for n in (3, 6, 9, 12)}
    assert counter.frame_count == 1
    assert len(values) == 4


def test_num_items_that_is_counted_inside_compiles_without_a_break():
    def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return maxsup.functional.maxsup_cross_entropy(logits, target, num_items=(target != -100).sum().item())

    logits = distinct_logits(6, 4, dtype=torch.float32)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        value = torch.compile(loss, fullgraph=True, backend="eager")(logits, labels_for(logits))
    assert torch.allclose(value, loss(logits, labels_for(logits)))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="older compilers cannot ask whether a transform is active")
def test_gradients_of_single_samples_compile():
    def value(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return sum(call_function(name, logits, target) for name in ("maxsup", "ls"))

    logits = distinct_logits(5, 4)
    compiled = torch.compile(vmap(grad(value)), fullgraph=True, backend="aot_eager")
    expected = vmap(grad(value))(logits, labels_for(logits))
    assert torch.allclose(compiled(logits, labels_for(logits)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_head_compiled_for_all_shapes_matches_eager(reduction: str):
    counter = CompileCounterWithBackend("aot_eager")

    def head(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        terms = {"margin": 1.0, "z_loss": 0.03, "soft_cap": 4.0} if reduction == "none" else {}
        return linear_maxsup_cross_entropy(hidden, weight, target, 0.3, bias=bias, reduction=reduction, **terms)

    compiled = torch.compile(head, fullgraph=True, backend=counter, dynamic=True)
    weight, bias = torch.randn(7, 3, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64)
    bias.requires_grad_()
    counts = []
    for num_rows in (11, 300, 5):
        hidden = torch.randn(num_rows, 3, dtype=torch.float64, requires_grad=True)
        target = torch.arange(num_rows) % 7
        target[1] = -100
        tensors = [hidden, weight, bias]
        results = []
        for function in (head, compiled):
            loss = function(*tensors, target)
            upstream = torch.linspace(-1, 2, loss.numel(), dtype=torch.float64).reshape(loss.shape)
            results.append([loss, *torch.autograd.grad(loss, tensors, upstream)])
        assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(*results, strict=True))
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1
