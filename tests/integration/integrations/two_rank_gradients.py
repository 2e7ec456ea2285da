"""Gradients of one step under Accelerate, DDP and FSDP; each of two processes runs this, started by torchrun."""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator
from examples import accelerate_training, fsdp_training
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from maxsup import MaxSupLoss

ALPHA, NUM_PARTS, WORLD_SIZE = 0.3, 2, 2
SPLIT = ((0, 2, 5), (5, 9, 12))
"""First and last rows of the two micro-batches of each of two processes; none is as long as its neighbour."""


def whole_batch(*, is_second_rank_empty: bool = False) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    points, target = torch.randn(12, 6, generator=generator), torch.randint(5, (12,), generator=generator)
    target[[1, 6, 7]] = -100
    if is_second_rank_empty:
        target[5:] = -100
    return points, target


def network() -> nn.Module:
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))


def gradient(model: nn.Module) -> Tensor:
    grads = [parameter.grad for parameter in model.parameters()]
    return torch.cat([(grad.full_tensor() if hasattr(grad, "full_tensor") else grad).flatten() for grad in grads])


def parts_of(rank: int) -> list[slice]:
    first, middle, last = SPLIT[rank]
    return [slice(first, middle), slice(middle, last)]


def number_of_targets(target: Tensor, rank: int) -> Tensor:
    count = sum((target[part] != -100).sum() for part in parts_of(rank))
    dist.all_reduce(count)
    return count


def under_no_sync(accelerator: Accelerator) -> Tensor:
    """Accumulation by hand: the number of processes is the only factor."""
    points, target = whole_batch()
    num_items = number_of_targets(target, accelerator.process_index) / accelerator.num_processes
    model = accelerator.prepare(network())
    for index, part in enumerate(parts_of(accelerator.process_index)):
        with nullcontext() if index == NUM_PARTS - 1 else accelerator.no_sync(model):
            accelerator.backward(MaxSupLoss(ALPHA)(model(points[part]), target[part], num_items=num_items))
    return gradient(model)


def under_accumulate(accelerator: Accelerator) -> Tensor:
    """``accelerator.backward`` divides by the number of micro-batches, so that is a factor too."""
    points, target = whole_batch()
    factor = accelerator.num_processes * accelerator.gradient_accumulation_steps
    num_items = number_of_targets(target, accelerator.process_index) / factor
    model = accelerator.prepare(network())
    for part in parts_of(accelerator.process_index):
        with accelerator.accumulate(model):
            accelerator.backward(MaxSupLoss(ALPHA)(model(points[part]), target[part], num_items=num_items))
    return gradient(model)


def under_fsdp(accelerator: Accelerator) -> Tensor:
    points, target = whole_batch()
    num_items = number_of_targets(target, accelerator.process_index) / accelerator.num_processes
    model = network()
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (WORLD_SIZE,)))
    for index, part in enumerate(parts_of(accelerator.process_index)):
        model.set_requires_gradient_sync(index == NUM_PARTS - 1)
        MaxSupLoss(ALPHA)(model(points[part]), target[part], num_items=num_items).backward()
    return gradient(model)


def with_an_empty_rank(accelerator: Accelerator, *, has_num_items: bool) -> Tensor:
    """The second process has no valid target, and still takes part in the backward pass."""
    points, target = whole_batch(is_second_rank_empty=True)
    rank = accelerator.process_index
    mine = slice(SPLIT[rank][0], SPLIT[rank][-1])
    num_items = number_of_targets(target, rank) / WORLD_SIZE if has_num_items else None
    model = accelerator.prepare(network())
    MaxSupLoss(ALPHA, empty="zero")(model(points[mine]), target[mine], num_items=num_items).backward()
    return gradient(model)


def main(folder: str) -> None:
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=NUM_PARTS)
    results = {
        "accumulate": under_accumulate(accelerator),
        "fsdp": under_fsdp(accelerator),
        "empty_counted": with_an_empty_rank(accelerator, has_num_items=True),
        "empty_alone": with_an_empty_rank(accelerator, has_num_items=False),
    }
    accelerator.gradient_accumulation_steps = 1
    results["no_sync"] = under_no_sync(accelerator)
    results["accelerate_example"] = torch.tensor(accelerate_training.main())
    results["fsdp_example"] = torch.tensor(fsdp_training.main())
    torch.save(results, Path(folder) / f"{accelerator.process_index}.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
