"""How verbs print what they found: JSON for programs, lines and tables for people."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

LEVEL_COLORS = {"good": "green", "note": "cyan", "unknown": "white", "warning": "yellow", "error": "red"}
"""How the level of a finding is printed."""


def print_json(value: Mapping[str, Any]) -> None:
    """One strict JSON object on standard output."""
    from maxsup.lab.core.files.storage import json_text

    typer.echo(json_text(value, indent=2))


def show(value: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """A JSON object for programs or lines for people."""
    if as_json:
        print_json(value)
    else:
        typer.echo("\n".join(lines))


def create_table(header: Sequence[str], left: Container[int] = (0,), **options: Any) -> Table:
    """An empty table of rich, whose columns at the places ``left`` are aligned to the left, the others to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, **options)
    for place, name in enumerate(header):
        # fold, not the default ellipsis: a table that hides its end is of no use in a pipe.
        table.add_column(Text(name), justify="left" if place in left else "right", overflow="fold")
    return table


def print_indented(console: Console, text: Any, indent: int, style: str = "") -> None:
    """Text whose wrapped lines keep their indentation."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(text if isinstance(text, Text) else Text(text, style=style), (0, 0, 0, indent)))
