"""Models, data sets and analyses, as ``maxsup ls`` lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.site.program import told_json
from tools.site.rst import code, document, escaped, table, titled

KINDS = {
    "models": ("Models", "Networks that recipes name under ``model.name``."),
    "data": ("Data sets", "Data that recipes name under ``data.name``; ``maxsup validate`` says what is missing."),
    "analyses": ("Analyses", "What ``maxsup analyze RUN --what NAME`` can say of a run."),
}


def pages() -> dict[str, str]:
    """A page for each kind."""
    return {f"lab/{kind}.rst": _page(kind, *words) for kind, words in KINDS.items()}


def _page(kind: str, title: str, lead: str) -> str:
    rows = told_json("ls", kind)
    # The options are long and come last.
    header = sorted(rows[0], key=lambda key: key == "options")
    cells = [[_cell(key, row[key]) for key in header] for row in rows]
    return document(titled(title, "="), lead, table(header, cells))


def _cell(key: str, value: Any) -> str:
    if key == "options":
        return _options(value)
    return code(str(value)) if key == "name" else escaped(str(value)) or "\\ "


def _options(options: Mapping[str, Any]) -> str:
    shown = [
        f"{name} ({len(value)} of them)" if isinstance(value, list) and len(value) > 5 else f"{name}={value}"
        for name, value in options.items()
    ]
    return ", ".join(code(option) for option in shown) or "\\ "
