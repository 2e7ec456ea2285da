"""``maxsup train``: a recipe goes in, a run directory comes out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maxsup.lab.cli.options import (
    DATA,
    DataRootOption,
    JsonOption,
    ModelOption,
    NoLockOption,
    OverrideArguments,
    RecipeArgument,
    with_data_root,
    with_names,
    work_without_locks,
)
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import option
from maxsup.lab.core.display import percent

if TYPE_CHECKING:
    from maxsup.lab.training import TrainingSummary


def train(
    recipe: RecipeArgument,
    overrides: OverrideArguments = None,
    data: Annotated[str | None, DATA] = None,
    model: ModelOption = None,
    output: Annotated[Path | None, option("DIR", "Run folder (default: a new one under runs/).")] = None,
    resume: Annotated[str, option("auto|never", "Resume a run that exists, or refuse it.")] = "auto",
    data_root: DataRootOption = None,
    no_lock: NoLockOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a recipe. Run the same command again to resume after an interruption."""
    work_without_locks(no_lock)
    from maxsup.lab.core.recipes import load_recipe, recipe_path

    parsed = load_recipe(recipe, with_data_root(with_names(overrides, data, model), data_root))
    # Late: importing torch takes seconds, and the above has found the mistakes in a recipe by now.
    from maxsup.lab.training import train as train_recipe
    from maxsup.lab.training.processes import leave_group

    summary = train_recipe(parsed, output, name=recipe_path(recipe).stem, resume=resume)
    leave_group()
    if os.environ.get("RANK", "0") == "0":  # one process prints for all
        show(summary, _lines(summary), as_json=as_json)


def _lines(summary: TrainingSummary) -> list[str]:
    from maxsup.lab.tasks import task_of_numbers

    shares = summary["time_shares"]
    parts = ", ".join(f"{name} {percent(shares[name])}" for name in ("data", "log", "checkpoint", "validation"))
    lines = [
        f"{summary['images_per_second']:.0f} images/s; {percent(shares['outside'])} of the time outside "
        f"forward/backward and validation ({parts})"
    ]
    for split, found in (("val", summary["val"]), ("test", summary["test"])):
        for which in ("last", "best"):
            numbers = found[which]
            if numbers is None:
                continue
            shown = ", ".join(f"{name} {text}" for name, text in task_of_numbers(numbers).summarise(numbers).items())
            lines.append(f"{split} ({which} weights, n={numbers['n']}): {shown}")
    run = summary["run"]
    return [*lines, f"run directory: {run}", f"next: maxsup diagnose {run}, maxsup analyze {run}, maxsup report {run}"]
