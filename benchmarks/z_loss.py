"""What a z-loss, a margin and a soft cap cost on the fused head: time and peak memory against the head without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.goals import Z_LOSS_GOALS
from benchmarks.head import QUICK_TIMED, TIMED, Head
from benchmarks.report import judged, lined_up
from maxsup.bench.peak_memory import peak_memory
from maxsup.bench.timing import Quartiles, interleaved_times, time_ratio
from maxsup.functional import linear_maxsup_cross_entropy

PLAIN, Z_LOSS = "without", "z_loss=1e-4"
TERMS: dict[str, dict[str, float]] = {
    PLAIN: {},
    Z_LOSS: {"z_loss": 1e-4},
    "margin=10": {"margin": 10.0},
    "soft_cap=30": {"soft_cap": 30.0},
}
# Seconds of CPU time after which no further round begins.
BUDGET = 120.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Measure each term on the usual head, gradients of hidden states and weight included."""
    head = QUICK_TIMED if is_quick else TIMED
    tensors = head.tensors()
    steps = {name: partial(_gradients, tensors, terms) for name, terms in TERMS.items()}
    times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
    peaks = {name: peak_memory(step) for name, step in steps.items()}
    rows = {
        name: {
            "time_ratio": time_ratio(times, name, PLAIN)._asdict(),
            "peak_ratio": peaks[name] / peaks[PLAIN],
            "milliseconds": 1000 * min(times[name]),
        }
        for name in TERMS
    }
    show("\n".join(_table(head, rows, len(times[PLAIN]))))
    goals = [judged(text, f"{head}", rows[Z_LOSS][quantity], limit) for quantity, (text, limit) in Z_LOSS_GOALS.items()]
    return {"size": str(head), "rounds": len(times[PLAIN]), "terms": rows, "goals": goals}


def _gradients(tensors: tuple[Tensor, Tensor, Tensor], terms: dict[str, float]) -> tuple[Tensor, ...]:
    hidden, weight, target = tensors
    return torch.autograd.grad(linear_maxsup_cross_entropy(hidden, weight, target, **terms), (hidden, weight))


def _table(head: Head, rows: dict[str, dict[str, Any]], rounds: int) -> list[str]:
    cells = [
        [
            name,
            f"{row['milliseconds']:.1f}",
            "{:.3f} [{:.3f}-{:.3f}]".format(*Quartiles(**row["time_ratio"])),
            f"{row['peak_ratio']:.3f}",
        ]
        for name, row in rows.items()
    ]
    title = f"\nHead {head}, float32: {rounds} rounds, against the head without"
    return [title, *lined_up(["", "best ms", "time", "peak"], cells)]
