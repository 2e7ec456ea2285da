"""Pages as HTML: one file that works offline and runs no foreign code.

The template escapes all text of :mod:`maxsup.lab.reports.blocks`. The security policy in the page's head allows one
script and one style sheet, by their hashes, and nothing from outside. The same page gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup import __version__
from maxsup.core.finding import LEVELS
from maxsup.lab.figures.inline import dark_rules, inline_png, inline_svg
from maxsup.lab.reports.blocks import Page, Plot, Value, anchor, shown

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
_STYLE, _SCRIPT, _POLICY = "<<style>>", "<<script>>", "<<policy>>"


def page_html(
    page: Page,
    template: str = "page.html",
    *,
    styles: Sequence[str] = ("page.css", "report.css"),
    scripts: Sequence[str] = ("page.js",),
) -> str:
    """A page as HTML; styles and scripts are names of files beside the templates.

    Example:
        >>> from maxsup.lab.reports.blocks import Chapter, Section, Text
        >>> "<b>" in page_html(Page("<b>", [Chapter("<b>", [Section("One", [Text("<b>")])])]))
        False
    """
    from markupsafe import Markup

    # No text on the page can hold these marks: its < would be escaped.
    marks = {"style": Markup(_STYLE), "script": Markup(_SCRIPT), "policy": Markup(_POLICY)}
    html = _environment().get_template(template).render(page=page, version=__version__, **marks)
    style, script = ("".join((TEMPLATES / name).read_text("utf-8") for name in names) for names in (styles, scripts))
    style += dark_rules(html)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    html = html.replace(_POLICY, policy).replace(_STYLE, style).replace(_SCRIPT, script)
    # Names in files may hold half a surrogate pair, which cannot be written.
    return html.encode("utf-8", "replace").decode()


def data_uri(text: str, media_type: str = "text/csv") -> str:
    """Text as a ``data:`` address, for a link that downloads it."""
    return f"data:{media_type};charset=utf-8;base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode()}"


def _sort_key(value: Value) -> str:
    return "" if value is None or isinstance(value, str) or not math.isfinite(value) else repr(value)


def _svg(plot: Plot) -> Any:
    from markupsafe import Markup

    # Matplotlib escapes text, and inline_svg drops everything that could run or load something.
    return Markup(inline_svg(plot.figure, plot.name, title=plot.title, description=plot.description))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,  # not by suffix: jinja would not escape a template with an unusual ending
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=shown, sort_key=_sort_key, anchor=anchor, data_uri=data_uri, svg=_svg, png=inline_png,
        kind=lambda block: type(block).__name__.lower(), level_name=lambda level: LEVELS[level].capitalize(),
    )  # fmt: skip
    return environment


def _hash(text: str) -> str:
    """The policy's name for a script or a style sheet of the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
