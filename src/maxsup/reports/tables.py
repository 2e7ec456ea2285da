"""Tables of a report: one object each, which becomes HTML, Markdown, LaTeX, CSV and JSON.

HTML shows everything of a cell under one another. Markdown and LaTeX print a number a cell, with published numbers in
columns of their own; CSV and JSON hold one record a cell, with all digits and every seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from maxsup.core.files.storage import json_text
from maxsup.reports.blocks import Block, csv_text

HOLE = "-"  # where there is no number

# What readers call the form of a file, by its ending.
FORMATS = {"md": "Markdown", "tex": "LaTeX", "csv": "CSV", "json": "JSON"}

# A table with more columns is too wide for a screen.
_MAX_COLUMNS = 6

_LATEX = str.maketrans({
    **{sign: f"\\{sign}" for sign in "{}$&#%_"}, "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "\u2013": "--", "\u2212": "$-$", "\n": " ",
})  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$&])")


@dataclass(frozen=True)
class Head:
    """What stands over a column."""

    title: str
    group: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Cell:
    """A number as it is printed, and what belongs to it."""

    text: str
    value: float | None = None  # what sorting goes by
    is_bold: bool = False
    is_baseline: bool = False
    difference: str = ""  # to the baseline, with its interval
    evidence: str = ""  # behind the difference
    published: str = ""  # the same number in the paper
    label: str = ""  # where in the paper
    gap: str = ""  # why there is no number, or not as many as there should be


@dataclass(frozen=True)
class Row:
    """A row under its name."""

    title: str
    cells: Sequence[Cell]
    group: str = ""


@dataclass(frozen=True)
class ReportTable:
    """Rows under columns, and the records behind them."""

    name: str
    caption: str
    corner: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    records: Sequence[Mapping[str, Any]] = field(repr=False)
    is_sortable: bool = True

    @property
    def has_groups(self) -> bool:
        """Whether rows come in groups."""
        return any(row.group for row in self.rows)

    def turned(self) -> ReportTable:
        """Columns as rows; what then stands in a column cannot be put in an order.

        Example:
            >>> rows = [Row("ce", [Cell("1"), Cell("2")]), Row("ls", [Cell("3"), Cell("4")])]
            >>> found = ReportTable("t", "", "loss", [Head("acc"), Head("nll")], rows, []).turned()
            >>> [head.title for head in found.heads], [cell.text for cell in found.rows[1].cells]
            (['ce', 'ls'], ['2', '4'])
        """
        heads = [Head(row.title, row.group) for row in self.rows]
        rows = [
            Row(head.title, [row.cells[place] for row in self.rows], head.group)
            for place, head in enumerate(self.heads)
        ]
        return replace(self, corner="metric", heads=heads, rows=rows, is_sortable=False)

    def grid(self) -> tuple[list[str], list[list[tuple[str, bool]]]]:
        """Heads, and rows of text with whether it is bold: published numbers beside ours.

        Example:
            >>> row = Row("ls", [Cell("97.3", is_bold=True, published="76.4", label="tab:x")])
            >>> ReportTable("t", "", "loss", [Head("acc")], [row], []).grid()
            (['loss', 'acc', 'acc, published (tab:x)'], [[('ls', False), ('97.3', True), ('76.4', False)]])
        """
        heads = [*(["group"] if self.has_groups else []), self.corner]
        lines = [[*([(row.group, False)] if self.has_groups else []), (row.title, False)] for row in self.rows]
        for place, (head, labels) in enumerate(zip(self.heads, self._labels(), strict=True)):
            title = f"{head.group}: {head.title}" if head.group else head.title
            heads += [title, *([f"{title}, published ({', '.join(labels)})"] if labels else [])]
            for line, row in zip(lines, self.rows, strict=True):
                cell = row.cells[place]
                line += [(cell.text, cell.is_bold), *([(cell.published or HOLE, False)] if labels else [])]
        return heads, lines

    def markdown(self) -> str:
        """A table as GitHub shows it."""
        heads, lines = self.grid()
        rules = ["---" if side == "l" else "---:" for side in self._sides()]
        rows = [
            [f"**{markdown_text(text)}**" if is_bold else markdown_text(text) for text, is_bold in line]
            for line in lines
        ]
        table = "\n".join(f"| {' | '.join(row)} |" for row in [[markdown_text(head) for head in heads], rules, *rows])
        return f"{table}\n\n{markdown_text(self.caption)}\n"

    def latex(self) -> str:
        r"""A table for LaTeX; it needs ``\usepackage{booktabs}``."""
        heads, lines = self.grid()
        rows = [
            [rf"\textbf{{{_latex(text)}}}" if is_bold else _latex(text) for text, is_bold in line] for line in lines
        ]
        body = "\n".join(f"    {' & '.join(row)} \\\\" for row in rows)
        return (
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{_latex(self.caption)}}}\n  \\begin{{tabular}}{{{self._sides()}}}\n    \\toprule\n"
            f"    {' & '.join(_latex(head) for head in heads)} \\\\\n    \\midrule\n{body}\n    \\bottomrule\n"
            "  \\end{tabular}\n\\end{table}\n"
        )

    def csv(self) -> str:
        """One line a record."""
        keys = list(dict.fromkeys(key for record in self.records for key in record))
        return csv_text(keys, [[record.get(key) for key in keys] for record in self.records])

    def json(self) -> str:
        """The records under the table's name."""
        content = {"name": self.name, "caption": self.caption, "records": list(self.records)}
        return json_text(content, indent=2) + "\n"

    def files(self) -> dict[str, str]:
        """Content by the ending of the file."""
        return dict(zip(FORMATS, (self.markdown(), self.latex(), self.csv(), self.json()), strict=True))

    def _labels(self) -> list[list[str]]:
        """Where the published numbers of each column are from; nothing where it has none."""
        columns = [[row.cells[place] for row in self.rows] for place in range(len(self.heads))]
        return [list(dict.fromkeys(cell.label for cell in cells if cell.published)) for cells in columns]

    def _sides(self) -> str:
        """The side that each column of the grid is aligned to: names and words left, numbers right."""
        heads = zip(self.heads, self._labels(), strict=True)
        numbers = [("r" if head.is_number else "l") * (2 if labels else 1) for head, labels in heads]
        return "".join(["ll" if self.has_groups else "l", *numbers])


@dataclass(frozen=True)
class MainTable(Block):
    """A table with all its forms for download."""

    table: ReportTable
    others: Sequence[ReportTable] = ()

    @property
    def shown(self) -> ReportTable:
        """As the page shows it: a table too wide for a screen is turned where that makes it narrower."""
        num_columns, num_rows = len(self.table.heads), len(self.table.rows)
        return self.table.turned() if num_columns > max(_MAX_COLUMNS, num_rows) else self.table

    @property
    def downloads(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Names of tables, each with its forms: what readers call it, the ending, the content."""
        return [
            (table.name, [(FORMATS[ending], ending, content) for ending, content in table.files().items()])
            for table in (self.table, *self.others)
        ]


def markdown_text(text: str) -> str:
    """Text that stays text in Markdown."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " "))


def _latex(text: str) -> str:
    return text.translate(_LATEX)
