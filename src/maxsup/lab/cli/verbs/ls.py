"""``maxsup ls``: what there is, read from the registries."""

from __future__ import annotations

import json
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any

import typer

from maxsup.core.checks import check_choice
from maxsup.lab.cli.listings import KINDS, Row, complete_kind, read_rows
from maxsup.lab.cli.printing import create_table
from maxsup.lab.cli.shorthands import argument, flag

_INDENT = "    "
_COLUMNS = {
    "losses": ("name", "default", "what it is", "formula", "source", "needs"),
    "studies": ("name", "title", "label"),
    "models": ("name", "about", "source"),
    "data": ("name", "images", "source", "options"),
    "analyses": ("name", "gives", "paper", "options"),
}
# Where a table is too wide, cells move under one another until this many columns are left.
_NUM_NARROW = {"losses": 3, "studies": 2, "models": 3, "data": 2, "analyses": 2}


def _cell(row: Row, column: str) -> str:
    match column:
        case "default":
            return "-" if row["strength"] is None else f"{row['strength']} {row['default']:g}"
        case "needs":
            return ", ".join(row["needs"]) or "-"
        case "options":
            return ", ".join(f"{name}={_default(value)}" for name, value in row["options"].items()) or "-"
        case _:
            return str(row["summary" if column in ("gives", "what it is") else column])


def _default(value: Any) -> str:
    """The default of an option as a recipe would write it; for a long list only its length."""
    if isinstance(value, list):
        return f"({len(value)} of them)" if len(value) > 5 else f"[{', '.join(map(_default, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None else str(value)


def _stacked(cells: dict[str, str], num_columns: int) -> dict[str, str]:
    """The same cells in fewer columns: the surplus ones move under the last, with their headers."""
    *kept, last = list(cells.items())[:num_columns]
    rest = list(cells.items())[num_columns:]
    lines = [last[1], *(f"{header}: {cell}" for header, cell in rest if cell != "-")]
    return dict([*kept, (last[0], "\n".join(lines))])


def _print_table(rows: list[dict[str, str]], num_narrow: int) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    is_too_wide = sum(max(len(row[header]) for row in rows) + 2 for header in rows[0]) > console.width
    if is_too_wide and len(rows[0]) > num_narrow:
        rows = [_stacked(row, num_narrow) for row in rows]
    table = create_table(list(rows[0]), left=range(len(rows[0])), padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*map(Text, row.values()))
    console.print(table)


def _print_cards(rows: list[Row]) -> None:
    """Name and title, the rest indented under them; without rich, whose import takes longer than all else here."""
    from maxsup.lab.core.recipes import GROUPS

    for place, row in enumerate(rows):
        if place == 0 or row["group"] != rows[place - 1]["group"]:
            typer.echo(f"{chr(10) * (place > 0)}{GROUPS[row['group']].upper()}")
        typer.echo(_wrapped(f"{row['name']}: {row['title']}", indent=""))
        # A command that is broken into lines can still be copied as a whole.
        typer.echo(_wrapped(row["command"], end=" \\"))
        typer.echo(_wrapped(row["expect"]))


def _wrapped(text: str, *, indent: str = _INDENT, end: str = "") -> str:
    lines = wrap(
        text,
        get_terminal_size().columns - len(end),
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{end}\n".join(lines)


def ls(
    kind: Annotated[str, argument("KIND", f"What to list: {', '.join(KINDS)}.", complete_kind)],
    as_json: Annotated[bool, flag("--json", "Print the result as JSON.")] = False,
) -> None:
    """List losses, recipes, studies, models, data sets or analyses."""
    check_choice("kind", kind, KINDS)
    rows = read_rows(kind)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif kind == "recipes":
        _print_cards(rows)
    else:
        _print_table([{column: _cell(row, column) for column in _COLUMNS[kind]} for row in rows], _NUM_NARROW[kind])
