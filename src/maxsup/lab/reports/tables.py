"""Tables of a report (results, differences, runs) as HTML, Markdown, LaTeX, CSV and JSON.

HTML shows everything about a cell. Markdown and LaTeX print one number per cell, with published numbers in columns of
their own; CSV and JSON hold one record per cell, with all digits and every seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxsup.core.errors import counted
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.reports.blocks import csv_text
from maxsup.lab.reports.summary import PairedComparison, PublishedCell, Summary, SummaryCell, SummaryEntry

HOLE = "-"  # stands for a missing number
FORMATS = {"md": "Markdown", "tex": "LaTeX", "csv": "CSV", "json": "JSON"}
_MAX_COLUMNS = 6  # more are too wide for a screen
_RUN_KEYS = ("arm", "loss", "seed", "status", "sentence", "folder", "log")
# Keys of records, and the fields of a cell's comparison and published number that they hold.
_COMPARED = {
    "difference": "difference", "difference_low": "low", "difference_high": "high",
    "p": "p", "adjusted_p": "adjusted_p", "num_pairs": "num_pairs",
}  # fmt: skip
_PUBLISHED = {"published": "text", "published_mean": "mean", "published_std": "std", "published_label": "label"}

_LATEX = str.maketrans({
    **{sign: f"\\{sign}" for sign in "{}$&#%_"}, "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "\u2013": "--", "\u2212": "$-$", "\n": " ",
})  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$&])")


class Head(NamedTuple):
    """The head of a column."""

    title: str
    group: str = ""
    is_number: bool = True


class Cell(NamedTuple):
    """A number as it is printed, and what is said about it."""

    text: str
    value: float | None = None  # for sorting
    is_bold: bool = False
    is_baseline: bool = False
    difference: str = ""  # to the baseline, with its interval
    evidence: str = ""  # behind the difference
    published: str = ""  # the same number in the paper
    label: str = ""  # of the paper's table
    gap: str = ""  # why there is no number, or how many seeds are missing


class Row(NamedTuple):
    """A row and its name."""

    title: str
    cells: Sequence[Cell]
    group: str = ""


class ReportTable(NamedTuple):
    """A table and the records behind it."""

    name: str
    caption: str
    corner: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    records: Sequence[Mapping[str, Any]]
    is_sortable: bool = True

    @property
    def has_groups(self) -> bool:
        """Whether rows come in groups."""
        return any(row.group for row in self.rows)

    def turned(self) -> ReportTable:
        """Columns as rows; its columns mix metrics and cannot be sorted.

        Example:
            >>> rows = [Row("ce", [Cell("1"), Cell("2")]), Row("ls", [Cell("3"), Cell("4")])]
            >>> found = ReportTable("t", "", "loss", [Head("acc"), Head("nll")], rows, []).turned()
            >>> [head.title for head in found.heads], [cell.text for cell in found.rows[1].cells]
            (['ce', 'ls'], ['2', '4'])
        """
        heads = [Head(row.title, row.group) for row in self.rows]
        rows = [Row(head.title, cells, head.group) for head, cells in zip(self.heads, self._columns(), strict=True)]
        return self._replace(corner="metric", heads=heads, rows=rows, is_sortable=False)

    def grid(self) -> tuple[Sequence[str], str, list[Sequence[tuple[str, bool]]]]:
        """Heads, sides (left or right) and rows of texts with a flag for bold; published numbers stand beside ours.

        Example:
            >>> row = Row("ls", [Cell("97.3", is_bold=True, published="76.4", label="tab:x")])
            >>> ReportTable("t", "", "loss", [Head("acc")], [row], []).grid()
            (('loss', 'acc', 'acc, published (tab:x)'), 'lrr', [(('ls', False), ('97.3', True), ('76.4', False))])
        """
        found = [("group", "l", [(row.group, False) for row in self.rows])] if self.has_groups else []
        found.append((self.corner, "l", [(row.title, False) for row in self.rows]))
        for head, cells in zip(self.heads, self._columns(), strict=True):
            title, side = f"{head.group}: {head.title}" if head.group else head.title, "r" if head.is_number else "l"
            found.append((title, side, [(cell.text, cell.is_bold) for cell in cells]))
            if labels := dict.fromkeys(cell.label for cell in cells if cell.published):
                published = [(cell.published or HOLE, False) for cell in cells]
                found.append((f"{title}, published ({', '.join(labels)})", side, published))
        heads, sides, columns = zip(*found, strict=True)
        return heads, "".join(sides), list(zip(*columns, strict=True))

    def markdown(self) -> str:
        """A table in GitHub's Markdown."""
        heads, sides, lines = self.grid()
        rows = [[markdown_text(head) for head in heads], ["---" if side == "l" else "---:" for side in sides]]
        rows += [
            [("**{}**" if is_bold else "{}").format(markdown_text(text)) for text, is_bold in line] for line in lines
        ]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{table}\n\n{markdown_text(self.caption)}\n"

    def latex(self) -> str:
        r"""A table for LaTeX; it needs ``\usepackage{booktabs}``."""
        heads, sides, lines = self.grid()
        rows = [[rf"\textbf{{{_latex(text)}}}" if is_bold else _latex(text) for text, is_bold in row] for row in lines]
        body = "\n".join(f"    {' & '.join(row)} \\\\" for row in rows)
        return (
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{_latex(self.caption)}}}\n  \\begin{{tabular}}{{{sides}}}\n    \\toprule\n"
            f"    {' & '.join(_latex(head) for head in heads)} \\\\\n    \\midrule\n{body}\n    \\bottomrule\n"
            "  \\end{tabular}\n\\end{table}\n"
        )

    def csv(self) -> str:
        """One line per record."""
        keys = list(dict.fromkeys(key for record in self.records for key in record))
        return csv_text(keys, [[record.get(key) for key in keys] for record in self.records])

    def json(self) -> str:
        """The records with the table's name and caption."""
        content = {"name": self.name, "caption": self.caption, "records": list(self.records)}
        return json_text(content, indent=2) + "\n"

    def files(self) -> dict[str, str]:
        """Contents by the ending of the file."""
        return dict(zip(FORMATS, (self.markdown(), self.latex(), self.csv(), self.json()), strict=True))

    def _columns(self) -> list[list[Cell]]:
        return [[row.cells[place] for row in self.rows] for place in range(len(self.heads))]


