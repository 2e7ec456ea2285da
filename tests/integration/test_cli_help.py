"""The command line before it does anything: help, examples, completion, and what starting it costs."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from maxsup.lab.cli.app import app
from maxsup.lab.cli.examples import EXAMPLES
from maxsup.lab.cli.listings import FILE, KINDS, registry_rows
from maxsup.lab.core.recipes import list_recipes
from maxsup.lab.experiments.study_files import study_names
from tests.integration.command import Outcome, run_python

# Of CPU time; `ls losses` took 0.36 s on a busy machine, 2.2 s with torch.
MAX_SECONDS = 0.5
NUM_TRIES = 5


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words, the program itself under none."""
    root: Any = typer.main.get_command(app)
    yield "", root
    for name, command in root.commands.items():
        yield name, command
        for sub, leaf in getattr(command, "commands", {}).items():
            yield f"{name} {sub}", leaf


COMMANDS = dict(commands())


def run_module(*words: str, **environment: str) -> Outcome:
    return run_python("-m", "maxsup", *words, **{"COLUMNS": "80"} | environment)


def completions(*words: str) -> set[str]:
    """What bash would offer for the last of these words."""
    typed = {"_MAXSUP_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return set(run_module(**typed).out.split())


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_and_cuts_nothing(name: str) -> None:
    info = f"maxsup {name}".strip()
    text = COMMANDS[name].make_context(info, [], resilient_parsing=True).get_help()
    lines = text.splitlines()
    # A metavar that may be repeated ends in dots too.
    cut = [line for line in lines if re.search(r"\w\.\.\.", line) and "Usage:" not in line]
    assert cut == []
    assert max(len(line) for line in lines) <= 80
    assert [line.strip() for line in lines[-len(EXAMPLES[name]) :]] == list(EXAMPLES[name])
    assert len(EXAMPLES[name]) >= 2


def test_the_file_of_listings_says_what_the_registries_say() -> None:
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    assert kept == registry_rows(), "run python -m maxsup.lab.cli.listings"
    assert set(kept) | {"recipes", "studies"} == {*KINDS, "files"}


def test_the_shell_completes_names_of_recipes_studies_losses_and_data() -> None:
    assert completions("maxsup", "train", "digits_c") == {"digits_cnn"}
    assert completions("maxsup", "study", "show", "") == set(study_names())
    assert completions("maxsup", "compare", "--losses", "ce,max") == {"ce,maxsup"}
    assert {"cifar10", "cifar100"} <= completions("maxsup", "compare", "--data", "cifar")
    assert completions("maxsup", "compare", "--recipe", "") == set(list_recipes())
    assert completions("maxsup", "comp") == {"compare"}


def test_python_m_maxsup_is_the_command_line_and_says_how_to_complete() -> None:
    outcome = run_module("--help")
    assert outcome.code == 0
    assert outcome.out.startswith("Usage: maxsup ")
    assert "--install-completion" in outcome.out


@pytest.mark.parametrize("words", [("--help",), ("ls", "losses")])
def test_a_listing_and_help_take_half_a_second_of_processor_time(words: tuple[str, ...]) -> None:
    taken = []
    while len(taken) < NUM_TRIES and min(taken, default=MAX_SECONDS) >= MAX_SECONDS:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run_module(*words).code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < MAX_SECONDS


@pytest.mark.parametrize("flags", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_what_is_said_last_is_read_before_the_process_leaves(flags: dict[str, str]) -> None:
    # Leaving is in a hurry where torch was loaded; the name stands for it.
    code = (
        "import sys; sys.modules['torch'] = sys; import maxsup.lab.cli.app as app, maxsup.lab.cli as cli; "
        "app.run = lambda words: (print('out'), print('said', file=sys.stderr), sys.exit(0)); cli.main()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | flags
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("out\n", "said\n")
