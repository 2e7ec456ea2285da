"""Logits that are spread over two processes as a DTensor give the loss and gradient of the whole tensor."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from maxsup.functional import linear_maxsup_cross_entropy
from tests.contract.calls import NAMES, make_loss
from tests.contract.samples import distinct_logits, labels_for, needs_of
from tests.integration.test_two_processes import results_of_both_ranks

pytestmark = pytest.mark.distributed
tensor = pytest.importorskip("torch.distributed.tensor", reason="distributed tensors are public from torch 2.5")


def whole_batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    logits = distinct_logits(6, 4)
    target = labels_for(logits)
    target[1] = -100
    return logits, target


def loss_of(name: str, logits: torch.Tensor, target: torch.Tensor, needs: dict) -> torch.Tensor:
    if name == "head":
        return linear_maxsup_cross_entropy(logits, torch.eye(4, dtype=torch.float64), target, 0.3)
    return make_loss(name)(logits, target, **needs)


def whole_results() -> torch.Tensor:
    logits, target = whole_batch()
    logits.requires_grad_()
    results = []
    for name in [*NAMES, "head"]:
        value = loss_of(name, logits, target, needs_of(name, logits.detach()) if name != "head" else {})
        results += [value.detach().reshape(1), torch.autograd.grad(value, logits)[0].flatten()]
    return torch.cat(results)


def results_of_a_rank(rank: int) -> torch.Tensor:
    """One row a layout of the logits: values and gradients of all losses."""
    from torch.distributed.tensor.parallel import loss_parallel

    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    logits, target = whole_batch()
    rows = []
    for place in (tensor.Shard(0), tensor.Shard(1), tensor.Replicate()):
        leaf = tensor.distribute_tensor(logits, mesh, [place]).requires_grad_()
        labels = tensor.distribute_tensor(target, mesh, [place if place == tensor.Shard(0) else tensor.Replicate()])
        results = []
        for name in [*NAMES, "head"]:
            needs = {} if name == "head" else needs_of(name, logits)
            spread = {key: tensor.distribute_tensor(value, mesh, [place]) for key, value in needs.items()}
            # torch's own loss takes labels that are not spread only here.
            if place == tensor.Shard(1):
                with loss_parallel():
                    F.cross_entropy(leaf, target).backward()
                    value = loss_of(name, leaf, target, spread)
                    (gradient,) = torch.autograd.grad(value, leaf)
            else:
                value = loss_of(name, leaf, labels, spread)
                (gradient,) = torch.autograd.grad(value, leaf)
            results += [value.detach().reshape(1), gradient.full_tensor().flatten()]
        rows.append(torch.cat(results))
    return torch.stack(rows)


def test_logits_spread_over_processes_give_the_loss_of_the_whole(tmp_path: Path):
    expected = whole_results()
    for rows in results_of_both_ranks(results_of_a_rank, tmp_path):
        assert rows.shape == (3, len(expected))
        assert torch.allclose(rows, expected.expand_as(rows), rtol=1e-12, atol=1e-14)
