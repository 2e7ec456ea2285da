"""What each of two processes does in the test of the Trainer; started by torchrun."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import transformers
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from maxsup.integrations.huggingface import TrainerLoss, use_linear_loss
from maxsup.losses import MaxSupLoss
from tests.integration.integrations.tiny_transformers import (
    ALPHA,
    NUM_SAMPLES,
    arguments,
    created,
    in_parts,
    samples,
    taken_step,
    trainer_for,
    weights,
)

TASKS = ("text", "llama")


def step_of_the_head(folder: Path) -> Tensor:
    """The loss in the head under DDP, with two micro-batches in each process."""
    model = created("llama")
    linear = use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    before = weights(model)
    trainer_for(model, "llama", None, in_parts(folder, 2, 2), callbacks=[linear.callback()]).train()
    return before - weights(model)


def sharded_gradient(is_head_apart: bool) -> Tensor:
    """The loss in the head under ``fully_shard``; the head is gathered and given back by itself, or with the rest."""
    model = created("llama").train()
    use_linear_loss(model, MaxSupLoss(alpha=ALPHA))
    mesh = init_device_mesh("cpu", (2,))
    for part in [*model.model.layers, model.lm_head] if is_head_apart else model.model.layers:
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh)
    batch = dict(transformers.default_data_collator(samples("llama")))
    num_items = (batch["labels"][:, 1:] != -100).sum()
    mine = {name: value[dist.get_rank() :: 2] for name, value in batch.items()}
    model(**mine, num_items_in_batch=num_items / 2).loss.backward()
    return torch.cat([parameter.grad.full_tensor().flatten() for parameter in model.parameters()])


def main(folder: str) -> None:
    torch.set_num_threads(1)
    results: dict[str, Tensor] = {}
    for task in TASKS:
        results[f"{task}_step"] = taken_step(created(task), task, in_parts(Path(folder), 2, 2))
        loss = TrainerLoss(alpha=ALPHA)
        half = NUM_SAMPLES // 2
        args = arguments(Path(folder), per_device_train_batch_size=half, per_device_eval_batch_size=half)
        trainer = trainer_for(created(task), task, loss, args)
        results[f"{task}_eval"] = torch.tensor(trainer.evaluate()["eval_loss"])
        trainer.train()
        results[f"{task}_seen"] = torch.tensor(trainer.state.log_history[0]["maxsup/num_samples"])
    results["head_step"] = step_of_the_head(Path(folder))
    results["head_sharded_with_the_rest"] = sharded_gradient(is_head_apart=False)
    results["head_sharded_apart"] = sharded_gradient(is_head_apart=True)
    if dist.get_rank() == 0:
        torch.save(results, Path(folder) / "results.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
