"""``maxsup cp`` and ``maxsup validate``: take a recipe, change it, check it before hours are spent on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxsup.cli.options import (
    DataRootOption,
    JsonOption,
    OverrideArguments,
    RecipeArgument,
    print_json,
    with_data_root,
)
from maxsup.core.errors import DataError


def cp(
    recipe: RecipeArgument,
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="Where to: a .yaml file, or a folder.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe to a file of your own, comments included."""
    from maxsup.core.recipes import recipe_path
    from maxsup.core.storage import make_folder, replace_bytes

    source = recipe_path(recipe)
    if destination.is_dir():
        destination /= source.name
    if destination.suffix not in (".yaml", ".yml"):
        raise ValueError(f"destination must be a .yaml file; got {str(destination)!r}. Write {destination}.yaml.")
    if destination.exists() and not force:
        raise ValueError(
            f"destination must be new; got {str(destination)!r}, which exists. Add --force to overwrite it."
        )
    make_folder(destination.parent, fix="Choose another FILE.")
    replace_bytes(destination, source.read_bytes())
    if as_json:
        print_json({"recipe": source.stem, "path": str(destination)})
    else:
        typer.echo(f"{destination}: edit it, then run maxsup validate {destination}")


def validate(
    recipe: RecipeArgument,
    overrides: OverrideArguments = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a recipe without training.

    Every key and name is looked at, the model is built, and data that is missing is named.
    """
    from maxsup.core.recipes import load_recipe

    checked = load_recipe(recipe, with_data_root(overrides, data_root))
    # Late: the above finds most mistakes without torch.
    from maxsup.training.check import check_recipe

    facts = check_recipe(checked)
    missing = " or ".join(facts["data_missing_at"])
    if as_json:
        print_json({"valid": True, **facts, "recipe": checked.model_dump(mode="json")})
    else:
        typer.echo(f"{recipe} is valid: {facts['loss']}, {facts['model']} with {facts['num_parameters']:,} parameters.")
    if not missing:
        return
    if checked.data.root and not checked.data.download:
        raise DataError(
            f"data set {checked.data.name!r} must be in the data root that was given; got nothing at {missing}. "
            "Choose another --data-root or add data.download=true."
        )
    if not as_json:
        fix = "training will fetch it" if checked.data.download else "say with --data-root DIR where it is"
        typer.echo(f"data: not found at {missing}; {fix}.")
