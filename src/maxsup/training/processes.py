"""Devices, precision and processes: Hugging Face Accelerate, and the few agreements between processes we need."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from torch import Tensor

from maxsup.core.config import Recipe
from maxsup.core.files.rundir import RunDir

_PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def create_accelerator(recipe: Recipe, run: RunDir) -> Accelerator:
    """The accelerator that a recipe asks for, on the devices there are."""
    on_cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    if on_cpu and recipe.precision == "float16":
        raise ValueError("precision must be float32 or bfloat16 on a CPU; got 'float16'. Set precision=float32.")
    if recipe.tracker is not None and find_spec(recipe.tracker) is None:
        # Accelerate would go on without it.
        raise ImportError(
            f"tracker must be installed; got {recipe.tracker!r}, which is not. Run pip install {recipe.tracker}, or "
            "leave tracker out: metrics.jsonl is always written."
        )
    # A process that trained before with another precision would refuse this one.
    AcceleratorState._reset_state()
    return Accelerator(
        cpu=on_cpu,
        mixed_precision=_PRECISIONS[recipe.precision],
        log_with=recipe.tracker,
        project_dir=str(run.path),
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )


def leave_group() -> None:
    """Say goodbye to the other processes, where there are any; the last thing a process does."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


class Processes:
    """What the processes of a run tell each other; with one process everything is free."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.rank: int = accelerator.process_index
        self.count: int = accelerator.num_processes
        self.device: torch.device = accelerator.device
        self.is_main: bool = accelerator.is_main_process

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.count > 1:
            dist.all_reduce(value)
        return value

    def largest(self, *values: float) -> list[float]:
        """Per position the largest value in any process, so that all of them decide alike."""
        if self.count == 1:
            return list(values)
        agreed = torch.tensor(values, device=self.device)
        dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
        return agreed.tolist()

    def gathered(self, value: Any) -> list[Any]:
        """The values of all processes, in order of rank."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Go on only when all processes are here."""
        if self.count > 1:
            dist.barrier()
