"""Half-precision logits: computed in float32, gradient in the dtype of the logits."""

import pytest
import torch

import maxsup
from tests.contract.calls import MIXABLE, make_loss, value_and_gradient
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of
from tests.reference.cases import CASE_OF

pytestmark = pytest.mark.usefixtures("each_implementation")

HALVES = [torch.bfloat16, torch.float16]
KINDS = [*((name, labels_for) for name in CASE_OF), *((name, mixed_for) for name in MIXABLE)]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in KINDS if name != "ce"])
def test_half_logits_and_half_probabilities_are_computed_in_float32(name: str, kind, dtype: torch.dtype):
    logits = distinct_logits(6, 4, dtype=dtype)
    target = kind(logits)
    needs = {key: value.float() for key, value in needs_of(name, logits).items()}
    value, gradient = value_and_gradient(name, logits, target, **needs)
    wide_target = target.float() if kind is mixed_for else target
    expected, expected_gradient = value_and_gradient(name, logits.float(), wide_target, **needs)
    assert value.dtype == torch.float32
    assert torch.allclose(value, expected, rtol=1e-6, atol=0)
    assert gradient.dtype == dtype
    assert torch.allclose(gradient.float(), expected_gradient, rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_module_takes_half_logits_beside_float32_weights_and_needs(name: str, dtype: torch.dtype):
    logits = distinct_logits(6, 4, dtype=dtype).requires_grad_()
    loss = make_loss(name, torch.float32, weight=torch.tensor([0.5, 2.0, 1.0, 3.0]))
    needs = {key: value.float() for key, value in needs_of(name, logits).items()}
    value = loss(logits, labels_for(logits), **needs)
    value.backward()
    assert torch.isfinite(value)
    assert logits.grad.dtype == dtype
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_full_precision_stays_what_it_is(name: str, dtype: torch.dtype):
    logits = distinct_logits(6, 4, dtype=dtype)
    value, gradient = value_and_gradient(name, logits, labels_for(logits))
    assert value.dtype == gradient.dtype == dtype


def test_autocast_changes_nothing_for_logits_that_are_half_already(name: str):
    logits = distinct_logits(6, 4, dtype=torch.bfloat16)
    needs = {key: value.float() for key, value in needs_of(name, logits).items()}
    loss = make_loss(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = loss(logits, labels_for(logits), **needs)
    outside = make_loss(name, torch.float32)(logits.float(), labels_for(logits), **needs)
    assert inside.dtype == torch.float32
    assert torch.allclose(inside, outside, rtol=1e-6, atol=1e-6)


def test_a_model_trains_under_autocast(name: str):
    model = torch.nn.Linear(3, 4)
    loss = make_loss(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(torch.randn(6, 3))
        value = loss(logits, labels_for(logits), **needs_of(name, logits.float()))
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(model.weight.grad).all()
    assert model.weight.grad.abs().sum() > 0


def test_a_mean_over_many_half_precision_samples_does_not_overflow(name: str):
    num_samples = 2_000
    logits = torch.zeros(1, 4, num_samples, dtype=torch.float16)
    logits[:, 0] = -40.0  # each sample loses about 40, all of them more than the 65,504 that half precision can hold
    target = torch.zeros(1, num_samples, dtype=torch.long)
    for loss in (make_loss(name, torch.float32), make_loss(name, torch.float32).eval()):
        value = loss(logits, target, num_items=num_samples, **needs_of(name, logits.float()))
        assert torch.isfinite(value)


def test_a_very_large_vocabulary_does_not_overflow_in_fp16():
    logits = torch.full((2, 300_000), 3.0, dtype=torch.float16)
    logits[:, 7] = 60.0
    logits.requires_grad_()
    value = maxsup.MaxSupLoss(0.1, reduction="none")(logits, torch.tensor([7, 8]))
    value.sum().backward()
    penalty = 60.0 - (3.0 * 299_999 + 60.0) / 300_000
    assert value[0].item() == pytest.approx(0.1 * penalty, rel=1e-5)
    assert value[1].item() == pytest.approx(57.0 + 0.1 * penalty, rel=1e-5)
    assert torch.isfinite(logits.grad).all()


# The state of ols is quadratic in the number of classes.
@pytest.mark.parametrize("name", [name for name in CASE_OF if name != "ols"])
def test_no_loss_overflows_on_a_large_vocabulary_in_fp16(name: str):
    logits = torch.linspace(-10, 10, 70_000, dtype=torch.float32).half().reshape(1, -1)
    needs = needs_of(name, logits.float())
    value = make_loss(name)(logits.requires_grad_(), torch.tensor([5]), **needs)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()
