"""Verdicts, tables in plain text, and the file that keeps the numbers with what they were measured on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from maxsup.core.files.storage import json_text
from maxsup.core.repro import environment

PACKAGES = ("torch", "timm", "torch-uncertainty", "numpy")


def spread(quartiles: dict[str, float]) -> str:
    """Median [quartiles]."""
    return f"{quartiles['median']:.2f} [{quartiles['low']:.2f}-{quartiles['high']:.2f}]"


def judged(goal: str, case: str, measured: Any, limit: float) -> dict[str, Any]:
    """One goal in one case; of a ratio with quartiles the median counts."""
    value = measured["median"] if isinstance(measured, dict) else measured
    return {"goal": goal, "case": case, "measured": measured, "limit": limit, "is_met": value <= limit}


def lined_up(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table whose first column is text and whose others are numbers."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    for line in [header, *rows]:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join([first, *rest]).rstrip()


def goal_table(goals: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Measured, goal, verdict: one line a goal and case, and how many are met."""
    rows = [
        [
            f"{row['goal']}: {row['case']}",
            _measured(row["measured"]),
            f"<= {row['limit']:g}",
            "met" if row["is_met"] else "missed",
        ]
        for row in goals
    ]
    yield from lined_up(["goal: case", "measured", "limit", "verdict"], rows)
    yield f"{sum(row['is_met'] for row in goals)} of {len(goals)} met"


def _measured(value: Any) -> str:
    if isinstance(value, dict):
        return spread(value)
    return f"{value:.1e}" if value < 1e-3 else f"{value:.2f}"


def surroundings() -> dict[str, Any]:
    """What the numbers depend on: versions, processor, threads, and how busy the machine is."""
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
