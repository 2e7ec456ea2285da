"""A loss of strength zero, or in eval mode, is ``F.cross_entropy`` to the last bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import maxsup
from maxsup.schedules import Linear
from tests.contract.calls import SCHEDULED, SWITCHABLE, make_loss
from tests.contract.samples import WEIGHT, distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def targets_for(logits: Tensor) -> list[Tensor]:
    labels = labels_for(logits)
    ignored = labels.clone()
    ignored.view(-1)[0] = -100
    return [labels, ignored, mixed_for(logits)]


def is_cross_entropy(
    loss: torch.nn.Module, logits: Tensor, target: Tensor, needs: dict[str, Tensor], **options
) -> bool:
    left, right = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    actual, expected = loss(left, target, **needs), F.cross_entropy(right, target, **options)
    upstream = torch.randn(expected.shape).to(expected.dtype)
    actual.backward(upstream)
    expected.backward(upstream)
    return (
        actual.dtype == expected.dtype
        and torch.equal(actual, expected)
        and left.grad.dtype == right.grad.dtype
        and torch.equal(left.grad, right.grad)
    )


def test_only_two_losses_have_no_strength_that_switches_them_off():
    assert set(CASE_OF) - set(SWITCHABLE) == {"adaptive_ls", "logit_norm"}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", SWITCHABLE)
def test_strength_zero_is_cross_entropy(name: str, reduction: str, dtype: torch.dtype):
    logits = distinct_logits(6, 4, 2, dtype=dtype)
    options = {"weight": WEIGHT.to(dtype), "reduction": reduction}
    for target in targets_for(logits)[: 3 if CASE_OF[name].takes_probabilities else 2]:
        loss = maxsup.create_loss(name, **CASE_OF[name].off, **options)
        loss.end_epoch()
        assert is_cross_entropy(loss, logits, target, needs_of(name, logits), **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(set(SWITCHABLE) & set(SCHEDULED)))
def test_a_schedule_is_cross_entropy_where_it_is_zero(name: str, dtype: torch.dtype):
    logits = distinct_logits(6, 4, dtype=dtype)
    needs = needs_of(name, logits)
    loss = maxsup.create_loss(
        name, **{**CASE_OF[name].strength, **CASE_OF[name].off, SCHEDULED[name]: Linear(0.0, 0.2)}
    )
    loss.end_epoch()
    for progress, is_off in ((0.0, True), (1.0, False), (0.0, True)):
        loss.set_progress(progress)
        for target in targets_for(logits)[: 3 if CASE_OF[name].takes_probabilities else 2]:
            if is_off:
                assert is_cross_entropy(loss, logits, target, needs)
            else:
                difference = loss(logits, target, **needs) - F.cross_entropy(logits, target)
                assert difference.abs() > 1e-4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_eval_mode_is_cross_entropy(name: str, reduction: str, dtype: torch.dtype):
    logits = distinct_logits(6, 4, 2, dtype=dtype)
    options = {"weight": WEIGHT.to(dtype), "reduction": reduction}
    loss = make_loss(name, torch.float32, **options).eval()
    for target in targets_for(logits):
        assert is_cross_entropy(loss, logits, target, {}, **options)
        assert is_cross_entropy(loss, logits, target, needs_of(name, logits), **options)


def test_training_mode_is_not_cross_entropy(name: str):
    logits = distinct_logits(6, 4)
    loss = make_loss(name)(logits, labels_for(logits), **needs_of(name, logits))
    differs = (loss - F.cross_entropy(logits, labels_for(logits))).abs() > 1e-3
    assert bool(differs) == (name != "ce")
