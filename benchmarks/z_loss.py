"""What a z-loss, a margin and a soft cap cost on the fused head: time and peak memory against the head without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.goals import Z_LOSS_GOALS
from benchmarks.head import QUICK_TIMED, TIMED, gradients
from benchmarks.report import judged, lined_up, time_columns
from maxsup.functional import linear_maxsup_cross_entropy
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import Quartiles, interleaved_times

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
    steps = {
        name: partial(gradients, partial(linear_maxsup_cross_entropy, **terms), tensors)
        for name, terms in TERMS.items()
    }
    times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
    peaks = {name: peak_memory(step) for name, step in steps.items()}
    rows = {name: time_columns(times, name, PLAIN) | {"peak_ratio": peaks[name] / peaks[PLAIN]} for name in TERMS}
    cells = [
        [name, f"{row['milliseconds']:.1f}", "{:.3f} [{:.3f}-{:.3f}]".format(*Quartiles(**row["time_ratio"])),
         f"{row['peak_ratio']:.3f}"]
        for name, row in rows.items()
    ]  # fmt: skip
    show(f"\nHead {head}, float32: {len(times[PLAIN])} rounds, against the head without")
    show(lined_up(["", "best ms", "time", "peak"], cells))
    goals = [judged(text, str(head), rows[Z_LOSS][quantity], limit) for quantity, (text, limit) in Z_LOSS_GOALS.items()]
    return {"size": str(head), "rounds": len(times[PLAIN]), "terms": rows, "goals": goals}
