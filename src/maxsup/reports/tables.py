"""Tables of a report: one object each, which becomes HTML, Markdown, LaTeX, CSV and JSON.

HTML shows everything of a cell under one another. Markdown and LaTeX print a number a cell, with published numbers in
columns of their own; CSV and JSON hold one record a cell, with all digits and every seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from maxsup.core.files.storage import json_text
from maxsup.reports.blocks import csv_text

HOLE = "-"
"""What stands where there is no number."""

FORMATS = ("md", "tex", "csv", "json")

# A table with more columns is too wide for a screen.
_MAX_COLUMNS = 6

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "\u2013": "--",
    "\u2212": "$-$",
    "\n": " ",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#~$&])")


@dataclass(frozen=True)
class Head:
    """What stands over a column."""

    title: str
    group: str = ""
    is_number: bool = True


@dataclass(frozen=True)
class Cell:
    """A number as it is printed, and what belongs to it.

    Args:
        text: What is printed.
        value: What sorting goes by.
        is_bold: Whether it may be printed bold.
        is_baseline: Whether others are compared with it.
        difference: To the baseline, with its interval.
        evidence: Behind the difference.
        published: The same number in the paper.
        label: Where in the paper.
        gap: Why there is no number, or not as many as there should be.
    """

    text: str
    value: float | None = None
    is_bold: bool = False
    is_baseline: bool = False
    difference: str = ""
    evidence: str = ""
    published: str = ""
    label: str = ""
    gap: str = ""


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
    kind: ClassVar[str] = "matrix"

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
        published: list[bool] = []
        for place, head in enumerate(self.heads):
            title = f"{head.group}: {head.title}" if head.group else head.title
            labels = dict.fromkeys(row.cells[place].label for row in self.rows if row.cells[place].published)
            heads += [title, *([f"{title}, published ({', '.join(labels)})"] if labels else [])]
            published.append(bool(labels))
        lines = []
        for row in self.rows:
            line = [*([(row.group, False)] if self.has_groups else []), (row.title, False)]
            for cell, has_published in zip(row.cells, published, strict=True):
                line += [(cell.text, cell.is_bold), *([(cell.published or HOLE, False)] if has_published else [])]
            lines.append(line)
        return heads, lines

    def markdown(self) -> str:
        """A table as GitHub shows it."""
        heads, lines = self.grid()
        num_names = 2 if self.has_groups else 1
        aligned = [True] * num_names + [not head.is_number for head in self._grid_heads()]
        rules = ["---" if is_left else "---:" for is_left in aligned]
        rows = [
            [f"**{markdown_text(text)}**" if is_bold else markdown_text(text) for text, is_bold in line]
            for line in lines
        ]
        table = "\n".join(f"| {' | '.join(row)} |" for row in [[markdown_text(head) for head in heads], rules, *rows])
        return f"{table}\n\n{markdown_text(self.caption)}\n"

    def latex(self) -> str:
        r"""A table for LaTeX; it needs ``\usepackage{booktabs}``."""
        heads, lines = self.grid()
        num_names = 2 if self.has_groups else 1
        columns = "l" * num_names + "".join("r" if head.is_number else "l" for head in self._grid_heads())
        rows = [
            [rf"\textbf{{{_latex(text)}}}" if is_bold else _latex(text) for text, is_bold in line] for line in lines
        ]
        body = "\n".join(f"    {' & '.join(row)} \\\\" for row in rows)
        return (
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{_latex(self.caption)}}}\n  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n"
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

    def _grid_heads(self) -> list[Head]:
        """A head for each column of the grid that is not a name."""
        found = []
        for place, head in enumerate(self.heads):
            has_published = any(row.cells[place].published for row in self.rows)
            found += [head] * (2 if has_published else 1)
        return found


@dataclass(frozen=True)
class MainTable:
    """A table with all its forms for download."""

    table: ReportTable
    others: Sequence[ReportTable] = ()
    kind: ClassVar[str] = "main_table"

    @property
    def shown(self) -> ReportTable:
        """As the page shows it: a table too wide for a screen is turned where that makes it narrower."""
        num_columns, num_rows = len(self.table.heads), len(self.table.rows)
        return self.table.turned() if num_columns > max(_MAX_COLUMNS, num_rows) else self.table

    @property
    def downloads(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Names of tables, each with its forms: what readers call it, the ending, the content."""
        forms = {"md": "Markdown", "tex": "LaTeX", "csv": "CSV", "json": "JSON"}
        return [
            (table.name, [(forms[ending], ending, content) for ending, content in table.files().items()])
            for table in (self.table, *self.others)
        ]


def markdown_text(text: str) -> str:
    """Text that stays text in Markdown."""
    return _MARKDOWN.sub(r"\\\1", text.replace("\n", " "))


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)
