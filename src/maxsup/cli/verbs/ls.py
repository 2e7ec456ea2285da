"""``maxsup ls``: what there is, read from the registries."""

from __future__ import annotations

import json
from collections.abc import Callable
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any, NamedTuple

import typer

from maxsup.cli.completion import complete_kind
from maxsup.cli.listings import KINDS, Row, read_rows
from maxsup.core.checks import check_choice

_INDENT = "    "


class Listing(NamedTuple):
    """How rows of one kind look: in a table of these cells, or as cards.

    Where the table is too wide, cells move under one another until ``num_narrow`` columns are left.
    """

    cells: Callable[[Row], dict[str, str]] | None
    num_narrow: int = 3


def _loss_cells(row: Row) -> dict[str, str]:
    return {
        "name": row["name"],
        "default": "-" if row["strength"] is None else f"{row['strength']} {row['default']:g}",
        "formula": row["formula"],
        "source": row["source"],
        "needs": ", ".join(row["needs"]) or "-",
    }


def _options(row: Row) -> str:
    """Options with their defaults as a recipe would write them, long lists as how many they are."""
    return ", ".join(f"{name}={_default(value)}" for name, value in row["options"].items()) or "-"


def _default(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({len(value)} of them)" if len(value) > 5 else f"[{', '.join(map(_default, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None else str(value)


def _data_cells(row: Row) -> dict[str, str]:
    return {"name": row["name"], "images": row["images"], "source": row["source"], "options": _options(row)}


def _analysis_cells(row: Row) -> dict[str, str]:
    return {"name": row["name"], "gives": row["summary"], "paper": row["paper"], "options": _options(row)}


def _plain_cells(row: Row) -> dict[str, str]:
    return {header: str(cell) for header, cell in row.items()}


LISTINGS = {
    "losses": Listing(_loss_cells),
    "models": Listing(_plain_cells),
    "data": Listing(_data_cells, num_narrow=2),
    "analyses": Listing(_analysis_cells, num_narrow=2),
    "recipes": Listing(None),
}


def _stacked(cells: dict[str, str], num_columns: int) -> dict[str, str]:
    """The same cells in fewer columns: those that are too many move under the last, with their headers."""
    *kept, last = list(cells.items())[:num_columns]
    rest = list(cells.items())[num_columns:]
    lines = [last[1], *(f"{header}: {cell}" for header, cell in rest if cell != "-")]
    return dict([*kept, (last[0], "\n".join(lines))])


def _print_table(rows: list[dict[str, str]], num_narrow: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    is_too_wide = sum(max(len(row[header]) for row in rows) + 2 for header in rows[0]) > console.width
    if is_too_wide and len(rows[0]) > num_narrow:
        rows = [_stacked(row, num_narrow) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for header in rows[0]:
        # fold, not the default ellipsis: a listing that hides its end is of no use in a pipe.
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.values()))
    console.print(table)


def _print_cards(rows: list[Row]) -> None:
    """Name and title, the rest indented under them; without rich, whose import takes longer than all else here."""
    width = get_terminal_size().columns
    for row in rows:
        typer.echo(_wrapped(f"{row['name']}: {row['title']}", width, indent="", end=""))
        # A command that is cut can still be copied as a whole.
        typer.echo(_wrapped(row["command"], width, indent=_INDENT, end=" \\"))
        typer.echo(_wrapped(row["expect"], width, indent=_INDENT, end=""))


def _wrapped(text: str, width: int, *, indent: str, end: str) -> str:
    lines = wrap(
        text,
        width - len(end),
        initial_indent=indent,
        subsequent_indent=indent + _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{end}\n".join(lines)


def ls(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help=f"What to list: {', '.join(KINDS)}.", autocompletion=complete_kind)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """List losses, models, data sets, analyses or recipes."""
    check_choice("kind", kind, KINDS)
    listing, rows = LISTINGS[kind], read_rows(kind)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif listing.cells is None:
        _print_cards(rows)
    else:
        _print_table([listing.cells(row) for row in rows], listing.num_narrow)
