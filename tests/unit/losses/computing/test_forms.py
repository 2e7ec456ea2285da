"""Which form computes a loss on which device, and what the form for a device without kernels moves."""

import pytest
import torch

from benchmarks.traffic import allocated, traffic
from maxsup.functional import implementation, maxsup_cross_entropy
from maxsup.lab.bench.baselines import torch_label_smoothing
from maxsup.losses import penalized
from maxsup.losses.computing import forms
from maxsup.losses.computing.forms import compiled_form, default_form, triton_obstacle
from maxsup.losses.device import eager
from tests.contract.calls import call_function
from tests.reference.cases import CASES

SHAPES = [
    ((256, 1000), torch.float32),
    ((256, 1000), torch.bfloat16),
    ((4096, 32000), torch.bfloat16),
    ((256, 128256), torch.bfloat16),
]


@pytest.fixture(autouse=True)
def forget_defaults():
    default_form.cache_clear()
    yield
    default_form.cache_clear()


def batch_on_meta(shape: tuple[int, int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)
    return logits, torch.empty(shape[:1], dtype=torch.int64, device="meta")


@pytest.mark.skipif(not eager.WIDENS_ON_META, reason="this torch does not count on meta as a GPU does")
@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
def test_few_operators_move_less_than_label_smoothing(shape: tuple[int, int], dtype: torch.dtype):
    logits, target = batch_on_meta(shape, dtype)
    ours, theirs = (
        traffic(lambda loss=loss: torch.autograd.grad(loss(logits, target), logits))
        for loss in (maxsup_cross_entropy, torch_label_smoothing)
    )
    assert ours.num_bytes < theirs.num_bytes
    # Soft-max, its write, the top, the mean, and the gradient; in bf16 what is kept is twice as wide.
    assert ours.num_bytes / logits.nbytes == pytest.approx(6 if dtype == torch.float32 else 8, abs=0.2)
    assert len(ours.kernels) <= len(theirs.kernels) == 22


@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
def test_the_kernels_move_the_logits_three_times(shape: tuple[int, int], dtype: torch.dtype):
    logits, target = batch_on_meta(shape, dtype)
    with implementation("triton"):
        moved = traffic(lambda: torch.autograd.grad(maxsup_cross_entropy(logits, target), logits))
    assert moved.num_bytes / logits.nbytes == pytest.approx(3, abs=0.05)
    # The ones are autograd's own upstream.
    assert moved.kernels == ("row_values", "ones_like", "row_gradient")


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
def test_the_kernels_take_the_memory_of_one_gradient(shape: tuple[int, int], dtype: torch.dtype, reduction: str):
    logits, target = batch_on_meta(shape, dtype)
    upstream = torch.empty(shape[:1] if reduction == "none" else (), device="meta")
    with implementation("triton"):
        made = allocated(
            lambda: torch.autograd.grad(maxsup_cross_entropy(logits, target, reduction=reduction), logits, upstream)
        )
    # If nothing were ever freed: nine numbers a sample beside the gradient, the loss and its denominator.
    assert made <= logits.nbytes + 4 * (9 * shape[0] + 2)


def test_where_torch_must_be_deterministic_nothing_is_added_at_indices():
    logits, target = batch_on_meta((6, 4), torch.float32)
    was_on = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for weight in (None, torch.empty(4, device="meta")):
            moved = traffic(
                lambda weight=weight: torch.autograd.grad(maxsup_cross_entropy(logits, target, weight=weight), logits)
            )
            # scatter_ that overwrites is what a GPU can do in a fixed order.
            assert moved.kernels.count("scatter_") == 2
            assert "scatter_add_" not in moved.kernels
            assert moved.kernels.count("gather") == 4
    finally:
        torch.use_deterministic_algorithms(was_on)


@pytest.mark.parametrize("form", ["eager", "triton"])
@pytest.mark.parametrize("name", [case.name for case in CASES if case.is_fused])
def test_nothing_on_a_device_is_looked_at(name: str, form: str):
    # A value on meta cannot be read: any .item(), bool() or float() of one would raise.
    logits = torch.empty(6, 4, device="meta", requires_grad=True)
    labels = torch.empty(6, dtype=torch.int64, device="meta")
    mixed = torch.empty(6, 4, device="meta")
    weight, count = torch.empty(4, device="meta"), torch.empty((), device="meta")
    with implementation(form):
        for target, options in [(labels, {}), (labels, {"weight": weight}), (mixed, {"num_items": count})]:
            loss = call_function(name, logits, target, **options)
            (gradient,) = torch.autograd.grad(loss, logits)
            assert (loss.shape, gradient.shape) == ((), (6, 4))


@pytest.mark.parametrize(("is_capturing", "sync_debug_mode"), [(False, 0), (True, 0), (False, 1), (False, 2)])
def test_a_value_on_a_gpu_is_read_only_where_the_host_may_wait(
    is_capturing: bool, sync_debug_mode: int, monkeypatch: pytest.MonkeyPatch
):
    class OnGpu:
        device, num_reads = torch.device("cuda"), 0

        def abs(self) -> torch.Tensor:
            self.num_reads += 1
            return torch.tensor(0.0)

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: is_capturing)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: sync_debug_mode)
    means, tops = OnGpu(), OnGpu()
    may_wait = not is_capturing and sync_debug_mode == 0
    is_finite, is_near = eager._is_ordinary(means, tops)
    assert (is_finite, is_near) == (may_wait, True)
    assert means.num_reads == may_wait
    assert tops.num_reads == 0


