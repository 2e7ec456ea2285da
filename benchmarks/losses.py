"""The loss on logits that exist already: time, peak memory and error in every case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.cases import CASES, QUICK_CASES, Case
from benchmarks.checks import Errors, errors, is_right
from benchmarks.goals import goals_for
from benchmarks.peers import OURS, YARDSTICK, Candidate, candidates, gradient
from benchmarks.report import judged, lined_up, spread, time_columns
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import interleaved_times

# Seconds of CPU time after which a case begins no further round.
BUDGET = 15.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Measure all cases, showing the table of each as soon as it is there."""
    measured = []
    for case in QUICK_CASES if is_quick else CASES:
        measured.append(measured_case(case, rounds))
        show("\n".join(_table(measured[-1])))
    goals = [verdict for case in measured for verdict in _verdicts(case)]
    return {"yardstick": YARDSTICK, "cases": measured, "goals": goals}


def measured_case(case: Case, rounds: int) -> dict[str, Any]:
    """One row a loss: the errors found before timing, milliseconds, time against label smoothing, peak memory."""
    # A compiled function must not remember the shapes of the case before.
    torch.compiler.reset()
    served = candidates(case)
    found = errors(served, case)
    left_out = dict(_wrong_losses(served, case, found))
    served = [candidate for candidate in served if candidate.name not in left_out]

    logits, target = case.logits(scale=3.0), case.target()
    steps: dict[str, Callable[[], object]] = {
        candidate.name: partial(gradient, candidate.loss, logits, target) for candidate in served
    }
    warm = torch.empty_like(logits, requires_grad=False)
    limits = {"copy_": lambda: warm.copy_(logits.detach()), "clone": lambda: logits.detach().clone()}
    times = interleaved_times(steps | limits, rounds=rounds, budget=BUDGET)
    rows = [
        {
            "loss": candidate.peer,
            "form": candidate.form,
            "loss_error": found[candidate.name].loss,
            "gradient_error": found[candidate.name].gradient,
            "peak_memory_ratio": peak_memory(steps[candidate.name]) / logits.nbytes,
            **time_columns(times, candidate.name, YARDSTICK),
        }
        for candidate in served
    ]
    return {
        "case": case.name,
        "shape": case.shape,
        "num_classes": case.num_classes,
        "layout": case.layout,
        "dtype": case.dtype,
        "ignore_index": case.ignore_index,
        "rounds": len(times[YARDSTICK]),
        "losses": rows,
        "copies": [{"copy": name, **time_columns(times, name, YARDSTICK)} for name in limits],
        "left_out": left_out,
    }


def _wrong_losses(served: list[Candidate], case: Case, found: dict[str, Errors]) -> Iterator[tuple[str, str]]:
    """Names of losses that are off, with the reason; ours and the yardstick must not be among them."""
    for candidate in served:
        error = found[candidate.name]
        if not is_right(candidate, case, error):
            reason = f"loss off by {error.loss:.0e}, gradient by {error.gradient:.0e}"
            if candidate.is_ours or candidate.name == YARDSTICK:
                raise RuntimeError(f"{candidate.name} must agree with the reference on {case.name}; {reason}.")
            yield candidate.name, reason


def _table(measured: dict[str, Any]) -> Iterable[str]:
    yield f"\n{measured['case']}: {measured['rounds']} rounds"
    header = ["", "best ms", "time / LS", "memory / logits", "loss error", "gradient error"]
    rows = [
        [
            row["loss"] if row["form"] == "eager" else f"{row['loss']}, compiled",
            f"{row['milliseconds']:.3f}",
            spread(row["time_ratio"]),
            f"{row['peak_memory_ratio']:.2f}",
            f"{row['loss_error']:.0e}",
            f"{row['gradient_error']:.0e}",
        ]
        for row in measured["losses"]
    ]
    copies = [
        [f"limit: {row['copy']}", f"{row['milliseconds']:.3f}", spread(row["time_ratio"]), "", "", ""]
        for row in measured["copies"]
    ]
    yield lined_up(header, rows + copies)
    for name, reason in measured["left_out"].items():
        yield f"left out, wrong here: {name} ({reason})"


def _verdicts(measured: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for row in measured["losses"]:
        if row["loss"] == OURS:
            for goal in goals_for(measured["num_classes"], measured["dtype"], measured["layout"], row["form"]):
                yield judged(goal.text, f"{measured['case']}, {row['form']}", row[goal.quantity], goal.limit)
