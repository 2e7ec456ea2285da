"""``maxsup cp``: a recipe of your own, to be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from maxsup.lab.cli.options import JsonOption, RecipeArgument
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import argument, flag


def cp(
    recipe: RecipeArgument,
    destination: Annotated[Path, argument("FILE", "Destination: a .yaml file or a folder.")],
    force: Annotated[bool, flag("--force", "Overwrite the file if there is one.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe to a file of your own, comments included."""
    from maxsup.lab.core.files.storage import write_file
    from maxsup.lab.core.recipes import recipe_path

    source = recipe_path(recipe)
    if destination.is_dir():
        destination /= source.name
    if destination.suffix not in (".yaml", ".yml"):
        raise ValueError(f"destination must be a .yaml file; got {str(destination)!r}. Write {destination}.yaml.")
    if destination.exists() and not force:
        raise ValueError(
            f"destination must be new; got {str(destination)!r}, which exists. Add --force to overwrite it."
        )
    write_file(destination, source.read_bytes(), fix="Choose another FILE.")
    advice = f"{destination}: edit it, then run maxsup validate {destination}"
    show({"recipe": source.stem, "path": str(destination)}, [advice], as_json=as_json)
