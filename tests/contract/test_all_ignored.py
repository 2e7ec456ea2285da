"""Batches in which nothing counts: the gradient is exactly 0, as that of torch, in every loss, form and reduction."""

import math

import pytest
import torch
import torch.nn.functional as F

from maxsup.functional import linear_maxsup_cross_entropy
from tests.conftest import IS_INTERPRETED
from tests.contract.calls import call_function
from tests.contract.samples import WEIGHT, distinct_logits, labels_for

OPTIONS = [
    {},
    {"weight": WEIGHT},
    {"num_items": 5},
    {"num_items": 0},
    {"num_items": torch.tensor(0)},
    {"empty": "zero"},
    {"reduction": "sum"},
    {"reduction": "none"},
]
# Fewer in the interpreter, where every kernel takes a twentieth of a second.
SHAPES = [(2, 4, 3)] if IS_INTERPRETED else [(3, 4), (2, 4, 3), (4,)]
UPSTREAMS = [3.0, math.inf] if IS_INTERPRETED else [1.0, 3.0, math.inf, math.nan]
"""Upstream gradients; a sum that is divided by 0 targets sends back infinities."""


def all_ignored(logits: torch.Tensor, label: int) -> torch.Tensor:
    return torch.full_like(labels_for(logits), label)


def gradient(loss: torch.Tensor, leaf: torch.Tensor, upstream: float) -> torch.Tensor:
    return torch.autograd.grad(loss, leaf, torch.full_like(loss, upstream), retain_graph=True)[0]


@pytest.mark.usefixtures("each_implementation")
def test_a_batch_in_which_nothing_counts_has_gradient_zero(name: str):
    for shape in SHAPES:
        logits = distinct_logits(*shape).requires_grad_()
        for options in OPTIONS:
            loss = call_function(name, logits, all_ignored(logits, 255), ignore_index=255, **options)
            for upstream in UPSTREAMS:
                assert torch.equal(gradient(loss, logits, upstream), torch.zeros_like(logits)), (
                    shape,
                    options,
                    upstream,
                )


@pytest.mark.parametrize("options", [{}, {"weight": WEIGHT}, {"reduction": "sum"}, {"reduction": "none"}], ids=str)
def test_torch_itself_gives_gradient_zero(options: dict):
    for shape in SHAPES:
        logits = distinct_logits(*shape).requires_grad_()
        loss = F.cross_entropy(logits, all_ignored(logits, -100), **options)
        assert loss.isnan().all() == (options.get("reduction", "mean") == "mean")
        for upstream in UPSTREAMS:
            assert torch.equal(gradient(loss, logits, upstream), torch.zeros_like(logits))


@pytest.mark.usefixtures("each_implementation")
def test_an_ignored_row_stays_at_zero_when_what_comes_back_is_not_finite(name: str):
    logits = distinct_logits(5, 4).requires_grad_()
    target = labels_for(logits)
    target[2] = -100
    loss = call_function(name, logits, target, reduction="none")
    for upstream in (math.inf, math.nan):
        assert torch.equal(gradient(loss, logits, upstream)[2], torch.zeros(4, dtype=torch.float64))


@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_head_on_which_nothing_counts_has_gradient_zero(dtype: torch.dtype):
    hidden, weight, bias = (torch.randn(*shape).to(dtype).requires_grad_() for shape in [(3, 5), (4, 5), (4,)])
    target = torch.full((3,), -100)
    for options in [{}, {"num_items": 0}, {"num_items": 5}, {"reduction": "sum"}, {"reduction": "none"}]:
        loss = linear_maxsup_cross_entropy(hidden, weight, target, 0.3, bias=bias, **options)
        for upstream in UPSTREAMS:
            for tensor in (hidden, weight, bias):
                assert torch.equal(gradient(loss, tensor, upstream), torch.zeros_like(tensor)), (options, upstream)
