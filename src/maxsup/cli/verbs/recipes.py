"""``maxsup cp``: a recipe of your own, to be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxsup.cli.options import JsonOption, RecipeArgument, show


def cp(
    recipe: RecipeArgument,
    destination: Annotated[Path, typer.Argument(metavar="FILE", help="Where to: a .yaml file, or a folder.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe to a file of your own, comments included."""
    from maxsup.core.files.storage import make_folder, replace_bytes
    from maxsup.core.recipes import recipe_path

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
    advice = f"{destination}: edit it, then run maxsup validate {destination}"
    show({"recipe": source.stem, "path": str(destination)}, [advice], as_json=as_json)
