"""Tables that a summary holds: results with their differences, and the list of runs."""

from __future__ import annotations

from typing import Any

from maxsup.reports.summary import CellComparison, PublishedCell, Summary, SummaryCell, SummaryEntry
from maxsup.reports.tables import HOLE, Cell, Head, ReportTable, Row

_RUN_KEYS = ("arm", "loss", "seed", "status", "sentence", "folder", "log")


def results_table(summary: Summary) -> ReportTable:
    """The main table of a summary: means, differences to the baseline, published numbers."""
    table = summary.table
    factors = {metric.name: metric.factor for metric in summary.metrics}
    rows = [
        Row(row.title, [_cell(table.cell(row, column)) for column in table.columns], row.group) for row in table.rows
    ]
    records = [
        _record(row, column, cell, factors.get(column.name, factors.get(row.name, 1.0)))
        for row, column, cell in table.filled()
    ]
    caption = (
        f"{summary.title}. Mean ± standard deviation over {_seeds(summary)}; differences are to "
        f"{summary.baseline_title}, seed by seed.{_scale_words(summary)}"
    )
    heads = [Head(column.title, column.group) for column in table.columns]
    return ReportTable("results", caption, table.corner or _corner(summary), heads, rows, records)


def differences_table(summary: Summary) -> ReportTable:
    """Paired differences to the baseline with their intervals, in the layout of the main table."""
    whole = results_table(summary)

    def difference(cell: Cell) -> Cell:
        text = "baseline" if cell.is_baseline else cell.difference or HOLE
        return Cell(text, is_bold=cell.is_bold, is_baseline=cell.is_baseline)

    rows = [Row(row.title, [difference(cell) for cell in row.cells], row.group) for row in whole.rows]
    keys = ("row", "column", "difference", "difference_low", "difference_high", "p", "adjusted_p", "num_pairs")
    records = [
        {key: record[key] for key in keys} | {"is_bold": record["is_bold"]}
        for record in whole.records
        if record["difference"] is not None
    ]
    caption = (
        f"{summary.title}. Difference to {summary.baseline_title} and its 95 % interval over {_seeds(summary)}, seed "
        f"by seed.{_scale_words(summary)}"
    )
    return ReportTable("differences", caption, whole.corner, whole.heads, rows, records)


def runs_table(summary: Summary) -> ReportTable:
    """Every planned run and what became of it."""
    words = ("status", "what happened", "directory", "log")
    heads, rows = [Head("seed"), *(Head(title, is_number=False) for title in words)], []
    for run in summary.runs:
        cells = [Cell(str(run.seed), value=float(run.seed)), Cell(run.status, is_bold=run.status != "done")]
        cells += [Cell(run.sentence), Cell(run.folder), Cell(run.log or "")]
        rows.append(Row(summary.arm_titles.get(run.arm, run.arm), cells))
    # What is empty for all of them needs no column.
    kept = [place for place in range(len(heads)) if any(row.cells[place].text for row in rows)]
    heads = [heads[place] for place in kept]
    rows = [Row(row.title, [row.cells[place] for place in kept]) for row in rows]
    records = [{key: getattr(run, key) for key in _RUN_KEYS} for run in summary.runs]
    caption = f"All planned runs: {summary.num_done} of {len(summary.runs)} done."
    return ReportTable("runs", caption, "arm", heads, rows, records)


def _cell(found: SummaryCell | None) -> Cell:
    if found is None:
        return Cell(HOLE)
    published = found.published or PublishedCell()
    num_missing = sum(value is None for value in found.values.values())
    if found.left_out:
        gap = f"left out: {found.left_out}"
    elif found.mean is None:
        gap = "no number"
    else:
        gap = f"{len(found.values) - num_missing} of {len(found.values)} seeds" if num_missing else ""
    return Cell(
        text=HOLE if found.mean is None else found.text,
        value=found.mean,
        is_bold=found.is_bold,
        is_baseline=found.is_baseline,
        difference="" if found.is_baseline else found.difference_text,
        evidence=_evidence(found.comparison or CellComparison()),
        published=published.text,
        label=published.label,
        gap=gap,
    )


def _evidence(comparison: CellComparison) -> str:
    if comparison.p_value is None:
        return ""
    text = f"p {comparison.p_value:.2g}"
    return text if comparison.adjusted_p is None else f"{text}, Holm {comparison.adjusted_p:.2g}"


def _record(row: SummaryEntry, column: SummaryEntry, found: SummaryCell, factor: float) -> dict[str, Any]:
    """All of a cell; numbers are as stored, and times ``factor`` as printed. Published ones are as printed."""
    comparison, published = found.comparison, found.published
    return {
        "row": row.name,
        "row_title": row.title,
        "row_group": row.group,
        "column": column.name,
        "column_title": column.title,
        "column_group": column.group,
        "text": HOLE if found.mean is None else found.text,
        "mean": found.mean,
        "std": found.std,
        "factor": factor,
        "is_bold": found.is_bold,
        "is_baseline": found.is_baseline,
        "difference": comparison and comparison.mean_difference,
        "difference_low": comparison and comparison.low,
        "difference_high": comparison and comparison.high,
        "p": comparison and comparison.p_value,
        "adjusted_p": comparison and comparison.adjusted_p,
        "num_pairs": comparison and comparison.num_pairs,
        "published": published and published.text,
        "published_mean": published and published.mean,
        "published_std": published and published.std,
        "published_label": published and published.label,
        "left_out": found.left_out,
        **{f"seed_{seed}": value for seed, value in found.values.items()},
    }


def _seeds(summary: Summary) -> str:
    num = len(summary.seeds)
    return f"{num} paired seed{'' if num == 1 else 's'}"


def _scale_words(summary: Summary) -> str:
    return f" {summary.scale.upper()} SCALE: not the paper's experiment." if summary.is_reduced else ""


def _corner(summary: Summary) -> str:
    return "loss" if {row.name for row in summary.table.rows} <= set(summary.arm_titles) else ""
