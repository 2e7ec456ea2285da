"""What each of two processes does in the test of two-process training; started by torchrun."""

import os
import sys
from pathlib import Path

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from tests.integration.runs import StopAt

CUT = 25


def main(output: str, *words: str) -> None:
    recipe = parse_recipe({}, words)
    train(recipe, Path(output) / "two", reporter=Reporter())
    # The signal reaches one process only; both must stop after the same step.
    reporter = StopAt(CUT) if os.environ["RANK"] == "1" else Reporter()
    try:
        train(recipe, Path(output) / "cut", reporter=reporter)
    except Interruption:
        train(recipe, Path(output) / "cut", reporter=Reporter())


if __name__ == "__main__":
    main(*sys.argv[1:])
