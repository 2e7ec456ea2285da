"""What fits into the memory of a device: pieces of a batch, and the peak of what was tried."""

from __future__ import annotations

import copy
import math

import torch
from accelerate.utils.memory import clear_device_cache

from maxsup.core.errors import out_of_memory
from maxsup.lab.core.config import AUTO
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.optimization import create_optimizer
from maxsup.lab.training.processes import largest

_GIB = 2**30


def settle_accumulation(trainer: Trainer) -> None:
    """Choose ``accumulation=auto``: 1 on a CPU, else the fewest pieces, in powers of two, that fit on every device."""
    if trainer.recipe.accumulation == AUTO:
        is_on_cpu = trainer.accelerator.device.type == "cpu"
        trainer.recipe = trainer.recipe.changed(accumulation=1 if is_on_cpu else fewest_pieces(trainer))


def fewest_pieces(trainer: Trainer) -> int:
    """The fewest pieces of a batch of which one fits; batch, denominator and the trainer stay as they are."""
    share = math.ceil(trainer.recipe.batch_size / trainer.accelerator.num_processes)
    number = 1
    while number < share and not _fits(trainer, number):
        number = min(2 * number, share)
    # If not even one image fits, the first step says so.
    return int(largest(trainer.accelerator, float(number)))


def _fits(trainer: Trainer, number: int) -> bool:
    """Whether a copy of the network can take a step with the first of so many pieces, without other processes."""
    try:
        _take_step(trainer, number)
    except Exception as error:
        if out_of_memory(error) is None:
            raise
        return False
    finally:
        clear_device_cache(garbage_collection=True)
    return True


def _take_step(trainer: Trainer, number: int) -> None:
    device = trainer.accelerator.device
    network, criterion = copy.deepcopy((trainer.model, trainer.criterion))
    optimizer = create_optimizer(network, trainer.recipe.optimizer)
    batch = next(iter(trainer.batches.epoch(0)))
    labels = batch.labels.chunk(number)[0].to(device)
    # How much memory is needed does not depend on what the pixels are.
    images = torch.zeros(len(labels), *batch.images.shape[1:], device=device)
    with trainer.accelerator.autocast():
        logits, extras = trainer.needs.forward(network.train(), images)
        criterion(logits, labels, **extras).backward()
    optimizer.step()


def reset_peak() -> None:
    """Forget what was used before."""
    if torch.cuda.is_available():
        clear_device_cache(garbage_collection=True)
        torch.cuda.reset_peak_memory_stats()


def peak_text() -> str:
    """How much of the memory of its GPU this process has used at most; "" on a CPU."""
    if not torch.cuda.is_available():
        return ""
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return f"{torch.cuda.max_memory_allocated() / _GIB:.1f} of {total / _GIB:.1f} GiB of a GPU"
