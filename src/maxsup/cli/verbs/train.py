"""``maxsup train``: a recipe goes in, a run directory comes out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.cli.options import (
    DataRootOption,
    JsonOption,
    OverrideArguments,
    RecipeArgument,
    percent,
    show,
    with_data_root,
)

if TYPE_CHECKING:
    from maxsup.training import TrainingSummary


def train(
    recipe: RecipeArgument,
    overrides: OverrideArguments = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run directory; by default one under runs/.")
    ] = None,
    resume: Annotated[str, typer.Option(metavar="auto|never", help="Go on where a run is, or refuse to.")] = "auto",
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a recipe. After an interruption the same command goes on where it stopped."""
    from maxsup.core.recipes import load_recipe

    words = with_data_root(overrides, data_root)
    load_recipe(recipe, words)  # a mistake in it is said before torch is paid for
    from maxsup.training import train as run_recipe
    from maxsup.training.processes import leave_group

    summary = run_recipe(recipe, output, overrides=words, resume=resume)
    leave_group()
    if os.environ.get("RANK", "0") != "0":  # another process prints
        return
    show(summary, _lines(summary), as_json=as_json)


def _lines(summary: TrainingSummary) -> list[str]:
    shares = summary["time_shares"]
    parts = ", ".join(f"{name} {percent(shares[name])}" for name in ("data", "log", "checkpoint", "validation"))
    lines = [
        f"{summary['images_per_second']:.0f} images/s; {percent(shares['outside'])} of the time outside "
        f"forward/backward and validation ({parts})"
    ]
    for split, found in (("val", summary["val"]), ("test", summary["test"])):
        for which in ("last", "best"):
            numbers = found[which]
            if numbers is not None:
                shown = _mask_numbers(numbers) if "miou" in numbers else _numbers(numbers)
                lines.append(f"{split} ({which} weights, n={numbers['n']}): {shown}")
    return [*lines, f"run directory: {summary['run']}"]


def _numbers(numbers: dict[str, Any]) -> str:
    return f"accuracy {percent(numbers['accuracy'])}, nll {numbers['nll']:.4f}, ece {numbers['ece']:.4f}"


def _mask_numbers(numbers: dict[str, Any]) -> str:
    return (
        f"mIoU {percent(numbers['miou'])} (commonest class everywhere: {percent(numbers['majority_miou'])}), "
        f"pixel accuracy {percent(numbers['accuracy'])}, nll {numbers['nll']:.4f}"
    )
