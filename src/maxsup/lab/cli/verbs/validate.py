"""``maxsup validate``: a recipe and its data, checked before hours are spent on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.core.errors import DataError
from maxsup.lab.cli import error_facts, say
from maxsup.lab.cli.listings import complete_recipe
from maxsup.lab.cli.options import (
    DATA,
    DataRootOption,
    JsonOption,
    ModelOption,
    OverrideArguments,
    with_data_root,
    with_names,
)
from maxsup.lab.cli.printing import print_json
from maxsup.lab.cli.shorthands import argument, option

if TYPE_CHECKING:
    from maxsup.lab.core.config import Recipe

_NUM_SHOWN = 3
_RECIPE = "A name from `maxsup ls recipes`, or a .yaml file; by default what fits --data."
_SHEET = "Draw what the network sees in training and in evaluation."


def validate(
    recipe: Annotated[str | None, argument("RECIPE", _RECIPE, complete_recipe)] = None,
    overrides: OverrideArguments = None,
    data: Annotated[str | None, DATA] = None,
    model: ModelOption = None,
    sheet: Annotated[Path | None, option("FILE.png", _SHEET)] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a recipe and its data without training.

    Every key and name; the images a class, their sizes and modes, files that cannot be read, images that are in two
    splits; and one batch through model, loss and optimiser. Of more than 5,000 files a split, 5,000 are opened.
    """
    from maxsup.lab.core.recipes import load_recipe

    words = list(overrides or [])
    if recipe is not None and "=" in recipe:  # no recipe was meant
        words.insert(0, recipe)
        recipe = None
    if recipe is None:
        from maxsup.lab.experiments.comparison import recipe_for

        if data is None:
            raise ValueError("validate needs a recipe or data. Write maxsup validate RECIPE, or --data folder:PATH.")
        recipe = recipe_for(data)
    checked = load_recipe(recipe, with_data_root(with_names(words, data, model), data_root))
    # Late: the above finds most mistakes without torch.
    from maxsup.lab.training.preflight.check import check_recipe

    facts = check_recipe(checked)
    missing = " or ".join(facts["data_missing_at"])
    choices: list[str] = []
    if not missing and not checked.data.download:
        from maxsup.lab.training.preflight.defaults import settle_recipe

        checked, choices = settle_recipe(checked)
        found = _examined_data(checked, sheet)
        facts = check_recipe(checked, num_classes=found["num_classes"]) | found
    problem = _missing_data(checked, missing) if missing else None
    if as_json:
        found = {"valid": problem is None, **facts, "recipe": checked.model_dump(mode="json")}
        if problem is None:
            print_json(found)
            return
        # One object, not a second one for the error.
        print_json({**found, "error": error_facts(problem, str(problem), problem.exit_code)})
        say(str(problem))
        raise typer.Exit(problem.exit_code)
    if problem is not None:
        raise problem
    typer.echo(f"{recipe} is valid: {facts['loss']}, {facts['model']} with {facts['num_parameters']:,} parameters.")
    if "splits" in facts:
        typer.echo("\n".join([*choices, *_lines(facts)]))
    elif checked.data.download:
        typer.echo(f"data: not looked at{f', not found at {missing}' if missing else ''}; training will fetch it.")
    else:
        typer.echo(f"data: not found at {missing}; say with --data-root DIR where it is. It was not looked at.")


def _missing_data(recipe: Recipe, places: str) -> DataError | None:
    """Return the error for data that is at none of its places, if the user has named one."""
    if ":" in recipe.data.name:
        return DataError(f"data must be at {places}; got nothing there. Check the path.")
    if recipe.data.root and not recipe.data.download:
        return DataError(
            f"data set {recipe.data.name!r} must be in the data root that was given; got nothing at {places}. "
            "Choose another --data-root or add data.download=true."
        )
    return None


def _examined_data(recipe: Recipe, sheet: Path | None) -> dict[str, Any]:
    """Look at the data, write the sheet and take one step; return the facts."""
    from maxsup.lab.training.builders import build_data
    from maxsup.lab.training.preflight.check import check_data
    from maxsup.lab.training.preflight.estimate import try_step

    bundle = build_data(recipe)
    facts = check_data(recipe, bundle)
    if sheet is not None:
        from maxsup.lab.training.preflight.contact_sheet import write_sheet

        write_sheet(recipe, bundle, sheet)
        facts["sheet"] = str(sheet)
    return facts | {"first_loss": try_step(recipe, bundle)}


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [f"data: {facts['data']}, {facts['num_classes']} classes"]
    for name, split in facts["splits"].items():
        counts = ""
        if "most" in split:
            fewest, most = split["fewest"], split["most"]
            counts = f", {most['images']} a class"
            if fewest["images"] != most["images"]:
                counts = f", {fewest['images']} ({fewest['class']}) to {most['images']} ({most['class']}) a class"
        lines.append(f"  {name}: {split['images']:,} images{counts}")
    if facts["num_files"]:
        lines += _file_lines(facts)
    lines.append(f"one batch through model, loss and optimiser: loss {facts['first_loss']:.3f}")
    return [*lines, *([f"sheet: {facts['sheet']}"] if "sheet" in facts else [])]


def _file_lines(facts: dict[str, Any]) -> list[str]:
    opened, all_files, size = facts["num_opened"], facts["num_files"], facts["image_size"]
    bad, pairs = facts["unreadable"], facts["duplicates"]
    copies = f"{len(pairs)} files of val or test have the bytes of another split's"
    return [
        f"  opened: {'all' if opened == all_files else f'{opened:,} of'} {all_files:,} files",
        f"  sizes: {_common(facts['sizes'])}; the network sees {size}x{size}",
        f"  modes: {_common(facts['modes'])}",
        *([f"  odd but used: {_common(facts['oddities'])}"] if facts["oddities"] else []),
        "  unreadable: " + _first(f"{len(bad)} files", [f"{path}: {reason}" for path, reason in bad.items()]),
        "  in two splits: " + _first(copies, [f"{path} = {other}" for path, other in pairs]),
    ]


def _common(counts: dict[str, int]) -> str:
    """Write the commonest few, with how many of each."""
    shown = ", ".join(f"{name} ({count:,})" for name, count in list(counts.items())[:_NUM_SHOWN])
    left = len(counts) - _NUM_SHOWN
    return shown + (f" and {left} more" if left > 0 else "") if counts else "none"


def _first(what: str, entries: list[str]) -> str:
    """Write how many there are, and the first few, one a line."""
    left = len(entries) - _NUM_SHOWN
    more = [f"and {left} more; see --json"] if left > 0 else []
    return "\n    ".join([what, *entries[:_NUM_SHOWN], *more]) if entries else "none"