class MainTable(NamedTuple):
    """A table that can be downloaded in all formats, with others."""

    table: ReportTable
    others: Sequence[ReportTable] = ()

    @property
    def shown(self) -> ReportTable:
        """The table for the page: turned if it is too wide for a screen and turning makes it narrower."""
        num_columns, num_rows = len(self.table.heads), len(self.table.rows)
        return self.table.turned() if num_columns > max(_MAX_COLUMNS, num_rows) else self.table

    @property
    def downloads(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Names of tables, each with its formats: title, ending and content."""
        return [
            (table.name, [(FORMATS[ending], ending, content) for ending, content in table.files().items()])
            for table in (self.table, *self.others)
        ]


def results_table(summary: Summary) -> ReportTable:
    """The main table: means, differences to the baseline, published numbers."""
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
    corner = "loss" if {row.name for row in table.rows} <= set(summary.arm_titles) else ""
    return ReportTable("results", caption, table.corner or corner, heads, rows, records)


def differences_table(summary: Summary) -> ReportTable:
    """Paired differences to the baseline with their intervals, in the layout of the main table."""
    whole = results_table(summary)

    def difference(cell: Cell) -> Cell:
        text = "baseline" if cell.is_baseline else cell.difference or HOLE
        return Cell(text, is_bold=cell.is_bold, is_baseline=cell.is_baseline)

    rows = [Row(row.title, [difference(cell) for cell in row.cells], row.group) for row in whole.rows]
    keys = ("row", "column", *_COMPARED, "is_bold")
    records = [{key: each[key] for key in keys} for each in whole.records if each["difference"] is not None]
    caption = (
        f"{summary.title}. Difference to {summary.baseline_title} and its 95 % interval over {_seeds(summary)}, seed "
        f"by seed.{_scale_words(summary)}"
    )
    return ReportTable("differences", caption, whole.corner, whole.heads, rows, records)


def runs_table(summary: Summary) -> ReportTable:
    """Every planned run and its outcome."""
    runs = summary.runs
    columns = {
        Head("seed"): [Cell(str(run.seed), value=float(run.seed)) for run in runs],
        Head("status", is_number=False): [Cell(run.status, is_bold=run.status != "done") for run in runs],
        Head("what happened", is_number=False): [Cell(run.sentence) for run in runs],
        Head("directory", is_number=False): [Cell(run.folder) for run in runs],
        Head("log", is_number=False): [Cell(run.log or "") for run in runs],
    }
    # A column that is empty for all runs is left out.
    columns = {head: cells for head, cells in columns.items() if any(cell.text for cell in cells)}
    titles = [summary.arm_titles.get(run.arm, run.arm) for run in runs]
    rows = [Row(title, cells) for title, *cells in zip(titles, *columns.values(), strict=True)]
    records = [{key: getattr(run, key) for key in _RUN_KEYS} for run in runs]
    caption = f"All planned runs: {summary.num_done} of {len(runs)} done."
    return ReportTable("runs", caption, "arm", list(columns), rows, records)


def _cell(found: SummaryCell | None) -> Cell:
    if found is None:
        return Cell(HOLE)
    published, comparison = found.published or PublishedCell(), found.comparison or PairedComparison()
    tests = {} if math.isnan(comparison.p) else {"p": comparison.p, "Holm": comparison.adjusted_p}
    num_found = sum(value is not None for value in found.values.values())
    gap = "" if num_found == len(found.values) else f"{num_found} of {len(found.values)} seeds"
    if found.left_out or found.mean is None:
        gap = f"left out: {found.left_out}" if found.left_out else "no number"
    return Cell(
        text=HOLE if found.mean is None else found.text,
        value=found.mean,
        is_bold=found.is_bold,
        is_baseline=found.is_baseline,
        difference="" if found.is_baseline else found.difference_text,
        evidence=", ".join(f"{name} {p:.2g}" for name, p in tests.items()),
        published=published.text,
        label=published.label,
        gap=gap,
    )


def _record(row: SummaryEntry, column: SummaryEntry, found: SummaryCell, factor: float) -> dict[str, Any]:
    """All of a cell: stored numbers, which ``factor`` turns into printed ones, and published numbers as printed."""
    compared = {} if found.comparison is None else found.comparison.model_dump(mode="json")
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
        **{key: compared.get(name) for key, name in _COMPARED.items()},
        **{key: getattr(found.published, name, None) for key, name in _PUBLISHED.items()},
        "left_out": found.left_out,
        **{f"seed_{seed}": value for seed, value in found.values.items()},
    }


def _seeds(summary: Summary) -> str:
    return counted(len(summary.seeds), "paired seed")


def _scale_words(summary: Summary) -> str:
    return f" {summary.scale.upper()} SCALE: not the paper's experiment." if summary.is_reduced else ""


def markdown_text(text: str) -> str:
    """Text with all signs of Markdown escaped."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " "))


def _latex(text: str) -> str:
    return text.translate(_LATEX)
