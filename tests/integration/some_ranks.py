"""Processes that train a run up to a step, or to its end, whatever number of them began it; started by torchrun."""

import contextlib
import os
import sys
from pathlib import Path

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.recipes import list_recipes, load_recipe
from maxsup.lab.training import train
from maxsup.lab.training.progress import Reporter
from tests.integration.runs import StopAt


def main(output: str, recipe: str, last_step: str, *words: str) -> None:
    """Train until the signal after ``last_step`` steps, which the last process gets; with 0 to the end."""
    is_signalled = int(last_step) and os.environ.get("RANK", "0") == str(int(os.environ.get("WORLD_SIZE", "1")) - 1)
    with contextlib.suppress(Interruption):
        train(recipe_of(recipe, words), Path(output), reporter=StopAt(int(last_step)) if is_signalled else Reporter())


def recipe_of(name: str, words: tuple[str, ...]) -> Recipe:
    return load_recipe(name, words) if name in list_recipes() else parse_recipe({}, words)


if __name__ == "__main__":
    main(*sys.argv[1:])
