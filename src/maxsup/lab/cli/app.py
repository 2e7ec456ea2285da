"""The program and its verbs; one module a verb, and only verbs that need torch import it."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from maxsup import __version__
from maxsup.core.errors import ExitCode
from maxsup.lab.cli.examples import epilog
from maxsup.lab.cli.shorthands import flag
from maxsup.lab.cli.verbs.analyze import analyze
from maxsup.lab.cli.verbs.bench import bench
from maxsup.lab.cli.verbs.compare import compare
from maxsup.lab.cli.verbs.cp import cp
from maxsup.lab.cli.verbs.diagnose import diagnose
from maxsup.lab.cli.verbs.doctor import doctor
from maxsup.lab.cli.verbs.evaluate import evaluate
from maxsup.lab.cli.verbs.explore import explore
from maxsup.lab.cli.verbs.export import export
from maxsup.lab.cli.verbs.ls import ls
from maxsup.lab.cli.verbs.report import report
from maxsup.lab.cli.verbs.study import study
from maxsup.lab.cli.verbs.train import train
from maxsup.lab.cli.verbs.validate import validate

app = typer.Typer(
    name="maxsup",
    help="Max Suppression and its relatives: regularised cross-entropy losses for PyTorch.",
    no_args_is_help=True,
    epilog=epilog(""),
    rich_markup_mode=None,  # plain help: the other kind imports rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _verb in (ls, cp, validate, train, evaluate, analyze, compare, report, export, diagnose, doctor, explore, bench):
    _name = "eval" if _verb is evaluate else _verb.__name__
    app.command(_name, epilog=epilog(_name))(_verb)
app.add_typer(study, name="study")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxsup {__version__}")
        raise typer.Exit


@app.callback()
def _shared(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, flag("--debug", "Show the traceback of an error.")] = False,
) -> None:
    del version, debug  # the first exits in its callback, maxsup.lab.cli.main removes the second


_WITH_SETTINGS = ("train", "validate", "compare", "study")

# typer exports only this child of it. Depending on its version, typer depends on click or contains a copy of it.
_UsageError: Any = typer.BadParameter.__mro__[1]


def _dashed_setting(sentence: str, words: list[str]) -> str | None:
    """Return ``epochs=3`` for an unknown option ``--epochs 3`` that is a setting of recipes."""
    found = re.match(r"No such option:? '?--([\w-]+)", sentence)
    if found is None or words[0] not in _WITH_SETTINGS:
        return None
    from maxsup.lab.core.config import Recipe
    from maxsup.lab.core.validation import place_of_key

    place = place_of_key(found[1].replace("-", "_"), Recipe)
    after = [word for word, before in zip(words[1:], words, strict=False) if before == f"--{found[1]}"]
    return f"{place}={after[0] if after else 'VALUE'}" if place else None


def run(words: list[str]) -> None:
    """Run the command that ``words`` spell, then exit; wrong usage is a ``ValueError`` of one sentence."""
    try:
        code = typer.main.get_command(app).main(args=words, prog_name="maxsup", standalone_mode=False)
    except typer.Abort:
        sys.exit(ExitCode.INTERRUPTED)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(error.exit_code)
        verb = error.ctx.command_path if error.ctx else "maxsup"
        sentence = " ".join(error.format_message().split()).rstrip(".")
        if setting := _dashed_setting(sentence, words):
            raise ValueError(f"{sentence}. Settings of a recipe have no dashes: write {setting}.") from error
        raise ValueError(f"{sentence}. See `{verb} --help`.") from error
    sys.exit(code if isinstance(code, int) else 0)
