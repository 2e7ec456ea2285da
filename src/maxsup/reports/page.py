"""The page that all reports share: one HTML file that works without a network and cannot be made to run foreign code.

A page is a list of sections, a section a list of blocks: paragraphs, findings, tables and figures. Everything is text
that the template escapes. The policy in the page's head allows one script and one style sheet, by their hashes, and
nothing from outside. The same page gives the same bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maxsup import __version__
from maxsup.core.finding import LEVELS, Finding
from maxsup.figures.svg import dark_rules, inline_svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

Value = str | float | int | None

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE, _SCRIPT, _POLICY = "<<style>>", "<<script>>", "<<policy>>"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Findings:
    """Findings, one under the other; each leads to the section that has its topic as title."""

    items: Sequence[Finding]
    kind: ClassVar[str] = "findings"

    def level_name(self, finding: Finding) -> str:
        """What readers call the level of a finding."""
        return LEVELS[finding.level].capitalize()

    def anchor(self, finding: Finding) -> str:
        """The section that says more."""
        return anchor(finding.topic)


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are shown with so many digits behind the point."""

    title: str
    digits: int = 3
    is_number: bool = True


@dataclass(frozen=True)
class Table:
    """Rows under columns; readers sort it by the head of a column."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value]]
    name: str = ""
    kind: ClassVar[str] = "table"

    def csv(self) -> str:
        r"""The values with all their digits.

        Example:
            >>> Table("", [Column("loss", is_number=False), Column("ece")], [["=1+1", 0.25]]).csv()
            "loss,ece\n'=1+1,0.25\n"
        """
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([_plain(column.title) for column in self.columns])
        writer.writerows([[_plain(value) for value in row] for row in self.rows])
        return stream.getvalue()


@dataclass(frozen=True)
class Plot:
    """A figure, what it shows in words, and the data behind it for download."""

    name: str
    title: str
    description: str
    figure: Figure = field(repr=False)
    data: Table = field(repr=False)
    kind: ClassVar[str] = "plot"


Block = Text | Findings | Table | Plot


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; its anchor is made of the title."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """Where links to the section lead.

        Example:
            >>> Section("Calibration, before and after", []).anchor
            'calibration-before-and-after'
        """
        return anchor(self.title)


@dataclass(frozen=True)
class Page:
    """All that is on a page; ``facts`` are names and values under the title."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def render(page: Any, template: str = "page.html", *, extra_style: str = "", extra_script: str = "") -> str:
    """A page as HTML.

    Args:
        page: What the template calls ``page``; a :class:`Page` for the default one.
        template: A file among the templates.
        extra_style: Rules after those of every page.
        extra_script: Code after that of every page.

    Example:
        >>> "<b>" in render(Page("<b>", [Section("One", [Text("<b>")])]))
        False
    """
    from markupsafe import Markup

    found = _environment().get_template(template)
    # No text on the page can hold these: its < would be escaped.
    html = found.render(
        page=page, style=Markup(_STYLE), script=Markup(_SCRIPT), policy=Markup(_POLICY), version=__version__
    )
    style = template_text("page.css") + extra_style + dark_rules(html)
    script = template_text("page.js") + extra_script
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    html = html.replace(_POLICY, policy).replace(_STYLE, style).replace(_SCRIPT, script)
    # Half of a surrogate pair, which a name in a file may hold, cannot be written.
    return html.encode("utf-8", "replace").decode()


def template_text(name: str) -> str:
    """A file among the templates, as it is."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


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


def data_uri(text: str, media_type: str = "text/csv") -> str:
    """Text as an address that holds it, for a link to download it by."""
    return f"data:{media_type};charset=utf-8;base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode()}"


def _plain(value: Value) -> Value:
    """A cell of a CSV file that no spreadsheet takes for a formula."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return value if value is None or math.isfinite(value) else None


def _sort_key(value: Value) -> str:
    return "" if value is None or isinstance(value, str) or not math.isfinite(value) else repr(value)


def _drawn(plot: Plot) -> Any:
    from markupsafe import Markup

    # Matplotlib escapes what it draws, and inline_svg keeps nothing that could run or load anything.
    return Markup(inline_svg(plot.figure, plot.name, title=plot.title, description=plot.description))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # autoescape=True and not by suffix: a template of another ending would silently be taken for plain text.
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=shown, sort_key=_sort_key, data_uri=data_uri, drawn=_drawn)
    return environment


def _hash(text: str) -> str:
    """How the policy names a script or a style sheet that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
