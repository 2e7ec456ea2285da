"""Devices, precision and processes: Hugging Face Accelerate, and the communication that training needs."""

from __future__ import annotations

import os
import re
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import gather_object
from torch import nn

from maxsup.core.errors import LostProcessError, first_line
from maxsup.lab.core.config import Recipe

_PRECISIONS = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}

_PATIENCE = 5.0  # seconds that a process may take to die after its connections
_COMMUNICATION = re.compile(r"gloo|nccl|connection|socket|broken pipe|process group|timed out", re.IGNORECASE)


class _Peer(NamedTuple):
    rank: int
    host: str
    pid: int


def is_gone(process: int, host: str) -> bool:
    """Whether a process has died, as far as that can be seen from here: on other machines it cannot."""
    if host != socket.gethostname():
        return False
    try:
        os.kill(process, 0)
        # One that nobody has waited for yet is dead too; its name, in brackets, may hold anything.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True
    except OSError:
        return False


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


@contextmanager
def lost_processes_named(accelerator: Accelerator) -> Iterator[None]:
    """Turn the error that a process gets because another one has died into a sentence that names that one."""
    if accelerator.num_processes == 1:
        yield
        return
    own = _Peer(accelerator.process_index, socket.gethostname(), os.getpid())
    peers = [_Peer(*each) for each in gather_object([tuple(own)])]
    try:
        yield
    except RuntimeError as error:
        if not _COMMUNICATION.search(str(error)):
            raise
        gone, deadline = list[_Peer](), time.monotonic() + _PATIENCE
        while not gone and time.monotonic() < deadline:
            gone = [peer for peer in peers if is_gone(peer.pid, peer.host)]
            time.sleep(0.05)
        lost = ", ".join(f"rank {peer.rank} (process {peer.pid} on {peer.host})" for peer in gone)
        found = f"{lost}, which died" if lost else f"no answer of another one ({first_line(error)})"
        raise LostProcessError(
            f"all processes of a run must stay until its end; got {found}. What it said itself, or the log of its "
            "machine, says why. Give the same command again: the run goes on from its last checkpoint.",
            code="lost-process",
        ) from error


def leave_group() -> None:
    """Leave the process group, if there is one, after all other processes have finished too."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def prepare_buffers(accelerator: Accelerator, model: nn.Module) -> None:
    """Let processes keep their own running statistics until :func:`share_buffers`, instead of a broadcast a step.

    Training does not read the statistics of batch norms. Buffers of other modules may matter, so a model that has
    some is left to the broadcast.
    """
    norms = nn.modules.batchnorm._NormBase
    others = (module for module in model.modules() if not isinstance(module, norms))
    if accelerator.ddp_handler is not None and not any(True for module in others for _ in module.buffers(False)):
        # Accelerate has no other name for it, which torch 2.15 would rather be given.
        warnings.filterwarnings("ignore", message=".*broadcast_buffers. is deprecated")
        accelerator.ddp_handler.broadcast_buffers = False


def share_buffers(accelerator: Accelerator, *models: nn.Module) -> None:
    """Give all processes the buffers of the main one, which are those that are saved."""
    if accelerator.num_processes > 1:
        for buffer in (buffer for model in models for buffer in model.buffers()):
            dist.broadcast(buffer, src=0)


def largest(accelerator: Accelerator, value: float) -> float:
    """Return the largest value in any process, so that all processes decide alike."""
    if accelerator.num_processes == 1:
        return value
    agreed = torch.tensor(value, device=accelerator.device)
    dist.all_reduce(agreed, op=dist.ReduceOp.MAX)
    return agreed.item()
