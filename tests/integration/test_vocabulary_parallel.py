"""A head split over two gloo processes gives the loss and gradients of the whole head."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from maxsup.functional import implementation, linear_maxsup_cross_entropy, maxsup_cross_entropy, mbls_cross_entropy
from maxsup.losses.head.rows import soft_capped
from tests.integration.test_two_processes import results_of_both_ranks

pytestmark = pytest.mark.distributed
SPLIT = (0, 7, 12)
"""Rank 0 holds seven classes, rank 1 five."""


def whole_head() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    weight = 3 * torch.randn(12, 4, generator=generator, dtype=torch.float64)
    weight[8] = weight[2]  # a tie across the processes: the class of the lower index is the first
    bias = torch.randn(12, generator=generator, dtype=torch.float64)
    bias[8] = bias[2]
    bias[11] = -torch.inf  # a masked class
    target = torch.randint(11, (9,), generator=generator)
    target[4] = -100
    return hidden, weight, bias, target


def flat_gradients(loss: torch.Tensor, tensors: list[torch.Tensor], upstream: torch.Tensor | None = None) -> list:
    return [loss.detach().flatten(), *(part.flatten() for part in torch.autograd.grad(loss, tensors, upstream))]


def work_of_a_rank(rank: int) -> torch.Tensor:
    hidden, weight, bias, target = whole_head()
    classes = slice(SPLIT[rank], SPLIT[rank + 1])
    tensors = [
        hidden.requires_grad_(),
        weight[classes].clone().requires_grad_(),
        bias[classes].clone().requires_grad_(),
    ]
    group = dist.group.WORLD
    mean = linear_maxsup_cross_entropy(tensors[0], tensors[1], target, 0.3, bias=tensors[2], group=group)
    parts = flat_gradients(mean, tensors)
    rows = linear_maxsup_cross_entropy(
        tensors[0], tensors[1], target, 0.3, bias=tensors[2], reduction="none", group=group
    )
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(rows.sum(), tensors, create_graph=True, retain_graph=True)
    parts += flat_gradients(rows, tensors, torch.linspace(-1, 2, 9, dtype=torch.float64))
    capped = linear_maxsup_cross_entropy(
        tensors[0], tensors[1], target, 0.3, bias=tensors[2], group=group, z_loss=0.03, soft_cap=4.0
    )
    parts += flat_gradients(capped, tensors)
    strengths = torch.linspace(0, 1, 9, dtype=torch.float64)
    beyond = linear_maxsup_cross_entropy(
        tensors[0], tensors[1], target, strengths, bias=tensors[2], group=group, margin=1.0
    )
    parts += flat_gradients(beyond, tensors)
    nothing = torch.full_like(target, -100)
    empty = linear_maxsup_cross_entropy(tensors[0], tensors[1], nothing, 0.3, bias=tensors[2], group=group)
    return torch.cat([*parts, *flat_gradients(empty, tensors)])


def expected_of_a_rank(rank: int) -> torch.Tensor:
    tensors = list(whole_head()[:3])
    target = whole_head()[3]
    for tensor in tensors:
        tensor.requires_grad_()
    classes = slice(SPLIT[rank], SPLIT[rank + 1])
    parts = []
    with implementation("reference"):
        logits = F.linear(*tensors)
        for loss, upstream in (
            (maxsup_cross_entropy(logits, target, 0.3), None),
            (maxsup_cross_entropy(logits, target, 0.3, reduction="none"), torch.linspace(-1, 2, 9).double()),
            (maxsup_cross_entropy(soft_capped(logits, 4.0), target, 0.3, z_loss=0.03), None),
            (mbls_cross_entropy(logits, target, torch.linspace(0, 1, 9).double(), 1.0), None),
        ):
            hidden, weight, bias = torch.autograd.grad(loss, tensors, upstream, retain_graph=True)
            parts += [loss.detach().flatten(), hidden.flatten(), weight[classes].flatten(), bias[classes].flatten()]
    zeros = [torch.zeros_like(part) for part in parts[1:4]]
    return torch.cat([*parts, torch.full((1,), torch.nan), *zeros])  # nothing counts in the last loss


def test_two_processes_give_the_loss_and_gradients_of_the_whole_head(tmp_path: Path):
    for rank, result in enumerate(results_of_both_ranks(work_of_a_rank, tmp_path)):
        assert torch.allclose(result, expected_of_a_rank(rank), rtol=1e-10, atol=1e-12, equal_nan=True)
