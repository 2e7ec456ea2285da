import math

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from maxsup.functional import (
    confidence_penalty_cross_entropy,
    implementation,
    label_smoothing_cross_entropy,
    maxsup_cross_entropy,
)

LOSSES = [maxsup_cross_entropy, label_smoothing_cross_entropy, confidence_penalty_cross_entropy]
# Rows and planes, of which some are small, narrow, or more than one block.
SHAPES = [
    (40, 10), (900, 12), (40_000, 3), (70, 100), (300, 300),
    (9, 4, 5), (600, 40, 3, 5), (16, 600, 9), (3, 30, 9, 11), (2, 3, 70_000),
]  # fmt: skip


def loss_and_gradient(loss, logits: Tensor, target: Tensor, **options) -> tuple[Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    value = loss(logits, target, **options)
    value.backward()
    return value.detach(), logits.grad


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["labels", "ignored", "weights", "probabilities", "masked"])
def test_every_arrangement_of_samples_gives_the_loss_of_the_formula(loss, shape: tuple[int, ...], kind: str) -> None:
    logits = torch.randn(shape, dtype=torch.float64)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    options = {"weight": torch.rand(shape[1], dtype=torch.float64)} if kind == "weights" else {}
    if kind == "masked":
        logits[:, 1].masked_fill_(target != 1, -math.inf)
    if kind == "probabilities":
        target = torch.randn(shape, dtype=torch.float64).softmax(1)
    if kind == "ignored":
        target[::3] = -100
    found = loss_and_gradient(loss, logits, target, **options)
    with implementation("reference"):
        expected = loss_and_gradient(loss, logits, target, **options)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("form", ["fused", "eager"])
@pytest.mark.parametrize("shape", [(64, 100), (300, 300), (300, 9, 4, 5)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_soft", [False, True])
def test_a_common_offset_costs_no_digits(loss, shape: tuple[int, ...], form: str, is_soft: bool) -> None:
    logits = torch.randn(shape) + 1e6
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    if is_soft:
        target = torch.nn.functional.one_hot(target, shape[1]).movedim(-1, 1).float()
    expected = loss(logits.double(), target.double() if is_soft else target)
    with implementation(form):
        assert float(loss(logits, target)) == pytest.approx(float(expected), rel=2e-6)


def num_operators(shape: tuple[int, ...]) -> int:
    logits = torch.randn(shape, requires_grad=True)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    with profile(activities=[ProfilerActivity.CPU]) as record:
        maxsup_cross_entropy(logits, target).backward()
    return sum(event.count for event in record.key_averages() if event.key.startswith("aten::"))


def test_operators_do_not_grow_with_the_samples() -> None:
    assert num_operators((4000, 10, 2)) <= num_operators((1000, 10, 8)) + 10
    assert num_operators((4000, 10, 2)) < 300
