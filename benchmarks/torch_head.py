"""Our head on a CPU against ``F.linear_cross_entropy`` of torch 2.15 in chunks, which is plain cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.goals import TORCH_HEAD_GOALS
from benchmarks.head import Head
from benchmarks.report import judged, lined_up, spread, time_columns
from maxsup.functional import linear_maxsup_cross_entropy
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import interleaved_times

OURS, NARROW, TORCH = "maxsup", "maxsup, few rows at a time", "torch, chunked"
HEADS = [Head(1024, 512, 32000), Head(1024, 512, 151936)]
QUICK_HEADS = [Head(128, 16, 2000)]
# A large vocabulary takes torch half a minute.
BUDGET = 60.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Time and peak memory of forward and backward, in float32 and bf16."""
    if not hasattr(torch.nn.modules, "linear_cross_entropy_options"):
        show("\ntorch_head needs torch 2.15, whose head it measures")
        return {"goals": []}
    found, goals = [], []
    for head, dtype in product(QUICK_HEADS if is_quick else HEADS, (torch.float32, torch.bfloat16)):
        name = f"{head}, {str(dtype).removeprefix('torch.')}"
        # As many rows as torch takes: logits of the size of the hidden states, rounded up to a power of two.
        rows = 1 << (-(-head.num_rows // -(-head.num_classes // head.width)) - 1).bit_length()
        hidden, weight, target = head.tensors(scale=1.0, dtype=dtype)
        losses: dict[str, Callable[[], Tensor]] = {
            TORCH: partial(_torch_loss, hidden, weight, target),
            OURS: partial(linear_maxsup_cross_entropy, hidden, weight, target),
            NARROW: partial(linear_maxsup_cross_entropy, hidden, weight, target, block_rows=rows),
        }
        steps = {peer: partial(_gradients, loss, (hidden, weight)) for peer, loss in losses.items()}
        times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
        peaks = {peer: peak_memory(step) for peer, step in steps.items()}
        columns = {peer: time_columns(times, peer, TORCH) for peer in steps}
        table = [
            [
                peer,
                f"{columns[peer]['milliseconds']:.0f}",
                spread(columns[peer]["time_ratio"]),
                f"{peaks[peer] / 1e6:.0f}",
            ]
            for peer in steps
        ]
        show(f"\n{name}, narrow blocks of {rows} rows\n{lined_up(['', 'best ms', 'time / torch', 'peak MB'], table)}")
        values = {
            "time_ratio": columns[OURS]["time_ratio"],
            "narrow_time_ratio": columns[NARROW]["time_ratio"],
            "narrow_peak_ratio": peaks[NARROW] / peaks[TORCH],
        }
        goals += [judged(text, name, values[key], limit) for key, (text, limit) in TORCH_HEAD_GOALS.items()]
        found.append({"head": name, "block_rows": rows, "times": columns, "peaks": peaks})
    return {"heads": found, "goals": goals}


def _torch_loss(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

    return F.linear_cross_entropy(hidden, weight, target, options=LinearCrossEntropyOptions())


def _gradients(loss: Callable[[], Tensor], parameters: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss(), parameters)
