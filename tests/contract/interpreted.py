"""The Triton kernels on CPU tensors, in a process that interprets them; ``test_triton.py`` starts it.

The interpreter takes a twentieth of a second a kernel, so every case here asks several questions.
"""

import inspect
import math

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint
from triton.runtime import interpreter

from maxsup.functional import implementation, linear_maxsup_cross_entropy, maxsup_cross_entropy
from maxsup.losses import MaxSupLoss
from maxsup.losses.computing import forms
from maxsup.losses.device import rows
from maxsup.losses.head import products
from maxsup.schedules import Linear
from tests.contract import calls
from tests.reference.cases import CASES

FUSED = [case.name for case in CASES if case.has_kernel]
TOLERANCE = 1e-6
"""Of the loss against float64, relative. Gradients have the precision of their type."""


def value_and_gradient(name: str, form: str, logits: torch.Tensor, target: torch.Tensor, **options):
    with implementation(form):
        return calls.value_and_gradient(name, logits, target, **options)


def assert_same(name: str, logits: torch.Tensor, target: torch.Tensor, **options) -> None:
    """Value and gradient are those of the formula in float64."""
    value, gradient = value_and_gradient(name, "triton", logits, target, **options)
    expected, expected_gradient = value_and_gradient(name, "reference", logits.double(), target, **options)
    assert gradient.dtype == logits.dtype
    assert torch.allclose(value.double(), expected, rtol=TOLERANCE, atol=1e-6), name
    epsilon = torch.finfo(logits.dtype).eps
    assert torch.allclose(gradient.double(), expected_gradient, rtol=2 * epsilon, atol=max(2e-7, epsilon / 64)), name


