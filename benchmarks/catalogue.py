"""What every registered loss costs as a module, in time and peak memory, against torch's label smoothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import maxsup
from benchmarks.cases import Case
from benchmarks.peers import YARDSTICK
from benchmarks.report import lined_up, spread
from maxsup.bench.baselines import torch_label_smoothing
from maxsup.bench.peak_memory import peak_memory
from maxsup.bench.timing import interleaved_times, time_ratio

SIZES = (Case((128, 10)), Case((256, 1000)))
QUICK_SIZES = (Case((16, 10)),)
# Seconds of CPU time after which a size begins no further round.
BUDGET = 40.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Measure forward and backward of each loss with its default options."""
    measured = []
    for case in QUICK_SIZES if is_quick else SIZES:
        measured.append(_measured(case, rounds))
        show("\n".join(_table(measured[-1])))
    return {"yardstick": YARDSTICK, "cases": measured, "goals": []}


def _measured(case: Case, rounds: int) -> dict[str, Any]:
    logits, target = case.logits(scale=3.0), case.target()
    # Any numbers will do: what a loss costs does not depend on what the teacher says.
    teacher = case.logits(scale=1.0).detach()
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        name: _bound(maxsup.create_loss(name), teacher) for name in maxsup.list_losses()
    }
    steps = {
        name: partial(_gradient, loss, logits, target)
        for name, loss in {YARDSTICK: torch_label_smoothing, **losses}.items()
    }
    times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
    return {
        "case": case.name,
        "rounds": len(times[YARDSTICK]),
        "losses": {
            name: {
                "milliseconds": 1000 * min(times[name]),
                "time_ratio": time_ratio(times, name, YARDSTICK)._asdict(),
                "peak_memory_ratio": peak_memory(steps[name]) / logits.nbytes,
            }
            for name in steps
        },
    }


def _bound(loss: Any, teacher: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    # Where a loss learns from epochs, this is before the first.
    loss.end_epoch()
    return partial(loss, teacher_logits=teacher) if "teacher_logits" in loss.needs else loss


def _gradient(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss(logits, target), logits)


def _table(measured: dict[str, Any]) -> list[str]:
    rows = [
        [name, f"{row['milliseconds']:.3f}", spread(row["time_ratio"]), f"{row['peak_memory_ratio']:.2f}"]
        for name, row in measured["losses"].items()
    ]
    title = f"\n{measured['case']}, every loss: {measured['rounds']} rounds"
    return [title, *lined_up(["", "best ms", "time / LS", "memory / logits"], rows)]
