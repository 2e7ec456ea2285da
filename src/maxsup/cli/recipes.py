"""``maxsup cp`` and ``maxsup validate``: take a recipe, change it, check it before hours are spent on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxsup.cli.options import JsonOption, OverrideArguments, RecipeArgument, print_json


def cp(
    recipe: RecipeArgument,
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="Where to, for instance my.yaml.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe to a file of your own, comments included."""
    from maxsup.core.recipes import recipe_path

    source = recipe_path(recipe)
    if destination.suffix not in (".yaml", ".yml"):
        raise ValueError(f"destination must be a .yaml file; got {str(destination)!r}. Write {destination}.yaml.")
    if destination.exists() and not force:
        raise ValueError(
            f"destination must be new; got {str(destination)!r}, which exists. Add --force to overwrite it."
        )
    destination.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    if as_json:
        print_json({"recipe": source.stem, "path": str(destination)})
    else:
        typer.echo(f"{destination}: edit it, then run maxsup validate {destination}")


def validate(recipe: RecipeArgument, overrides: OverrideArguments = None, as_json: JsonOption = False) -> None:
    """Check a recipe without training: every key, every name, and that the model can be built."""
    from maxsup.core.recipes import load_recipe

    checked = load_recipe(recipe, overrides or [])
    # Late: the above finds most mistakes without torch.
    from maxsup.training.check import check_recipe

    facts = check_recipe(checked)
    if as_json:
        print_json({"valid": True, **facts, "recipe": checked.model_dump(mode="json")})
    else:
        typer.echo(f"{recipe} is valid: {facts['loss']}, {facts['model']} with {facts['num_parameters']:,} parameters.")
