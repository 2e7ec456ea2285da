"""Logits near the largest number, masked true classes and infinite class weights: as torch, in every form."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.contract.calls import MIXABLE, call_function, value_and_gradient
from tests.contract.samples import distinct_logits, labels_for, mixed_for
from tests.reference.cases import CASE_OF

pytestmark = pytest.mark.usefixtures("each_implementation")

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SIGNS = torch.tensor(
    [[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, 0], [0, 1, -1, 1], [0, 0, 0, -1], [1, 0, 0, 0], [0, 1, 0, 0]]
)


def targets_for(name: str, logits: Tensor) -> list[Tensor]:
    return [labels_for(logits), mixed_for(logits)] if name in MIXABLE else [labels_for(logits)]


def values_of(name: str, logits: Tensor, target: Tensor, **options) -> Tensor:
    return call_function(name, logits, target, reduction="none", **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_loss_of_the_largest_logits_is_a_number_or_plus_infinity_where_cross_entropy_is_a_number(
    name: str, dtype: torch.dtype
):
    logits = SIGNS.to(dtype) * (0.9 * torch.finfo(dtype).max)
    for target in targets_for(name, logits):
        is_number = F.cross_entropy(logits, target, reduction="none").isfinite()
        assert is_number[:2].all()
        values, gradient = value_and_gradient(name, logits, target, reduction="none")
        assert (values[is_number] > -math.inf).all()
        if not CASE_OF[name].squares_logits:
            assert values[:2].isfinite().all()
            assert gradient[is_number].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_masked_true_class_costs_what_it_costs_in_cross_entropy(name: str, dtype: torch.dtype):
    logits = distinct_logits(4, 4, dtype=dtype)
    logits[0, 0] = logits[3, 2] = logits[3, 1] = logits[2, 3] = -math.inf
    for target in targets_for(name, logits):
        expected = F.cross_entropy(logits, target, reduction="none")
        values, gradient = value_and_gradient(name, logits, target, reduction="none")
        assert expected[0] == math.inf
        assert (values == math.inf).tolist() == (expected == math.inf).tolist()
        assert gradient.isfinite().all()


def test_a_sample_of_infinite_weight_costs_infinity_and_no_other_does(name: str):
    logits = distinct_logits(4, 4)
    weight = torch.tensor([math.inf, 1.0, 2.0, 1.0], dtype=torch.float64)
    for target in targets_for(name, logits):
        expected = F.cross_entropy(logits, target, weight, reduction="none")
        assert expected[0] == math.inf
        values = values_of(name, logits, target, weight=weight)
        assert torch.equal(values == math.inf, expected == math.inf)
        assert torch.equal(values.isnan(), expected.isnan())
