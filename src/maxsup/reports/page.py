"""Pages as HTML: one file that works without a network and cannot be made to run foreign code.

Everything of :mod:`maxsup.reports.blocks` is text that the template escapes. The policy in the page's head allows one
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
from maxsup.figures.inline import dark_rules, inline_png, inline_svg
from maxsup.reports.blocks import Page, Plot, Value, shown

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE, _SCRIPT, _POLICY = "<<style>>", "<<script>>", "<<policy>>"


def page_html(
    page: Page,
    template: str = "page.html",
    *,
    styles: Sequence[str] = ("page.css", "report.css"),
    scripts: Sequence[str] = ("page.js",),
) -> str:
    """A page as HTML; styles and scripts are files among the templates, in their order.

    Example:
        >>> from maxsup.reports.blocks import Chapter, Section, Text
        >>> "<b>" in page_html(Page("<b>", [Chapter("<b>", [Section("One", [Text("<b>")])])]))
        False
    """
    from markupsafe import Markup

    found = _environment().get_template(template)
    # No text on the page can hold these: its < would be escaped.
    html = found.render(
        page=page, style=Markup(_STYLE), script=Markup(_SCRIPT), policy=Markup(_POLICY), version=__version__
    )
    style = "".join(_file_text(name) for name in styles) + dark_rules(html)
    script = "".join(_file_text(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    html = html.replace(_POLICY, policy).replace(_STYLE, style).replace(_SCRIPT, script)
    # Half of a surrogate pair, which a name in a file may hold, cannot be written.
    return html.encode("utf-8", "replace").decode()


def data_uri(text: str, media_type: str = "text/csv") -> str:
    """Text as an address that holds it, for a link to download it by."""
    return f"data:{media_type};charset=utf-8;base64,{base64.b64encode(text.encode('utf-8', 'replace')).decode()}"


def _file_text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _sort_key(value: Value) -> str:
    return "" if value is None or isinstance(value, str) or not math.isfinite(value) else repr(value)


def _svg(plot: Plot) -> Any:
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
    environment.filters.update(shown=shown, sort_key=_sort_key, data_uri=data_uri, svg=_svg, png=inline_png)
    return environment


def _hash(text: str) -> str:
    """How the policy names a script or a style sheet that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
