"""What each of two processes does in the test of the Trainer; started by torchrun."""

import sys
from pathlib import Path

import torch
from torch import Tensor

from maxsup.integrations.huggingface import TrainerLoss
from tests.integration.integrations.tiny_transformers import (
    ALPHA,
    NUM_SAMPLES,
    arguments,
    created,
    step_of_the_trainer,
    trainer_for,
)

TASKS = ("text", "llama")


def main(folder: str) -> None:
    torch.set_num_threads(1)
    results: dict[str, Tensor] = {}
    for task in TASKS:
        results[f"{task}_step"] = step_of_the_trainer(task, Path(folder), num_parts=2, num_processes=2)
        loss = TrainerLoss(alpha=ALPHA)
        half = NUM_SAMPLES // 2
        args = arguments(Path(folder), per_device_train_batch_size=half, per_device_eval_batch_size=half)
        trainer = trainer_for(created(task), task, loss, args)
        results[f"{task}_eval"] = torch.tensor(trainer.evaluate()["eval_loss"])
        trainer.train()
        results[f"{task}_seen"] = torch.tensor(trainer.state.log_history[0]["maxsup/num_samples"])
    if torch.distributed.get_rank() == 0:
        torch.save(results, Path(folder) / "results.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
