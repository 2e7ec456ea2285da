"""Shorthands with which a verb declares its arguments and options, one line each, in ``Annotated``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

Completion = Callable[[str], list[str]]


def argument(metavar: str, help: str, complete: Completion | None = None) -> Any:
    """A word without a name, for ``Annotated``."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete)


def option(metavar: str | None, help: str, complete: Completion | None = None) -> Any:
    """An option with a value; its name is that of the parameter."""
    return typer.Option(metavar=metavar, help=help, autocompletion=complete)


def flag(name: str, help: str) -> Any:
    """An option without a value; without its name typer would add a second one, ``--no-...``."""
    return typer.Option(name, help=help)
