"""Words that several verbs share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from maxsup.cli.completion import complete_data, complete_model, complete_recipe

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="A name from `maxsup ls recipes`, or a .yaml file.", autocompletion=complete_recipe
    ),
]
OverrideArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes to the recipe, for instance optimizer.lr=0.1 epochs=5."),
]
DATA = typer.Option(
    "--data", metavar="NAME", help="From `maxsup ls data`, or folder:PATH, arrays:PATH.", autocompletion=complete_data
)
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME", help="From `maxsup ls models`, or any of timm's.", autocompletion=complete_model
    ),
]
SplitOption = Annotated[str, typer.Option("--split", metavar="train|val|test", help="Which images.")]
WeightsOption = Annotated[str, typer.Option("--weights", metavar="last|best", help="Which checkpoint.")]
DataRootOption = Annotated[
    Path | None, typer.Option("--data-root", metavar="DIR", help="Where data sets are; else MAXSUP_DATA, else ./data.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]


def with_data_root(overrides: list[str] | None, data_root: Path | None) -> list[str]:
    """Overrides, and the one that ``--data-root`` stands for."""
    return [*(overrides or []), *([f"data.root={data_root.resolve()}"] if data_root else [])]


def print_json(value: Mapping[str, Any]) -> None:
    """One strict JSON object on standard output."""
    from maxsup.core.files.storage import json_text

    typer.echo(json_text(value, indent=2))


def show(value: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """The one or the other: a JSON object for programs, lines for people."""
    if as_json:
        print_json(value)
    else:
        typer.echo("\n".join(lines))


def percent(share: float | None) -> str:
    """A share as people read it; a dash where it is undefined."""
    return "-" if share is None or share != share else f"{100 * share:.2f} %"
