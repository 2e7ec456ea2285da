"""A cast of the module (``half()``, ``bf16-true``) narrows neither what a loss counted nor what it computes with."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

import maxsup
from maxsup.schedules import Linear
from tests.contract.calls import SCHEDULED
from tests.contract.samples import NUM_CLASSES, needs_of
from tests.reference.cases import CASE_OF

NUM_SAMPLES = 1200
"""More than 256 per class, where counting by one stops in bfloat16."""
TOLERANCE = 1e-6
"""Relative; both twins compute in float32 at least."""

CASTS: dict[str, Callable[[nn.Module], object]] = {
    "half": lambda module: module.half(),
    "bfloat16": lambda module: module.bfloat16(),
    "double": lambda module: module.double(),
    "to(bfloat16)": lambda module: module.to(torch.bfloat16),
    "to(cpu, float16)": lambda module: module.to("cpu", torch.float16),
    "within a model": lambda module: nn.ModuleDict({"head": nn.Linear(2, 2), "criterion": module}).bfloat16(),
    "there and back": lambda module: module.bfloat16().float(),
}


def loss_of(name: str) -> nn.Module:
    options = dict(CASE_OF[name].strength)
    if name in SCHEDULED:
        options[SCHEDULED[name]] = Linear(0.0, options[SCHEDULED[name]])
    if name == "ols":
        options["num_classes"] = NUM_CLASSES
    return maxsup.create_loss(name, weight=torch.tensor([0.1, 0.7, 1.3, 3.3], dtype=torch.float32), **options)


def trained(loss: nn.Module, name: str, cast: Callable[[nn.Module], object] | None = None) -> list[torch.Tensor]:
    """Values of the batches of two epochs; the cast happens in the middle of the first."""
    generator = torch.Generator().manual_seed(0)
    values = []
    loss.end_epoch()
    for epoch in range(2):
        loss.set_progress(0.3 + 0.4 * epoch)
        for batch in range(2):
            target = torch.arange(NUM_SAMPLES) % NUM_CLASSES
            logits = torch.randn(NUM_SAMPLES, NUM_CLASSES, generator=generator, dtype=torch.float32)
            logits[torch.arange(NUM_SAMPLES), target] += 4.0
            values.append(loss(logits, target, **needs_of(name, logits)))
            if epoch == batch == 0 and cast is not None:
                cast(loss)
        loss.end_epoch()
    return values


def assert_twins(loss: nn.Module, values: list[torch.Tensor], name: str) -> None:
    twin = loss_of(name)
    for value, expected in zip(values, trained(twin, name), strict=True):
        assert float(value) == pytest.approx(float(expected), rel=TOLERANCE)
    expected_state = twin.state_dict()
    assert loss.state_dict().keys() == expected_state.keys()
    for key, state in loss.state_dict().items():
        assert state.dtype not in (torch.float16, torch.bfloat16)
        assert torch.allclose(state.double(), expected_state[key].double(), rtol=TOLERANCE, atol=1e-9), key


def test_a_cast_loss_trains_and_counts_like_its_uncast_twin(name: str):
    for cast in CASTS.values():
        loss = loss_of(name)
        assert_twins(loss, trained(loss, name, cast), name)


@pytest.fixture(params=[torch.bfloat16, torch.float64], ids=str)
def another_default(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("another_default")
def test_a_loss_built_under_another_default_dtype_trains_like_its_twin(name: str):
    loss = loss_of(name)
    values = trained(loss, name)
    torch.set_default_dtype(torch.float32)
    assert_twins(loss, values, name)


@pytest.mark.parametrize("cast", CASTS)
def test_a_matrix_that_is_made_after_the_cast_is_wide_too(cast: str):
    loss = maxsup.create_loss("ols", alpha=Linear(0.1, 0.3))
    loss.set_progress(0.5)
    loss.end_epoch()
    CASTS[cast](loss)
    logits = torch.eye(NUM_CLASSES).repeat(300, 1)
    for _ in range(2):
        loss(logits, torch.arange(NUM_CLASSES).repeat(300))
    assert loss.counts.tolist() == [600] * NUM_CLASSES
    loss.end_epoch()
    assert loss.matrix.dtype == (torch.float64 if cast == "double" else torch.float32)
    # 600 numbers were added up in float32.
    assert torch.allclose(loss.matrix.sum(1), torch.ones(NUM_CLASSES, dtype=loss.matrix.dtype), rtol=1e-4, atol=0)


def test_counts_do_not_stop_where_single_precision_has_no_next_integer():
    loss = maxsup.create_loss("ols", num_classes=2)
    loss.end_epoch()
    logits, target = torch.tensor([[20.0, 0.0]]), torch.tensor([0])
    loss(logits, target)
    loss.counts[0] = 2**24
    loss.accumulator[0] = torch.tensor([2.0**24, 0.0])
    for _ in range(2):
        loss(logits.expand(8, 2), target.expand(8))
    assert loss.counts[0] == 2**24 + 16
    assert loss.accumulator[0, 0] == 2.0**24 + 16
