"""What pages are made of: a page has chapters, a chapter sections, a section blocks.

Everything is text and numbers; :mod:`maxsup.reports.page` turns it into HTML.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maxsup.core.finding import LEVELS, Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = str | float | int | None

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Block:
    """A part of a section; the template chooses its form by ``kind``."""

    @property
    def kind(self) -> str:
        """The name of the class in small letters."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets(Block):
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Definitions(Block):
    """Names and what is said of them."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Log(Block):
    """The end of a log, folded away."""

    title: str
    text: str


@dataclass(frozen=True)
class Findings(Block):
    """Findings, one under the other; each leads to the section that has its topic as title."""

    items: Sequence[Finding]

    def level_name(self, finding: Finding) -> str:
        """What readers call the level of a finding."""
        return LEVELS[finding.level].capitalize()

    def anchor(self, finding: Finding) -> str:
        """The section that says more."""
        return anchor(finding.topic)


@dataclass(frozen=True)
class Verdicts(Block):
    """What each metric shows, in a sentence, and all that can be said of it folded away under that."""

    short: Sequence[tuple[str, str]]
    items: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are shown with so many digits behind the point."""

    title: str
    digits: int = 3
    is_number: bool = True


@dataclass(frozen=True)
class Table(Block):
    """Rows under columns; readers sort it by the head of a column."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    name: str = ""

    def csv(self) -> str:
        """The values with all their digits."""
        return csv_text([column.title for column in self.columns], self.rows)


@dataclass(frozen=True)
class Plot(Block):
    """A figure, what it shows in words, and the numbers behind it as CSV; photographs and maps become PNG."""

    name: str
    title: str
    description: str
    figure: Figure = field(repr=False)
    data: str = field(repr=False)
    is_picture: bool = False


@dataclass(frozen=True)
class Pair(Block):
    """Figures side by side where there is room."""

    items: Sequence[Plot]


@dataclass(frozen=True)
class Banner:
    """What a reader must see before all else; ``level`` is ``warning`` or ``error``."""

    title: str
    text: str
    level: str = "warning"


@dataclass(frozen=True)
class Section:
    """A part of a chapter under a heading; ``prefix`` keeps its anchor apart from those of other chapters."""

    title: str
    blocks: Sequence[Block]
    prefix: str = ""

    @property
    def anchor(self) -> str:
        """Where links to the section lead.

        Example:
            >>> Section("Calibration, before and after", [], "2-").anchor
            '2-calibration-before-and-after'
        """
        return f"{self.prefix}{anchor(self.title)}"


@dataclass(frozen=True)
class Chapter:
    """One subject of a page: ``lead`` and banners under its title, ``facts`` as names and values, then sections."""

    title: str
    sections: Sequence[Section] = field(repr=False)
    lead: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    banners: Sequence[Banner] = ()
    anchor: str = "chapter-1"


@dataclass(frozen=True)
class Page:
    """All that is on a page; the title of a single chapter is that of the page."""

    title: str
    chapters: Sequence[Chapter]


def anchor(title: str) -> str:
    """A title as an id."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def shown(value: Value, digits: int = 3) -> str:
    """A cell as people read it.

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
    r"""Rows as CSV, with all their digits and nothing that a spreadsheet takes for a formula.

    Example:
        >>> csv_text(["loss", "ece"], [["=1+1", 0.25]])
        "loss,ece\n'=1+1,0.25\n"
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([[_plain(value) for value in row] for row in (columns, *rows)])
    return stream.getvalue()


def _plain(value: Value) -> Value:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return value if value is None or math.isfinite(value) else None
