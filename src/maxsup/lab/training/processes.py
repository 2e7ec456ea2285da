"""Devices, precision and processes: Hugging Face Accelerate, and the communication that training needs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState

from maxsup.lab.core.config import Recipe

_PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


def create_accelerator(recipe: Recipe, folder: Path | None = None) -> Accelerator:
    """Create the accelerator of a recipe, on the available devices; ``folder`` is where a tracker may write."""
    on_cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    if on_cpu and recipe.precision == "float16":
        raise ValueError("precision must be float32 or bfloat16 on a CPU; got 'float16'. Set precision=float32.")
    if recipe.tracker is not None and find_spec(recipe.tracker) is None:
        # Accelerate would silently continue without it.
        raise ImportError(
            f"tracker must be installed; got {recipe.tracker!r}, which is not. Run pip install {recipe.tracker}, or "
            "leave tracker out: metrics.jsonl is always written."
        )
    # Otherwise a process that trained before with another precision would refuse this one.
    AcceleratorState._reset_state()
    return Accelerator(
        cpu=on_cpu,
        mixed_precision=_PRECISIONS[recipe.precision],
        log_with=recipe.tracker,
        project_dir=None if folder is None else str(folder),
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )


def leave_group() -> None:
    """Leave the process group, if there is one, after all other processes have finished too."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def largest(accelerator: Accelerator, value: float) -> float:
    """Return the largest value in any process, so that all processes decide alike."""
    if accelerator.num_processes == 1:
        return value
    agreed = torch.tensor(value, device=accelerator.device)
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
    return agreed.item()
