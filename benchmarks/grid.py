"""No slow corners: MaxSup and label smoothing against torch's label smoothing, over shapes and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases import Case
from benchmarks.goals import GRID_GOALS
from benchmarks.head import FUSED, HEADS, Head, gradients
from benchmarks.head import YARDSTICK as UNFUSED
from benchmarks.peers import YARDSTICK
from benchmarks.report import goal_table, judged, lined_up, spread, time_columns
from maxsup.functional import label_smoothing_cross_entropy, maxsup_cross_entropy
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import interleaved_times

LOSSES: dict[str, Callable[..., Tensor]] = {
    YARDSTICK: partial(F.cross_entropy, label_smoothing=0.1),
    "maxsup": maxsup_cross_entropy,
    "ls": label_smoothing_cross_entropy,
}
# Seconds of CPU time after which a row begins no further round.
BUDGET = 3.0
IGNORED = 255


class Row(NamedTuple):
    """Logits and what is special about the call."""

    case: Case
    option: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.case.name, self.option)))

    @property
    def num_bytes(self) -> int:
        """Size of the logits."""
        return self.case.logits(scale=1.0).nbytes

    def steps(self) -> dict[str, Callable[[], object]]:
        """Forward and backward of each loss on the same tensors."""
        logits, target = self.case.logits(scale=3.0), self.case.target()
        options: dict[str, Any] = {}
        upstream = None
        if self.option == "class weights":
            options["weight"] = torch.linspace(0.5, 1.5, self.case.num_classes, dtype=logits.dtype)
        elif self.option == "no reduction":
            options["reduction"], upstream = "none", torch.ones(target.shape, dtype=logits.dtype)
        elif self.option == "probabilities":
            target = self.case.logits(scale=1.0).detach().softmax(dim=1)
        elif self.option == "masked classes":
            kept = self.case.num_classes // 2
            logits, target = logits.detach(), target % kept
            logits[:, kept:] = -torch.inf
            logits.requires_grad_()
        if self.case.ignore_index == IGNORED:
            options["ignore_index"] = IGNORED

        def step(loss: Callable[..., Tensor]) -> tuple[Tensor, ...]:
            return torch.autograd.grad(loss(logits, target, **options), logits, upstream)

        return {name: partial(step, loss) for name, loss in LOSSES.items()}


class HeadRow(NamedTuple):
    """A linear head, with gradients of hidden states and weight."""

    head: Head

    def __str__(self) -> str:
        return str(self.head)

    @property
    def num_bytes(self) -> int:
        """Size of the logits that the head would have."""
        return 4 * self.head.num_rows * self.head.num_classes

    def steps(self) -> dict[str, Callable[[], object]]:
        """Forward and backward of the fused head, and of a linear layer with torch's label smoothing."""
        tensors = self.head.tensors()
        names = {YARDSTICK: UNFUSED, "maxsup": FUSED}
        return {name: partial(gradients, HEADS[loss], tensors) for name, loss in names.items()}


Rows = Sequence[Row | HeadRow]


def rows(
    *shapes: tuple[int, ...], dtypes: Sequence[str] = ("float32",), options: Sequence[str] = ("",)
) -> tuple[Row, ...]:
    """All combinations of shapes, types and options."""
    return tuple(
        Row(Case(shape, dtype, IGNORED), "") if option == "ignored labels" else Row(Case(shape, dtype), option)
        for shape in shapes
        for dtype in dtypes
        for option in options
    )


