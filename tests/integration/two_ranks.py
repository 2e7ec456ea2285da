"""What each of two processes does in the test of two-process training; started by torchrun."""

import contextlib
import os
import sys
from pathlib import Path

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from tests.integration.runs import StopAt

CUT = 25


def main(output: str, *words: str) -> None:
    recipe = parse_recipe({}, words)
    train(recipe, Path(output) / "two", reporter=Reporter())
    cut_at(CUT, output, recipe, "cut")
    train(recipe, Path(output) / "cut", reporter=Reporter())
    cut_at(CUT, output, recipe, "elastic")


def cut_at(step: int, output: str, recipe: Recipe, name: str) -> None:
    """Train until a signal reaches one process only; both must stop after the same step."""
    reporter = StopAt(step) if os.environ["RANK"] == "1" else Reporter()
    with contextlib.suppress(Interruption):
        train(recipe, Path(output) / name, reporter=reporter)


if __name__ == "__main__":
    main(*sys.argv[1:])