def test_the_kernels_keep_a_few_numbers_a_sample():
    logits, target = batch_on_meta((64, 1000), torch.bfloat16)
    kept = []
    with implementation("triton"), torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        maxsup_cross_entropy(logits, target)
    assert sum(tensor.numel() for tensor in kept if tensor is not logits and tensor.numel() >= 64) <= 7 * 64


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cases_say_which_losses_have_a_closed_gradient(case, monkeypatch: pytest.MonkeyPatch):
    called = []
    for name in ("small_loss", "device_loss"):
        monkeypatch.setattr(penalized, name, lambda *args: called.append(args) or torch.zeros(()))
    call_function(case.name, torch.randn(6, 4), torch.arange(6) % 4)
    assert bool(called) == case.is_fused


@pytest.mark.parametrize("case", [case for case in CASES if case.is_fused], ids=lambda case: case.name)
def test_few_operators_serve_what_has_no_kernel(case, monkeypatch: pytest.MonkeyPatch):
    chosen = []
    monkeypatch.setattr(penalized, "device_loss", lambda *args: chosen.append(args[-1]) or torch.zeros(()))
    with implementation("triton"):
        call_function(case.name, torch.empty(6, 4, device="meta"), torch.empty(6, dtype=torch.int64, device="meta"))
    assert chosen == ["triton" if case.has_kernel else "eager"]


@pytest.mark.skipif(not forms.find_spec("triton"), reason="Triton is not installed")
def test_a_gpu_gets_the_kernels_unless_something_is_too_old(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(forms.import_module("triton"), "__version__", "3.3.1")
    assert default_form("cuda").name == "triton"
    assert compiled_form("cuda") == "triton"
    monkeypatch.setattr(forms.import_module("triton"), "__version__", "3.0.0")
    assert triton_obstacle("cuda") == "triton is 3.0.0, and the kernels need 3.3"
    monkeypatch.setattr(forms.import_module("triton"), "__version__", "3.10.0+git")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (6, 1))
    assert triton_obstacle("cuda") == "Triton needs a GPU of compute capability 7.0"


def test_a_device_without_triton_gets_few_operators_with_a_reason(monkeypatch: pytest.MonkeyPatch):
    assert default_form("cpu").name == "fused"
    monkeypatch.setattr(forms, "find_spec", lambda name: True)
    assert default_form("mps") == ("eager", "Triton has no back end for mps")
    monkeypatch.setattr(forms, "find_spec", lambda name: None)
    assert default_form("cuda") == ("eager", "the package triton is not installed")


def test_kernels_that_cannot_run_are_refused_with_a_reason():
    with (
        implementation("triton"),
        pytest.raises(RuntimeError, match=r"cannot serve logits on cpu: .*TRITON_INTERPRET=1"),
    ):
        maxsup_cross_entropy(torch.randn(2, 3), torch.tensor([0, 1]))


@pytest.mark.skipif(not forms.TRACES_CONSTANTS, reason="a compiled loss does not ask with this torch")
@pytest.mark.parametrize("obstacle", [None, "none here"])
def test_a_compiler_takes_the_form_for_a_constant(obstacle: str | None, monkeypatch: pytest.MonkeyPatch):
    torch.compiler.reset()
    monkeypatch.setattr(forms, "triton_obstacle", lambda kind: obstacle)

    def chosen(logits: torch.Tensor) -> torch.Tensor:
        return logits + (1 if compiled_form("cuda") == "triton" else 2)

    compiled = torch.compile(chosen, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1)).item() == (1 if obstacle is None else 2)
