"""The parts of a page: a page has chapters, a chapter has sections, a section has blocks.

Everything is text and numbers; :mod:`maxsup.lab.reports.page` turns it into HTML.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from maxsup.core.finding import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | int | None

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


Block = tuple[Any, ...]
"""A part of a section: a named tuple whose class decides how the template shows it."""


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Bullets(NamedTuple):
    """A list."""

    items: Sequence[str]


class Definitions(NamedTuple):
    """Names with their descriptions."""

    items: Sequence[tuple[str, str]]


class Log(NamedTuple):
    """The end of a log, folded away."""

    title: str
    text: str


class Findings(NamedTuple):
    """Findings, one below the other; each links to the section that has its topic as title, if there are such."""

    items: Sequence[Finding]
    has_sections: bool = True


class Mark(NamedTuple):
    """A verdict word with its level (``good``, ``error``, ``note`` or ``unknown``) and the number behind it."""

    level: str
    word: str
    text: str


class Glance(NamedTuple):
    """What was found, a line for each number and a column for each loss."""

    caption: str
    losses: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Mark | None]]]


class Verdicts(NamedTuple):
    """A sentence about each metric, and all further sentences folded away."""

    short: Sequence[tuple[str, str]]
    items: Sequence[tuple[str, Sequence[str]]]


class Column(NamedTuple):
    """A column of a table; ``digits`` are those after the decimal point."""

    title: str
    digits: int = 3
    is_number: bool = True


class Table(NamedTuple):
    """A table that readers sort by clicking the head of a column."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    name: str = ""

    def csv(self) -> str:
        """The values with all digits."""
        return csv_text([column.title for column in self.columns], self.rows)


class Plot(NamedTuple):
    """A figure, its description, and its numbers as CSV; a picture (photographs, maps) becomes PNG, others SVG."""

    name: str
    title: str
    description: str
    figure: Figure
    data: str
    is_picture: bool = False


class Pair(NamedTuple):
    """Figures side by side if there is room."""

    items: Sequence[Plot]


class Banner(NamedTuple):
    """A notice above everything else; ``level`` is ``warning`` or ``error``."""

    title: str
    text: str
    level: str = "warning"


class Section(NamedTuple):
    """A part of a chapter; ``prefix`` keeps its anchor apart from those of other chapters."""

    title: str
    blocks: Sequence[Block]
    prefix: str = ""

    @property
    def anchor(self) -> str:
        """The target of links to the section.

        Example:
            >>> Section("Calibration, before and after", [], "2-").anchor
            '2-calibration-before-and-after'
        """
        return f"{self.prefix}{anchor(self.title)}"


class Chapter(NamedTuple):
    """One subject of a page: title, ``lead``, banners, ``facts`` as names and values, then sections."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    facts: Mapping[str, str] = MappingProxyType({})
    banners: Sequence[Banner] = ()
    anchor: str = "chapter-1"


class Page(NamedTuple):
    """A whole page; a single chapter has the title of the page."""

    title: str
    chapters: Sequence[Chapter]


def anchor(title: str) -> str:
    """A title as an HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def shown(value: Value, digits: int = 3) -> str:
    """A value as readers see it.

    Example:
        >>> shown(0.12345), shown(50000), shown(None), shown(float("nan")), shown("ls")
        ('0.123', '50,000', '-', '-', 'ls')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    r"""Rows as CSV with all digits; nothing in it is read as a formula by a spreadsheet.

    Example:
        >>> csv_text(["loss", "ece"], [["=1+1", 0.25]])
        "loss,ece\n'=1+1,0.25\n"
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([_plain(value) for value in row] for row in (columns, *rows))
    return stream.getvalue()


def _plain(value: Value) -> Value:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return value if value is None or math.isfinite(value) else None
