"""Sharded training with FSDP2 (`fully_shard`) and MaxSup; runs alone or with
`torchrun --nproc_per_node 2 examples/fsdp_training.py`, and reports the same losses.

The changed lines are the criterion and `num_items`: FSDP averages the gradients of its processes, so the denominator of
each is the number of targets in the whole batch, divided by the number of processes.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from maxsup import MaxSupLoss

NUM_CLASSES, BATCH_SIZE = 4, 16


def data(num_samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around a centre for each class; some have no label."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(NUM_CLASSES, (num_samples,), generator=generator)
    points = 3 * nn.functional.one_hot(labels, 8) + torch.randn(num_samples, 8, generator=generator)
    return points, labels.masked_fill(torch.rand(num_samples, generator=generator) < 0.2, -100)


def main(num_epochs: int = 3) -> list[float]:
    is_ours = not dist.is_initialized()
    if is_ours:
        alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        dist.init_process_group("gloo", **alone)
    rank, num_processes = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, NUM_CLASSES))
    fully_shard(model, mesh=init_device_mesh("cpu", (num_processes,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = MaxSupLoss(alpha=0.1)
    points, labels = data(128)
    losses = []
    for start in list(range(0, len(points), BATCH_SIZE)) * num_epochs:
        mine = slice(start + rank, start + BATCH_SIZE, num_processes)
        num_items = (labels[mine] != -100).sum()
        dist.all_reduce(num_items)
        loss = criterion(model(points[mine]), labels[mine], num_items=num_items / num_processes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach() / num_processes
        dist.all_reduce(mean)
        losses.append(mean.item())
    if is_ours:
        dist.destroy_process_group()
    return losses


if __name__ == "__main__":
    print("loss of every step:", [round(loss, 3) for loss in main()])