HALVES = ("bfloat16", "float16")
GRID: dict[str, Rows] = {
    "Small rows": (
        *rows((8, 10), (1, 1000), (128, 100), (8192, 2), (100000, 2)),
        *rows((32, 10), options=("", "class weights", "ignored labels", "no reduction", "probabilities")),
        *rows((256, 100), (512, 100), options=("", "class weights", "ignored labels")),
    ),
    "Rows": (
        *rows((256, 1000), options=("", "class weights", "ignored labels", "no reduction", "masked classes")),
        *rows((256, 1000), dtypes=HALVES),
        *rows((256, 1000), dtypes=("float32", "bfloat16"), options=("probabilities",)),
        *rows((64, 21843), dtypes=("float32", "bfloat16")),
        *rows((512, 32000), dtypes=("float32", "bfloat16")),
    ),
    "Dense": (
        *rows((4096, 10, 2), options=("", "no reduction", "probabilities")),
        *rows((512, 5, 16), (1024, 10, 8), (64, 10, 50), (128, 100, 7, 7), (8, 1000, 49)),
        *rows((256, 21, 14, 14), options=("ignored labels",)),
        *rows((2, 2, 512, 512), (1, 4, 64, 64, 64), (2, 32000, 128)),
        *rows((2, 19, 512, 1024), dtypes=("float32", *HALVES), options=("ignored labels",)),
    ),
    "Linear head": tuple(
        HeadRow(Head(*size))
        for size in (
            (8, 16, 10), (32, 64, 100), (257, 64, 10), (20000, 32, 10), (4096, 64, 100), (512, 64, 32000),
        )
    ),
}  # fmt: skip
QUICK_GRID: dict[str, Rows] = {
    "Rows": rows((32, 10), options=("", "class weights", "no reduction", "probabilities", "masked classes")),
    "Dense": rows((4, 5, 8), dtypes=("float32", "bfloat16"), options=("", "ignored labels")),
    "Linear head": (HeadRow(Head(8, 16, 10)),),
}


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Measure every row, showing a table of each group, and judge the worst ratios of all."""
    found = []
    for group, members in (QUICK_GRID if is_quick else GRID).items():
        measured = [{"group": group, **loss} for row in members for loss in measured_row(row, rounds)]
        show(f"\n{table(group, measured)}")
        found += measured
    goals = []
    for quantity, (text, limit) in GRID_GOALS.items():
        worst = max(found, key=lambda loss: _value(loss[quantity]))
        goals.append(judged(f"worst {text}", f"{worst['case']}, {worst['loss']}", worst[quantity], limit))
    return {"yardstick": YARDSTICK, "losses": found, "goals": goals}


def measured_row(row: Row | HeadRow, rounds: int) -> list[dict[str, Any]]:
    """Time and peak memory of each of our losses, as ratios to the yardstick, and memory in multiples of the logits."""
    steps = row.steps()
    times = interleaved_times(steps, rounds=rounds, budget=BUDGET)
    peaks = {name: peak_memory(step) for name, step in steps.items()}
    return [
        {
            "case": str(row),
            "loss": name,
            "rounds": len(times[name]),
            **time_columns(times, name, YARDSTICK),
            "logits_of_memory": peaks[name] / row.num_bytes,
            "logits_of_memory_yardstick": peaks[YARDSTICK] / row.num_bytes,
            "memory_ratio": peaks[name] / peaks[YARDSTICK],
        }
        for name in steps
        if name != YARDSTICK
    ]


def _value(measured: Any) -> float:
    return measured["median"] if isinstance(measured, dict) else measured


def table(group: str, measured: Sequence[Mapping[str, Any]]) -> str:
    """One line a loss, the slowest first."""
    limits = " and ".join(f"{limit:g} of the {text}" for text, limit in GRID_GOALS.values())
    header = ["", "best ms", "time / LS", "memory / LS", "memory / logits", "LS / logits", "goal"]
    lines = [
        [f"{loss['case']}, {loss['loss']}", f"{loss['milliseconds']:.3f}", spread(loss["time_ratio"]),
         f"{loss['memory_ratio']:.2f}", f"{loss['logits_of_memory']:.2f}", f"{loss['logits_of_memory_yardstick']:.2f}",
         "met" if all(_value(loss[quantity]) <= limit for quantity, (_, limit) in GRID_GOALS.items()) else "missed"]
        for loss in sorted(measured, key=lambda loss: -loss["time_ratio"]["median"])
    ]  # fmt: skip
    return f"{group}; goal: at most {limits}\n{lined_up(header, lines)}"


def write_tables(result: Mapping[str, Any], path: Path) -> None:
    """Write the tables and the worst ratios of what :func:`run` returned, for readers."""
    groups = dict.fromkeys(loss["group"] for loss in result["losses"])
    tables = [table(group, [loss for loss in result["losses"] if loss["group"] == group]) for group in groups]
    path.write_text("\n\n".join([*tables, goal_table(result["goals"])]) + "\n", encoding="utf-8")