@pytest.mark.parametrize("name", FUSED)
def test_rows_longer_than_a_tile_with_a_tile_that_is_masked_equal_the_formula(name: str):
    logits = 3 * torch.randn(3, 8200)
    logits[0, :4096] = -math.inf
    logits[1, 4096:8192] = -math.inf
    logits[2, 17] = logits[2, 8199] = 20.0  # a tie across tiles: the first is the top
    assert_same(name, logits, torch.tensor([5000, 3, 8199]), z_loss=1e-3)


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 3, 3)], ids=str)
def test_strengths_of_samples_equal_the_formula(shape: tuple[int, ...]):
    logits = 3 * torch.randn(shape)
    target = torch.randint(5, (shape[0], *shape[2:]))
    target[0] = -100
    strengths = torch.rand(target.shape)
    found = []
    for form in ("triton", "reference"):
        leaf = logits.clone().requires_grad_()
        with implementation(form):
            loss = maxsup_cross_entropy(leaf, target, strengths)
        found.append(torch.cat([loss.detach().reshape(1), torch.autograd.grad(loss, leaf)[0].flatten()]))
    assert torch.allclose(*found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", FUSED)
def test_half_precision_equals_the_formula_in_double(name: str, dtype: torch.dtype):
    logits = (3 * torch.randn(3, 1001)).to(dtype)
    logits[1, 7] = 12.0  # a true class that is nearly certain: its gradient must not cancel
    assert_same(name, logits, torch.tensor([4, 7, -100]))


LAYOUTS = {
    "rows of a wider matrix": torch.randn(5, 40)[:, :17],
    "columns": torch.randn(12, 5).t(),
    "a single sample": torch.randn(9),
    "planes": torch.randn(2, 6, 3, 4),
    "planes that vectors fit": torch.randn(2, 3, 16),
    "channels last": torch.randn(2, 6, 3, 4).to(memory_format=torch.channels_last),
    "strides of no plane": torch.randn(2, 4, 3, 5).transpose(2, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_equals_the_formula(layout: str):
    logits = LAYOUTS[layout]
    axis = 0 if logits.dim() == 1 else 1
    labels = logits.argmin(axis)
    weight = torch.rand(logits.shape[axis])
    for reduction in ("none", "mean"):
        assert_same("maxsup", logits, labels, weight=weight, reduction=reduction)
        assert_same("ls", logits, torch.randn(logits.shape).softmax(axis), weight=weight, reduction=reduction)


def test_the_kernels_load_and_store_what_the_count_on_meta_says(monkeypatch: pytest.MonkeyPatch):
    moved = []
    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def counted_load(self, pointers, mask, *others):
        loaded = load(self, pointers, mask, *others)
        moved.append(int(mask.data.sum()) * loaded.data.itemsize)
        return loaded

    def counted_store(self, pointers, value, mask, *others):
        moved.append(int(mask.data.sum()) * value.data.itemsize)
        return store(self, pointers, value, mask, *others)

    monkeypatch.setattr(builder, "create_masked_load", counted_load)
    monkeypatch.setattr(builder, "create_masked_store", counted_store)
    for num_classes in (1000, 5000):  # one tile, and two with a rest
        moved.clear()
        logits = torch.randn(2, num_classes)
        value_and_gradient("maxsup", "triton", logits, torch.tensor([1, 7]))
        assert sum(moved) / logits.nbytes == pytest.approx(3, abs=0.05)  # two reads, one write


def test_a_fp16_gradient_meets_the_loss_scaler_before_it_is_rounded():
    logits = torch.zeros(1, 1000, dtype=torch.float16, requires_grad=True)
    with implementation("triton"):
        loss = maxsup_cross_entropy(logits, torch.tensor([0]), num_items=4096)
    (gradient,) = torch.autograd.grad(loss * 2.0**16, logits)
    expected = 2.0**16 * (0.001 - 0.1 / 1000) / 4096
    assert torch.allclose(gradient[0, 1:].float(), torch.tensor(expected), rtol=1e-3)


def checkpointed(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return checkpoint(maxsup_cross_entropy, logits, target, use_reentrant=False)


def divided_in_place(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss = maxsup_cross_entropy(logits, target)
    loss /= 2
    loss *= 2
    return loss


def masked_in_place(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    values = maxsup_cross_entropy(logits, target, reduction="none")
    values *= 1 / 3
    return values.sum()


def with_narrow_labels(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return maxsup_cross_entropy(logits, target.to(torch.int32))


def where_torch_must_be_deterministic(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    torch.use_deterministic_algorithms(True)
    try:
        return maxsup_cross_entropy(logits, target)
    finally:
        torch.use_deterministic_algorithms(False)


WAYS = [checkpointed, divided_in_place, masked_in_place, with_narrow_labels, where_torch_must_be_deterministic]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_is_done_around_a_loss_changes_nothing(way):
    logits, target = torch.randn(3, 5), torch.tensor([1, 4, 0])
    expected, expected_gradient = value_and_gradient("maxsup", "reference", logits, target, alpha=0.1)
    leaf = logits.clone().requires_grad_()
    with implementation("triton"):
        value = way(leaf, target)
        value.backward()
    assert torch.allclose(value, expected, rtol=1e-6)
    assert torch.allclose(leaf.grad, expected_gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(0, 5), (3, 1), (2, 3, 0)], ids=str)
def test_no_samples_and_one_class_are_what_the_formula_makes_of_them(shape: tuple[int, ...]):
    logits, target = torch.zeros(shape), torch.zeros(shape[:1] + shape[2:], dtype=torch.int64)
    for reduction in ("sum", "none"):
        value, gradient = value_and_gradient("maxsup", "triton", logits, target, reduction=reduction)
        expected, expected_gradient = value_and_gradient("maxsup", "reference", logits, target, reduction=reduction)
        assert torch.equal(value, expected)
        assert torch.equal(gradient, expected_gradient)


def test_logits_without_a_graph_and_rows_that_share_memory_have_values():
    logits, target = torch.randn(1, 5).expand(3, 5), torch.tensor([1, 4, 0])
    with implementation("reference"):
        expected = maxsup_cross_entropy(logits, target)
    with implementation("triton"):
        with torch.inference_mode():
            inferred = maxsup_cross_entropy(logits, target)
        with torch.no_grad():
            assert torch.allclose(maxsup_cross_entropy(logits, target), expected, rtol=1e-6)
    assert torch.allclose(inferred, expected, rtol=1e-6)


def test_many_samples_are_added_up_in_one_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows, "PARTIALS_BLOCK", 16)
    logits, target = torch.randn(2600, 3), torch.arange(2600) % 3  # 41 programs, whose sums are added up in three turns
    with implementation("triton"):
        first, second = (maxsup_cross_entropy(logits, target) for _ in range(2))
    with implementation("reference"):
        expected = maxsup_cross_entropy(logits.double(), target)
    assert torch.equal(first, second)
    assert torch.allclose(first.double(), expected, rtol=1e-6)


def test_a_label_that_is_no_class_is_named_on_a_cpu_and_nan_in_the_kernel():
    logits, target = torch.randn(2, 5), torch.tensor([1, 7])
    with implementation("triton"), pytest.raises(ValueError, match="got 7 in row 1"):
        maxsup_cross_entropy(logits, target)
    terms = (-100, "maxsup", 0.0, 0.0)
    inputs = (logits, target, None, None, 0.1)
    values, *kept, _, _ = rows.row_values(*inputs, *terms, *rows.NO_REDUCTION)
    gradient = rows.row_gradient(*inputs, *kept, torch.tensor(1.0), None, *terms)
    assert values.isnan().tolist() == [False, True]
    assert gradient.isnan().all(1).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_head_overwrites_its_logits_by_their_gradient(
    reduction: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(products, "BLOCK_ROWS", 4)  # three blocks, the last one smaller
    hidden, weight, bias = torch.randn(9, 5), torch.randn(33, 5), torch.randn(33)
    target = torch.randint(33, (9,))
    target[2] = -100
    hidden[2] = math.nan
    found = {}
    for form in ("triton", "fused"):
        leaves = [tensor.to(dtype).requires_grad_() for tensor in (hidden, weight, bias)]
        options = {"bias": leaves[2], "reduction": reduction, "margin": 0.5, "z_loss": 1e-2, "soft_cap": 5.0}
        options |= {"logit_scale": 0.5, "return_metrics": True}
        with implementation(form):
            loss, metrics = linear_maxsup_cross_entropy(leaves[0], leaves[1], target, 0.2, **options)
            found[form] = [loss.detach(), *torch.autograd.grad(loss.sum(), leaves), *metrics]
    tolerance = 1e-5 if dtype == torch.float32 else 4e-2
    for own, other in zip(*found.values(), strict=True):
        assert torch.allclose(own.nan_to_num(), other.nan_to_num(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", [rows.NO_REDUCTION, ("mean", None, None, False)], ids=["none", "mean"])
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5)], ids=str)
def test_the_operators_keep_the_promises_of_torch_library(shape: tuple[int, ...], reduction: tuple):
    logits, terms = torch.randn(shape, requires_grad=True), (-100, "maxsup", 0.0, 0.0)
    inputs = (logits, logits.detach().argmin(1), None, torch.tensor(0.1), 0.0)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(rows.row_values, (*inputs, *terms, *reduction), test_utils=checks)
    _, *kept, _, _ = (tensor.detach() for tensor in rows.row_values(*inputs, *terms, *reduction))
    arguments = (logits.detach(), *inputs[1:], *kept, torch.tensor(1.0), None, *terms)
    torch.library.opcheck(rows.row_gradient, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("operator", [rows.row_values, rows.row_gradient, rows.overwrite_rows])
def test_the_operators_name_their_arguments_as_their_schemas_do(operator: torch.library.CustomOpDef):
    named = [argument.name for argument in operator._opoverload._schema.arguments]
    assert list(inspect.signature(operator._init_fn).parameters) == named


def test_a_compiled_loss_goes_through_the_operators_once_for_all_strengths_and_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forms, "TRITON_DEVICES", ("cpu",))  # as on a GPU
    monkeypatch.setattr(forms, "compiled_form", lambda kind: "triton")
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    loss = MaxSupLoss(Linear(0.1, 0.3), weight=torch.rand(6), ignore_index=2)
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=counter)
    for num_rows, progress in ((4, 0.0), (7, 1.0)):
        logits = torch.randn(num_rows, 6, requires_grad=True)
        target = torch.arange(num_rows) % 6
        loss.set_progress(progress)
        values = [each(logits, target, num_items=torch.tensor(5.0)) for each in (compiled, loss)]
        gradients = [torch.autograd.grad(value, logits)[0] for value in values]
        assert torch.allclose(*values, rtol=1e-6)
        assert torch.allclose(*gradients, rtol=1e-5, atol=1e-7)
    graphs = [graph.print_readable(print_output=False) for graph in counter.graphs if len(graph.graph.nodes) > 1]
    assert ["maxsup.row_values" in graph for graph in graphs] == [True]
