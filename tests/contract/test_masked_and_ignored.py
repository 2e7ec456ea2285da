"""Classes masked with minus infinity and rows under ``ignore_index``: absent from the value and from the gradient."""

import math

import pytest
import torch

import maxsup.functional
from tests.contract.calls import MIXABLE, call_function, make_loss
from tests.contract.samples import distinct_logits, labels_for, mixed_for, needs_of, soft_matrix
from tests.reference.cases import CASE_OF
from tests.reference.losses import reference_of

pytestmark = pytest.mark.usefixtures("each_implementation")

MASKED = 2
KEPT = [0, 1, 3]
LABELS = torch.tensor([0, 1, 3, 3, 1, 0])


def masked_logits() -> torch.Tensor:
    logits = distinct_logits(6, 4)
    logits[:, MASKED] = -math.inf
    return logits.requires_grad_()


def masked_needs(name: str) -> dict[str, torch.Tensor]:
    """A teacher and a matrix that know of the mask."""
    if name == "ols":
        matrix = soft_matrix()
        matrix[:, MASKED] = 0.0
        return {"matrix": matrix / matrix.sum(-1, keepdim=True)}
    needs = needs_of(name, torch.zeros(6, 4, dtype=torch.float64))
    for value in needs.values():
        value[:, MASKED] = -math.inf
    return needs


def call_masked(name: str, logits: torch.Tensor, target: torch.Tensor, **options) -> torch.Tensor:
    function = getattr(maxsup.functional, CASE_OF[name].function)
    return function(logits, target, **CASE_OF[name].strength, **masked_needs(name), **options)


def assert_masked_without_gradient(value: torch.Tensor, logits: torch.Tensor) -> None:
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, MASKED] == 0).all()


def test_a_masked_class_gets_no_gradient(name: str):
    logits = masked_logits()
    assert_masked_without_gradient(call_masked(name, logits, LABELS), logits)
    assert (logits.grad[:, KEPT].abs().sum(-1) > 0).all()


def test_a_masked_class_is_absent_from_the_value(name: str):
    logits = masked_logits()
    values = call_masked(name, logits, LABELS, reduction="none").tolist()
    needs = masked_needs(name)
    for i, (z, label) in enumerate(zip(logits.tolist(), LABELS.tolist(), strict=True)):
        own = {key: (value if key == "matrix" else value[i]).tolist() for key, value in needs.items()}
        assert values[i] == pytest.approx(reference_of(name)(z, label, **CASE_OF[name].strength, **own), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MIXABLE if name != "ce"])
def test_probabilities_that_give_a_masked_class_nothing_stay_finite(name: str):
    logits = masked_logits()
    target = torch.nn.functional.one_hot(LABELS, 4).double()
    assert_masked_without_gradient(call_masked(name, logits, 0.75 * target + 0.25 * target[:, [1, 0, 2, 3]]), logits)


@pytest.mark.parametrize("name", ["ols", "adaptive_ls"])
def test_a_soft_target_that_does_not_know_of_the_mask_stays_finite(name: str):
    logits = masked_logits()
    assert_masked_without_gradient(call_function(name, logits, LABELS), logits)


def test_rows_may_have_different_masks(name: str):
    logits = distinct_logits(4, 4)
    target = labels_for(logits)
    masked = logits.clone()
    masked[0, 3] = masked[2, 1] = -math.inf
    values = call_function(name, masked, target, reduction="none")
    unmasked = call_function(name, logits, target, reduction="none")
    assert torch.isfinite(values).all()
    torch.testing.assert_close(values[[1, 3]], unmasked[[1, 3]], rtol=1e-14, atol=0)


@pytest.mark.parametrize("ignore_index", [-100, -1, 255])
@pytest.mark.parametrize("padding", [math.nan, math.inf, -math.inf])
def test_an_ignored_row_may_hold_anything(name: str, padding: float, ignore_index: int):
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    target[[1, 4]] = ignore_index
    kept = target != ignore_index
    needs = needs_of(name, logits)
    clean = logits[kept].clone().requires_grad_()
    loss = make_loss(name, ignore_index=ignore_index)
    expected = loss(clean, target[kept], **{key: value[kept] for key, value in needs.items()})
    expected.backward()
    logits[~kept] = padding
    padded_needs = {key: torch.where(kept.unsqueeze(-1), value, padding) for key, value in needs.items()}
    value = loss(logits.requires_grad_(), target, **padded_needs)
    value.backward()
    assert torch.allclose(value, expected, rtol=1e-13, atol=0)
    assert torch.allclose(logits.grad[kept], clean.grad, rtol=1e-12, atol=1e-15)
    assert (logits.grad[~kept] == 0).all()


