"""The reference of the command line, read from the program itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from maxsup.core.errors import EXIT_CODES
from maxsup.lab.cli.app import app
from tools.site.rst import INSTALL_LAB, code, code_block, document, escaped, hidden_toctree, prose, table, titled

# typer keeps the types of values to itself.
_VALUES = {int: "N", float: "NUMBER"}


def verbs() -> dict[str, Any]:
    """Every command by its words, those inside groups too.

    Example:
        >>> sorted(verbs())[:3], "study run" in verbs()
        (['analyze', 'bench', 'compare'], True)
    """
    return dict(_commands(typer.main.get_command(app), ""))


def _commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        full = f"{words} {name}".strip()
        if getattr(child, "commands", None):
            yield from _commands(child, full)
        elif not child.hidden:
            yield full, child


def pages() -> dict[str, str]:
    """A page for each verb, and the list of them."""
    found = verbs()
    made = {f"cli/{_file(name)}.rst": page(name, command) for name, command in found.items()}
    return {**made, "cli/index.rst": _index(found)}


def page(name: str, command: Any) -> str:
    """The page of one verb: usage, what it does, arguments, options, examples."""
    context = command.context_class(command, info_name=f"maxsup {name}")
    usage = " ".join(["maxsup", name, *command.collect_usage_pieces(context)])
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    parts = [titled(f"maxsup {name}", "="), _paragraphs(command.help), code_block("console", f"$ {usage}")]
    if arguments:
        parts += [titled("Arguments", "-"), table(["name", "meaning"], [_argument(each) for each in arguments])]
    if options:
        parts += [titled("Options", "-"), table(["option", "meaning"], [_option(each) for each in options])]
    if command.epilog:
        parts += [titled("Examples", "-"), _examples(command.epilog)]
    return document(*parts)


def _argument(param: Any) -> list[str]:
    return [code(param.metavar or param.name.upper()), _meaning(param)]


def _option(param: Any) -> list[str]:
    value = "" if param.is_flag else f" {param.metavar or _VALUES.get(type(param.default), 'VALUE')}"
    return [code(", ".join([*param.opts, *param.secondary_opts]) + value), _meaning(param)]


def _meaning(param: Any) -> str:
    words = prose(getattr(param, "help", None) or "")
    default = param.default
    if default is None or default is False:
        return words or "\\ "
    return f"{words} Default: {code(str(default))}."


def _paragraphs(text: str | None) -> str:
    parts = inspect.cleandoc(text or "").replace("\b", "").split("\n\n")
    return "\n\n".join(map(prose, parts))


def _examples(text: str) -> str:
    lines = [line.strip() for line in text.replace("\b", "").splitlines() if line.strip()]
    return code_block("console", "\n".join(line for line in lines if line != "Examples:"))


def _index(found: dict[str, Any]) -> str:
    rows = [
        [f":doc:`maxsup {name} <{_file(name)}>`", escaped(command.get_short_help_str(limit=200))]
        for name, command in found.items()
    ]
    return document(
        titled("Command line", "="),
        f"{INSTALL_LAB} brings the program ``maxsup``. Every verb explains itself with ``--help``; "
        "these pages are read from the same place.",
        table(["verb", "what it does"], rows),
        titled("Exit codes", "-"),
        table(["code", "meaning"], [[str(int(each)), prose(meaning)] for each, meaning in EXIT_CODES.items()]),
        hidden_toctree(map(_file, found)),
    )


def _file(name: str) -> str:
    return name.replace(" ", "-")
