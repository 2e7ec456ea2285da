"""Tables that a summary holds: results with their differences, and the list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxsup.reports.tables import HOLE, REDUCED, Cell, Head, ReportTable, Row


def results_table(summary: Mapping[str, Any]) -> ReportTable:
    """The main table of a summary: means, differences to the baseline, published numbers."""
    table, baseline = summary["table"], summary["baseline"]
    columns, records, rows = table["columns"], [], []
    factors = {metric["name"]: float(metric["factor"]) for metric in summary["metrics"]}
    for row in table["rows"]:
        cells = []
        for column in columns:
            found = table["cells"].get(row["name"], {}).get(column["name"])
            cells.append(_cell(found))
            if found is not None:
                factor = factors.get(column["name"], factors.get(row["name"], 1.0))
                records.append(_record(row, column, found, factor))
        rows.append(Row(row["title"], cells, row.get("group") or ""))
    caption = (
        f"{summary['title']}. Mean ± standard deviation over {_seeds(summary)}; differences are to {baseline}, seed by "
        f"seed.{_scale_words(summary)}"
    )
    heads = [Head(column["title"], column.get("group") or "") for column in columns]
    return ReportTable("results", caption, table.get("corner") or _corner(summary), heads, rows, records)


def differences_table(summary: Mapping[str, Any]) -> ReportTable:
    """Paired differences to the baseline with their intervals, in the layout of the main table."""
    whole = results_table(summary)
    rows = [
        Row(
            row.title,
            [
                Cell(
                    "baseline" if cell.is_baseline else cell.difference or HOLE,
                    is_bold=cell.is_bold,
                    is_baseline=cell.is_baseline,
                )
                for cell in row.cells
            ],
            row.group,
        )
        for row in whole.rows
    ]
    keys = ("row", "column", "difference", "difference_low", "difference_high", "p", "adjusted_p", "num_pairs")
    records = [
        {key: record[key] for key in keys} | {"is_bold": record["is_bold"]}
        for record in whole.records
        if record["difference"] is not None
    ]
    caption = (
        f"{summary['title']}. Difference to {summary['baseline']} and its 95 % interval over {_seeds(summary)}, seed "
        f"by seed.{_scale_words(summary)}"
    )
    return ReportTable("differences", caption, whole.corner, whole.heads, rows, records)


def runs_table(summary: Mapping[str, Any]) -> ReportTable:
    """Every planned run and what became of it."""
    titles = arm_titles(summary)
    heads = [
        Head("seed"),
        Head("status", is_number=False),
        Head("what happened", is_number=False),
        Head("directory", is_number=False),
        Head("log", is_number=False),
    ]
    rows, records = [], []
    for run in summary["runs"]:
        cells = [
            Cell(str(run["seed"]), value=float(run["seed"])),
            Cell(run["status"], is_bold=run["status"] != "done"),
            Cell(run.get("sentence") or ""),
            Cell(run["folder"]),
            Cell(run.get("log") or ""),
        ]
        rows.append(Row(titles.get(run["arm"], run["arm"]), cells))
        records.append({key: run.get(key) for key in ("arm", "loss", "seed", "status", "sentence", "folder", "log")})
    # What is empty for all of them needs no column.
    kept = [place for place in range(len(heads)) if any(row.cells[place].text for row in rows)]
    heads = [heads[place] for place in kept]
    rows = [Row(row.title, [row.cells[place] for place in kept]) for row in rows]
    done = sum(run["status"] == "done" for run in summary["runs"])
    caption = f"All planned runs: {done} of {len(summary['runs'])} done."
    return ReportTable("runs", caption, "arm", heads, rows, records)


def arm_titles(summary: Mapping[str, Any]) -> dict[str, str]:
    """What each arm is called."""
    return {entry["loss"]: entry["title"] for entry in summary.get("losses", [])}


def _cell(found: Mapping[str, Any] | None) -> Cell:
    if found is None:
        return Cell(HOLE)
    published = found.get("published") or {}
    values = found.get("values") or {}
    num_missing = sum(value is None for value in values.values())
    if found.get("left_out"):
        gap = f"left out: {found['left_out']}"
    elif found.get("mean") is None:
        gap = "no number"
    else:
        gap = f"{len(values) - num_missing} of {len(values)} seeds" if num_missing else ""
    return Cell(
        text=HOLE if found.get("mean") is None else found["text"],
        value=found.get("mean"),
        is_bold=bool(found.get("is_bold")),
        is_baseline=bool(found.get("is_baseline")),
        difference="" if found.get("is_baseline") else found.get("difference_text") or "",
        evidence=_evidence(found.get("comparison")),
        published=published.get("text") or "",
        label=published.get("label") or "",
        gap=gap,
    )


def _evidence(comparison: Mapping[str, Any] | None) -> str:
    if not comparison or comparison.get("p_value") is None:
        return ""
    text = f"p {comparison['p_value']:.2g}"
    return text if comparison.get("adjusted_p") is None else f"{text}, Holm {comparison['adjusted_p']:.2g}"


def _record(
    row: Mapping[str, Any], column: Mapping[str, Any], found: Mapping[str, Any], factor: float
) -> dict[str, Any]:
    """All of a cell; numbers are as stored, and times ``factor`` as printed. Published ones are as printed."""
    comparison, published = found.get("comparison") or {}, found.get("published") or {}
    return {
        "row": row["name"],
        "row_title": row["title"],
        "row_group": row.get("group") or "",
        "column": column["name"],
        "column_title": column["title"],
        "column_group": column.get("group") or "",
        "text": HOLE if found.get("mean") is None else found["text"],
        "mean": found.get("mean"),
        "std": found.get("std"),
        "factor": factor,
        "is_bold": bool(found.get("is_bold")),
        "is_baseline": bool(found.get("is_baseline")),
        "difference": comparison.get("mean_difference"),
        "difference_low": comparison.get("low"),
        "difference_high": comparison.get("high"),
        "p": comparison.get("p_value"),
        "adjusted_p": comparison.get("adjusted_p"),
        "num_pairs": comparison.get("num_pairs"),
        "published": published.get("text"),
        "published_mean": published.get("mean"),
        "published_std": published.get("std"),
        "published_label": published.get("label"),
        "left_out": found.get("left_out") or "",
        **{f"seed_{seed}": value for seed, value in (found.get("values") or {}).items()},
    }


def _seeds(summary: Mapping[str, Any]) -> str:
    num = len(summary["seeds"])
    return f"{num} paired seed{'' if num == 1 else 's'}"


def _scale_words(summary: Mapping[str, Any]) -> str:
    scale = summary.get("scale")
    return f" {scale.upper()} SCALE: not the paper's experiment." if scale in REDUCED else ""


def _corner(summary: Mapping[str, Any]) -> str:
    arms = set(arm_titles(summary))
    return "loss" if {row["name"] for row in summary["table"]["rows"]} <= arms else ""
