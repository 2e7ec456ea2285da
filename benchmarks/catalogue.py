"""What every registered loss costs as a module, in time and peak memory, against torch's label smoothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

import maxsup
from benchmarks.cases import Case
from benchmarks.peers import YARDSTICK, Loss, gradient
from benchmarks.report import lined_up, spread, time_columns
from maxsup.lab.bench.baselines import torch_label_smoothing
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import interleaved_times

SIZES = (Case((128, 10)), Case((256, 1000)))
QUICK_SIZES = (Case((16, 10)),)
# Seconds of CPU time after which a size begins no further round.
BUDGET = 40.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Measure forward and backward of each loss with its default options."""
    measured = [_measured(case, rounds, show) for case in (QUICK_SIZES if is_quick else SIZES)]
    return {"yardstick": YARDSTICK, "cases": measured, "goals": []}


def _measured(case: Case, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    logits, target = case.logits(scale=3.0), case.target()
    # Any numbers will do: the cost of a loss does not depend on the teacher.
    teacher = case.logits(scale=1.0).detach()
    losses = {YARDSTICK: torch_label_smoothing} | {name: _bound(name, teacher) for name in maxsup.list_losses()}
    steps = {name: partial(gradient, loss, logits, target) for name, loss in losses.items()}
    times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
    memory = {name: peak_memory(step) / logits.nbytes for name, step in steps.items()}
    found = {name: time_columns(times, name, YARDSTICK) | {"peak_memory_ratio": memory[name]} for name in steps}
    rows = [
        [name, f"{row['milliseconds']:.3f}", spread(row["time_ratio"]), f"{row['peak_memory_ratio']:.2f}"]
        for name, row in found.items()
    ]
    show(f"\n{case.name}, every loss: {len(times[YARDSTICK])} rounds")
    show(lined_up(["", "best ms", "time / LS", "memory / logits"], rows))
    return {"case": case.name, "rounds": len(times[YARDSTICK]), "losses": found}


def _bound(name: str, teacher: Tensor) -> Loss:
    loss = maxsup.create_loss(name)
    loss.end_epoch()  # before the first epoch, for losses that learn from epochs
    return partial(loss, teacher_logits=teacher) if "teacher_logits" in loss.needs else loss
