"""Verdicts, tables in plain text, and files that keep the numbers with the environment they were measured in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from maxsup.lab.bench.timing import Quartiles, time_ratio
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.core.repro import environment

PACKAGES = ("torch", "timm", "torch-uncertainty", "numpy")


def spread(quartiles: dict[str, float]) -> str:
    """Median [quartiles]."""
    return str(Quartiles(**quartiles))


def time_columns(times: Mapping[str, Sequence[float]], name: str, baseline: str) -> dict[str, Any]:
    """Best time of a candidate, and its ratio to the baseline."""
    return {"milliseconds": 1000 * min(times[name]), "time_ratio": time_ratio(times, name, baseline)._asdict()}


def judged(goal: str, case: str, measured: Any, limit: float) -> dict[str, Any]:
    """One goal in one case; the median decides where there are quartiles."""
    value = measured["median"] if isinstance(measured, dict) else measured
    return {"goal": goal, "case": case, "measured": measured, "limit": limit, "is_met": value <= limit}


def lined_up(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in [header, *rows]
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def goal_table(goals: Sequence[dict[str, Any]]) -> str:
    """Measured, goal, verdict: one line for each goal and case, and how many are met."""
    rows = [
        [f"{goal['goal']}: {goal['case']}", _measured(goal["measured"]), f"<= {goal['limit']:g}",
         "met" if goal["is_met"] else "missed"]
        for goal in goals
    ]  # fmt: skip
    table = lined_up(["goal: case", "measured", "limit", "verdict"], rows)
    return f"{table}\n{sum(goal['is_met'] for goal in goals)} of {len(goals)} met"


def _measured(value: Any) -> str:
    if isinstance(value, dict):
        return spread(value)
    return f"{value:.1e}" if value < 1e-3 else f"{value:.2f}"


def surroundings() -> dict[str, Any]:
    """What the numbers depend on: versions, processor, threads, and the load of the machine."""
    known = environment()
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **{key: known[key] for key in ("maxsup", "git_commit", "python", "cpu", "num_cores", "threads")},
        "packages": {name: _version(name) for name in PACKAGES},
        "load_average": list(os.getloadavg()),
    }


def write_result(folder: Path, name: str, result: dict[str, Any]) -> Path:
    """Keep a result as ``<name>.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json_text(result, indent=1) + "\n", encoding="utf-8")
    return path


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