def test_an_ignored_row_has_value_zero_without_reduction(name: str):
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    target[2] = -100
    logits[2] = math.nan
    values = make_loss(name, reduction="none")(logits, target, **needs_of(name, logits))
    assert values[2] == 0
    assert torch.isfinite(values).all()


def test_a_nan_row_that_counts_makes_the_loss_nan(name: str):
    logits = distinct_logits(6, 4)
    logits[2] = math.nan
    assert make_loss(name)(logits, labels_for(logits), **needs_of(name, logits)).isnan()


def test_nothing_but_ignored_targets_gives_nan_like_torch(name: str):
    logits = distinct_logits(3, 4)
    target = torch.full((3,), -100)
    assert make_loss(name)(logits, target, **needs_of(name, logits)).isnan()


@pytest.mark.parametrize("is_training", [True, False], ids=["training", "evaluation"])
def test_nothing_but_classes_of_weight_zero_is_nothing_to_count(name: str, is_training: bool):
    weight = torch.tensor([0.0, 0.0, 2.0, 3.0], dtype=torch.float64)
    for label, other in ((0, 1), (1, -100), (0, 2)):
        logits = distinct_logits(3, 4).requires_grad_()
        target = torch.tensor([label, other, label])
        loss, nan = (make_loss(name, empty=empty, weight=weight).train(is_training) for empty in ("zero", "nan"))
        value, plain = (each(logits, target, **needs_of(name, logits)) for each in (loss, nan))
        value.backward()
        if other == 2:
            assert torch.allclose(value, plain, rtol=1e-14, atol=0)
            assert logits.grad[1].abs().sum() > 0
        else:
            assert plain.isnan()
            assert value == 0
            assert torch.equal(logits.grad, torch.zeros(3, 4, dtype=torch.float64))


def test_what_does_not_count_may_hold_anything_in_evaluation(name: str):
    logits = torch.tensor([[-math.inf, 0.0, 1.0, 2.0], [math.nan] * 4], dtype=torch.float64)
    weight = torch.tensor([0.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    for options, target in (({}, [-100, -100]), ({"weight": weight}, [0, -100])):
        assert make_loss(name, empty="zero", **options).eval()(logits, torch.tensor(target)) == 0


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("num_items", [None, 0, torch.tensor(0)])
def test_a_batch_without_any_target_gives_zero_on_request_and_keeps_the_graph(
    name: str, num_items: int | torch.Tensor | None, size: int
):
    logits = distinct_logits(size, 4).requires_grad_()
    target = torch.full((size,), -100)
    value = make_loss(name, empty="zero")(logits, target, num_items=num_items, **needs_of(name, logits))
    value.backward()
    assert value == 0
    assert torch.equal(logits.grad, torch.zeros(size, 4, dtype=torch.float64))


def test_an_answer_that_is_not_empty_does_not_depend_on_the_rule_for_empty_ones(name: str):
    logits = distinct_logits(6, 4)
    needs = needs_of(name, logits)
    expected = make_loss(name)(logits, labels_for(logits), **needs)
    assert torch.allclose(
        make_loss(name, empty="zero")(logits, labels_for(logits), **needs), expected, rtol=1e-14, atol=0
    )


@pytest.mark.parametrize("name", MIXABLE)
def test_a_row_of_zero_probabilities_counts_nothing_in_the_sum(name: str):
    logits = distinct_logits(6, 4).requires_grad_()
    target = mixed_for(logits).detach()
    target[3] = 0.0
    values = make_loss(name, reduction="none")(logits, target, **needs_of(name, logits))
    values.sum().backward()
    assert values[3] == 0
    assert (logits.grad[3] == 0).all()
