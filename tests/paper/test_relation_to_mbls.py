"""MaxSup is margin-based label smoothing (Liu et al. 2022) with margin 0."""

from functools import partial

import pytest
import torch

import maxsup
from maxsup.functional import linear_maxsup_cross_entropy, maxsup_cross_entropy, mbls_cross_entropy
from tests.contract.test_bit_equality import DTYPES, grid, same_bits


def released_penalty(logits: torch.Tensor, margin: float) -> torch.Tensor:
    """The published penalty as it is written: the mean of a rectified distance to the largest logit."""
    distance = logits.max(dim=1, keepdim=True).values - logits
    return torch.relu(distance - margin).mean()


def values_and_gradients(logits: torch.Tensor, *losses) -> list[tuple[torch.Tensor, torch.Tensor]]:
    results = []
    for loss in losses:
        leaf = logits.clone().requires_grad_()
        value = loss(leaf)
        results.append((value.detach(), torch.autograd.grad(value.sum(), leaf)[0]))
    return results


@pytest.mark.filterwarnings("ignore:Targets are smoothed already")
@pytest.mark.usefixtures("each_implementation")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_maxsup_is_mbls_with_margin_0_to_the_bit(dtype: torch.dtype):
    for logits, target, options in grid(dtype):
        *ours, (value, gradient) = values_and_gradients(
            logits,
            partial(mbls_cross_entropy, target=target, alpha=0.3, margin=0.0, **options),
            partial(maxsup.create_loss("mbls", alpha=0.3, margin=0, **options), target=target),
            partial(maxsup_cross_entropy, target=target, alpha=0.3, **options),
        )
        assert all(same_bits(own, value) and same_bits(own_gradient, gradient) for own, own_gradient in ours)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_head_with_margin_0_is_the_head_of_maxsup_to_the_bit(reduction: str):
    hidden, weight = torch.randn(300, 5, requires_grad=True), torch.randn(11, 5, requires_grad=True)
    target = torch.arange(300) % 11
    results = []
    for terms in ({}, {"margin": 0.0, "z_loss": 0.0, "soft_cap": 0.0}):
        loss = linear_maxsup_cross_entropy(hidden, weight, target, 0.3, reduction=reduction, **terms)
        results.append([loss.detach(), *torch.autograd.grad(loss.sum(), (hidden, weight))])
    assert all(torch.equal(left, right) for left, right in zip(*results, strict=True))


@pytest.mark.usefixtures("each_implementation")
def test_the_published_penalty_with_margin_0_is_that_of_maxsup_where_the_top_logit_is_unique():
    logits = 3.0 * torch.randn(50, 7, dtype=torch.float64)
    target = torch.arange(50) % 7
    (released, released_gradient), *ours = values_and_gradients(
        logits,
        lambda z: torch.nn.functional.cross_entropy(z, target) + 0.1 * released_penalty(z, 0.0),
        lambda z: maxsup_cross_entropy(z, target, 0.1),
        lambda z: mbls_cross_entropy(z, target, 0.1, 1e-12),
    )
    for value, gradient in ours:
        assert torch.allclose(value, released, rtol=1e-11, atol=0)
        assert torch.allclose(gradient, released_gradient, rtol=0, atol=1e-14)


@pytest.mark.parametrize("margin", [0.5, 6.0, 10.0])
@pytest.mark.usefixtures("each_implementation")
def test_mbls_is_the_published_penalty_wherever_no_label_is_ignored(margin: float):
    logits = 6.0 * torch.randn(50, 7, dtype=torch.float64)
    target = torch.arange(50) % 7
    (released, released_gradient), (value, gradient) = values_and_gradients(
        logits,
        lambda z: torch.nn.functional.cross_entropy(z, target) + 0.1 * released_penalty(z, margin),
        lambda z: mbls_cross_entropy(z, target, 0.1, margin),
    )
    assert torch.allclose(value, released, rtol=1e-12, atol=0)
    assert torch.allclose(gradient, released_gradient, rtol=0, atol=1e-14)


@pytest.mark.usefixtures("each_implementation")
def test_an_ignored_row_loses_the_margin_term_too_and_a_single_row_is_enough():
    logits = torch.tensor([[9.0, 0.0, 0.0, 0.0], [50.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    for ignore_index in (-100, 3):  # the released code keeps the term of the first kind and fails on the second
        target = torch.tensor([0, ignore_index])
        found = mbls_cross_entropy(logits, target, 0.1, 5.0, ignore_index=ignore_index)
        assert torch.equal(found, mbls_cross_entropy(logits[:1], target[:1], 0.1, 5.0))
        assert found.item() == pytest.approx(0.1 * 3 * 4 / 4 + 0.000370165, abs=1e-8)
