"""Many classes and many samples: the same numbers as sample by sample, whatever blocks they are computed in."""

import pytest
import torch

import maxsup.functional
from tests.contract.samples import scattered
from tests.reference.cases import CASE_OF
from tests.reference.gradients import ls_gradient, maxsup_gradient
from tests.reference.losses import reference_of

CLASS_COUNTS = [255, 256, 257, 1000, 1023]
CLOSED_FORMS = {"ls": ls_gradient, "maxsup": maxsup_gradient}


def needs_of(name: str, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """What the function of the loss takes besides logits and targets."""
    if name == "ols":
        return {"matrix": scattered((shape[1], shape[1])).softmax(-1)}
    return {need: scattered(shape) for need in CASE_OF[name].needs}


def call(name: str, logits: torch.Tensor, target: torch.Tensor, needs: dict, **options) -> torch.Tensor:
    function = getattr(maxsup.functional, CASE_OF[name].function)
    return function(logits, target, **CASE_OF[name].strength, **needs, **options)


@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
def test_many_classes_match_the_plain_loop(name: str, num_classes: int):
    logits = 3.0 * torch.randn(2, num_classes, dtype=torch.float64)
    target = torch.tensor([0, num_classes - 1])
    needs = needs_of(name, logits.shape)
    values = call(name, logits, target, needs, reduction="none").tolist()
    for i, (z, label) in enumerate(zip(logits.tolist(), target.tolist(), strict=True)):
        own = {key: (value if key == "matrix" else value[i]).tolist() for key, value in needs.items()}
        expected = reference_of(name)(z, label, **CASE_OF[name].strength, **own)
        assert values[i] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("num_classes", CLASS_COUNTS)
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_gradient_of_many_classes_is_the_closed_form_even_with_ties(name: str, num_classes: int):
    logits = torch.randn(6, num_classes, dtype=torch.float64).round()
    logits[0, [num_classes - 1, 3]] = 9.0
    logits[1, num_classes - 1] = 9.0
    logits[2] = 0.0
    logits.requires_grad_()
    target = torch.tensor([0, 1, 2, 3, num_classes - 1, num_classes // 2])
    (gradient,) = torch.autograd.grad(call(name, logits, target, {}, reduction="sum"), logits)
    alpha = CASE_OF[name].strength["alpha"]
    for row, z, label in zip(gradient.tolist(), logits.tolist(), target.tolist(), strict=True):
        assert row == pytest.approx(CLOSED_FORMS[name](z, label, alpha), abs=1e-12)


@pytest.mark.parametrize("shape", [(1500, 100), (2, 100, 1500), (300, 700)], ids=str)
def test_many_samples_are_so_many_single_samples(name: str, shape: tuple[int, ...]):
    logits = 2.0 * torch.randn(shape, dtype=torch.float64)
    target = torch.randint(shape[1], shape[:1] + shape[2:])
    needs = needs_of(name, shape)
    leaf = logits.clone().requires_grad_()
    values = call(name, leaf, target, needs, reduction="none")
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    for at in [(0, 0), (0, 1299), (1, 1499)] if len(shape) == 3 else [(0,), (130,), (shape[0] - 1,)]:
        where = (at[0], slice(None), *at[1:])
        sample = logits[where].clone().requires_grad_()
        own = {key: value if key == "matrix" else value[where] for key, value in needs.items()}
        value = call(name, sample, target[at], own)
        (single,) = torch.autograd.grad(value, sample)
        assert torch.allclose(values[at], value, rtol=1e-12, atol=1e-12)
        assert torch.allclose(gradient[where], single, rtol=1e-12, atol=1e-12)


def test_memory_layout_does_not_matter(name: str):
    logits = torch.randn(2, 7, 5, 6, dtype=torch.float64)
    target = torch.randint(7, (2, 5, 6))
    needs = needs_of(name, logits.shape)
    layouts = [
        logits,
        logits.contiguous(memory_format=torch.channels_last),
        logits.transpose(2, 3).contiguous().transpose(2, 3),
    ]
    gradients = []
    for layout in layouts:
        leaf = layout.detach().requires_grad_()
        gradients.append(torch.autograd.grad(call(name, leaf, target, needs), leaf)[0])
    assert torch.allclose(gradients[0], gradients[1], rtol=1e-12, atol=1e-15)
    assert torch.allclose(gradients[0], gradients[2], rtol=1e-12, atol=1e-15)
