"""What losses cost, read from ``benchmarks/results``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.site.rst import document, table, titled


def catalogue(root: Path) -> dict[str, Any]:
    """The measurements of every registered loss."""
    return json.loads((root / "benchmarks" / "results" / "catalogue.json").read_text(encoding="utf-8"))


def cost_rows(root: Path, name: str) -> list[list[str]]:
    """Size of the logits, time and memory of one loss; nothing where it was not measured."""
    return [
        [size(case["case"]), spread(case["losses"][name]["time_ratio"]), memory(case["losses"][name])]
        for case in catalogue(root)["cases"]
        if name in case["losses"]
    ]


def size(case: str) -> str:
    """The sizes in the name of a case.

    Example:
        >>> size("4x150x128x128, ignore_index=255")
        '4 x 150 x 128 x 128, ignore_index=255'
    """
    return re.sub(r"(?<=\d)x(?=\d)", " x ", case)


def spread(ratio: Mapping[str, float]) -> str:
    """Median and quartiles of a ratio."""
    return f"{ratio['median']:.2f} [{ratio['low']:.2f} to {ratio['high']:.2f}]"


def memory(row: Mapping[str, float]) -> str:
    """Peak memory beyond the logits, in units of them."""
    return f"{row['peak_memory_ratio']:.2f}"


def measured_when(root: Path, result: Mapping[str, Any] | None = None, part: str = "catalogue") -> str:
    """The sentence that says where numbers are from."""
    facts = (result or catalogue(root))["environment"]
    return (
        f"Forward and backward on one thread ({facts['cpu']}), medians and quartiles of ratios within a round; "
        f"torch {facts['packages']['torch']}, {facts['date'][:10]}, ``python -m benchmarks {part}``."
    )


def pages(root: Path) -> dict[str, str]:
    """The page on cost: MaxSup beside what one would use instead, then every loss."""
    losses = json.loads((root / "benchmarks" / "results" / "losses.json").read_text(encoding="utf-8"))
    cases = catalogue(root)["cases"]
    every = [
        # Those that are not ours have names of several words, and no card.
        [name if " " in name else f":doc:`{name} <losses/{name}>`"]
        + [
            cell
            for case in cases
            for cell in (spread(case["losses"][name]["time_ratio"]), memory(case["losses"][name]))
        ]
        for name in cases[0]["losses"]
    ]
    sizes = [size(case["case"]) for case in cases]
    header = ["loss", *(f"{each}, {what}" for each in sizes for what in ("time", "memory"))]
    text = document(
        titled("Cost", "="),
        "Time is in units of torch's own label smoothing in the same run: 1 is as fast, 0.5 twice as fast. "
        "Memory is the peak beyond the logits, in units of the logits.",
        titled("MaxSup beside what it replaces", "-"),
        table(["logits", "naive formula, time", "ours, time", "ours, memory", "ours compiled, time"], _rows(losses)),
        measured_when(root, losses, "losses"),
        titled("Every loss", "-"),
        table(header, every),
        measured_when(root) + " The losses that go through the logits once are told in "
        ":doc:`the architecture <architecture>`; the others follow their formula and cost what it costs.",
    )
    return {"cost.rst": text}


def _rows(result: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for case in result["cases"]:
        found = {(row["loss"], row["form"]): row for row in case["losses"]}
        compiled = found.get(("maxsup", "compiled"))
        rows.append(
            [
                size(case["case"]),
                spread(found["naive MaxSup", "eager"]["time_ratio"]),
                spread(found["maxsup", "eager"]["time_ratio"]),
                memory(found["maxsup", "eager"]),
                "" if compiled is None else spread(compiled["time_ratio"]),
            ]
        )
    return rows
