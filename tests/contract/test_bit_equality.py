"""``alpha=0`` is bit-equal to ``F.cross_entropy`` over the whole argument grid, in value and gradient."""

from collections.abc import Iterator
from itertools import product

import pytest
import torch
import torch.nn.functional as F

import maxsup
from maxsup.functional import maxsup_cross_entropy

NUM_CLASSES = 5
SHAPES = [(5,), (7, 5), (1, 5), (3, 5, 4), (2, 5, 3, 2)]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
REDUCTIONS = ["none", "mean", "sum"]
LABEL_IGNORES = [-100, -1, 255, 2]
PROBABILITY_IGNORES = [-100, -1]
KINDS = [("labels", ignore_index) for ignore_index in LABEL_IGNORES] + [
    ("probabilities", ignore_index) for ignore_index in PROBABILITY_IGNORES
]
NUM_CASES = len(SHAPES) * len(KINDS) * 2 * len(REDUCTIONS) * len(DTYPES)
"""Shapes x kinds of target and ignored index x with and without weights x reductions x dtypes: 720."""


def target_for(logits: torch.Tensor, kind: str, ignore_index: int) -> torch.Tensor:
    axis = 0 if logits.dim() == 1 else 1
    if kind == "probabilities":
        return torch.randn(logits.shape).softmax(axis).to(logits.dtype)
    labels = torch.randint(NUM_CLASSES, logits.shape[:axis] + logits.shape[axis + 1 :])
    if labels.numel() > 2:
        labels.view(-1)[1] = ignore_index
    return labels


def grid(dtype: torch.dtype) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict]]:
    for shape, (kind, ignore_index), weighted, reduction in product(SHAPES, KINDS, (False, True), REDUCTIONS):
        logits = (3.0 * torch.randn(shape)).to(dtype)
        weight = torch.tensor([0.5, 2.0, 0.25, 1.0, 3.0], dtype=dtype) if weighted else None
        options = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
        yield logits, target_for(logits, kind, ignore_index), options


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in dtype, shape and every element, where nan equals nan."""
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and bool(((left == right) | (left.isnan() & right.isnan())).all())
    )


def first_difference(loss, dtype: torch.dtype) -> tuple[int, list]:
    """Number of cases on which value and gradient have the bits of ``F.cross_entropy``, and the first other one."""
    seen = 0
    for logits, target, options in grid(dtype):
        left, right = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        actual, expected = loss(left, target, options), F.cross_entropy(right, target, **options)
        upstream = torch.randn(expected.shape).to(expected.dtype)
        actual.backward(upstream)
        expected.backward(upstream)
        if not (same_bits(actual, expected) and same_bits(left.grad, right.grad)):
            return seen, [tuple(logits.shape), target.dtype, options, actual, expected]
        seen += 1
    return seen, []


def test_the_grid_has_several_hundred_cases():
    assert NUM_CASES == 720
    assert sum(1 for dtype in DTYPES for _ in grid(dtype)) == NUM_CASES


OFF = {
    "the function at alpha 0": lambda z, y, options: maxsup_cross_entropy(z, y, 0.0, **options),
    "the module at alpha 0": lambda z, y, options: maxsup.MaxSupLoss(0.0, **options)(z, y),
    "the module in evaluation": lambda z, y, options: maxsup.MaxSupLoss(0.1, **options).eval()(z, y),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("loss", OFF.values(), ids=OFF)
def test_maxsup_that_is_off_is_cross_entropy(loss, dtype: torch.dtype):
    seen, difference = first_difference(loss, dtype)
    assert difference == []
    assert seen == NUM_CASES // len(DTYPES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_rule_for_empty_means_leaves_the_others_alone(dtype: torch.dtype):
    weights = (None, torch.tensor([0.5, 2.0, 0.25, 1.0, 3.0], dtype=dtype))
    for size, weight in product((2, 257, 301, 997), weights):
        logits = torch.randn(size, NUM_CLASSES).to(dtype)
        target = torch.randint(NUM_CLASSES, (size,))
        expected = F.cross_entropy(logits, target, weight)
        assert same_bits(maxsup_cross_entropy(logits, target, 0.0, weight=weight, empty="zero"), expected)
