"""Every command that a page, a recipe or a docstring shows: the program takes it, and what it names is there.

In a block of code a command must be whole. In running text it may be a mention, which ends early or in dots.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

import maxsup
from maxsup.lab.analysis import ANALYSES
from maxsup.lab.cli.app import app
from maxsup.lab.cli.examples import EXAMPLES
from maxsup.lab.core.recipes import list_recipes
from maxsup.lab.experiments.study_files import study_names
from tests.architecture.source import ROOT

ROOT_COMMAND: Any = typer.main.get_command(app)
CLICK: Any = typer.BadParameter.__mro__[2]
INCOMPLETE = ("Missing", "requires an argument", "needs an argument")
PROGRAMS = ("maxsup", "make", "python", "python3", "torchrun")
# Commands on adding something name what is added; tests/architecture/test_contributing.py runs these pages.
LEFT_OUT = {"_build", "contributing"}
# What a command may name, by the words before it.
NAMED: dict[tuple[str, ...], list[str]] = {
    ("study", "run"): study_names(),
    ("study", "show"): study_names(),
    ("train",): list_recipes(),
    ("cp",): list_recipes(),
    ("validate",): list_recipes(),
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


class Command(NamedTuple):
    place: str
    text: str
    is_whole: bool


def lines_of(block: str) -> Iterator[str]:
    """Lines of a block of code, without prompts, continued lines in one."""
    for line in block.replace("\\\n", " ").splitlines():
        yield line.strip().removeprefix("$ ")


def commands_in(text: str, place: str) -> Iterator[Command]:
    """Commands of a page in Markdown, or of a docstring."""
    fence = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
    blocks = [found for found in fence.finditer(text) if found[2] not in ("python", "yaml", "json", "diff")]
    shown = [(line, True) for found in blocks for line in lines_of(found[3])]
    mentioned = [(found[2], False) for found in re.finditer(r"(`+)([^`\n]+)\1", fence.sub("", text))]
    for line, is_whole in shown + mentioned:
        words = line.split()
        if words[:1] and words[0] in PROGRAMS and not re.match(r"maxsup (import|loss|true|alpha|[a-z]+=)", line):
            yield Command(place, line, is_whole)


def documented() -> Iterator[Command]:
    pages = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if not LEFT_OUT & {*path.parts})]
    for path in pages:
        yield from commands_in(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    for path in (ROOT / "src" / "maxsup" / "lab").rglob("*.yaml"):
        for text in re.findall(r"^# Command: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield Command(path.name, text, True)
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs" / "gallery").glob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        for node in ast.walk(tree):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                yield from commands_in(text, path.relative_to(ROOT).as_posix())

    yield from (Command("the help", line, True) for lines in EXAMPLES.values() for line in lines)


COMMANDS = sorted(set(documented()))


def assert_taken(command: Command) -> None:
    """Raise unless the command is one that the program, ``make`` or Python takes."""
    text = re.sub(r"\[[A-Z]+ \.\.\.\]", "", command.text)
    words = shlex.split(text, comments=True)
    is_whole = command.is_whole and "..." not in words
    words = [word for word in words if word != "..."]
    if words[0] == "make":
        assert [word for word in words[1:] if "=" not in word and word not in TARGETS] == []
    elif "-m" in words and words[0] != "maxsup":
        module = words[words.index("-m") + 1]
        if module == "maxsup":
            assert_maxsup_takes(words[words.index("-m") + 2 :], is_whole)
        elif module not in ("venv", "pip", "pytest"):
            found = find_spec(module)
            assert found is not None
            assert found.submodule_search_locations is None or find_spec(f"{module}.__main__")
    elif "maxsup" in words:
        assert_maxsup_takes(words[words.index("maxsup") + 1 :], is_whole)


def assert_maxsup_takes(words: list[str], is_whole: bool) -> None:
    command, verbs = ROOT_COMMAND, list[str]()
    while words and hasattr(command, "commands") and not words[0].startswith("-") and words[0] != "VERB":
        assert words[0] in command.commands, words[0]
        command = command.commands[words[0]]
        verbs.append(words.pop(0))
    if hasattr(command, "commands"):
        assert not is_whole or words
        return
    try:
        context = command.make_context("maxsup", list(words))
    except CLICK as error:
        if is_whole or not any(part in str(error) for part in INCOMPLETE):
            raise
        return
    if words and not re.search(r"^-|[./=]|[A-Z]", words[0]):  # neither an option, a file, a setting nor a placeholder
        assert words[0] in NAMED.get(tuple(verbs), words), words[0]
    losses = context.params.get("losses") or ""
    assert [name for name in losses.split(",") if name and name.partition(":")[0] not in maxsup.list_losses()] == []
    assert set((context.params.get("what") or "").split(",")) <= {"", *ANALYSES.names()}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.place}: {command.text[:60]}")
def test_a_documented_command_is_one_that_the_program_takes(command: Command) -> None:
    assert_taken(command)


def test_the_commands_of_all_kinds_of_pages_are_found() -> None:
    places = {Path(command.place).parts[0] for command in COMMANDS}
    assert {"README.md", "CONTRIBUTING.md", "docs", "src"} < places
    assert {f"{name}.yaml" for name in list_recipes()} <= places
    claims = [command for command in COMMANDS if command.place.startswith("docs/evidence/claims/")]
    assert len({command.place for command in claims}) == len(list((ROOT / "docs" / "evidence" / "claims").glob("*")))


@pytest.mark.parametrize(
    "text",
    [
        "maxsup study run tab_comparison-new --scale small",
        "maxsup study run tab:comparison-new",
        "maxsup trian digits_cnn",
        "maxsup train no_such_recipe",
        "maxsup compare --los ce",
        "maxsup compare --losses ce,max",
        "maxsup analyze RUN --what collaps",
        "make documentation",
        "python -m maxsup.lab.cli train digits_cnn",
        "torchrun --nproc-per-node 2 -m maxsup.gone train mine.yaml",
        "torchrun --nproc-per-node 2 --no-python maxsup trian mine.yaml",
    ],
)
def test_a_wrong_command_would_be_seen(text: str) -> None:
    for page in (f"Run\n\n```\n$ {text}  # so\n```\n", f"Run `{text}`."):
        [command] = commands_in(page, "page.md")
        with pytest.raises((AssertionError, ModuleNotFoundError, CLICK)):
            assert_taken(command)
