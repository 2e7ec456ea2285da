"""Arguments and options that several verbs share, and what becomes of their words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from maxsup.lab.cli.listings import complete_data, complete_model, complete_recipe
from maxsup.lab.cli.shorthands import argument, flag, option

RecipeArgument = Annotated[
    str, argument("RECIPE", "A name from `maxsup ls recipes`, or a .yaml file.", complete_recipe)
]
OverrideArguments = Annotated[
    list[str] | None, argument("KEY=VALUE", "Changes to the recipe, for instance optimizer.lr=0.1 epochs=5.")
]
DATA = option("NAME", "From `maxsup ls data`, or folder:PATH, or arrays:PATH.", complete_data)
ModelOption = Annotated[str | None, option("NAME", "From `maxsup ls models`, or any of timm's.", complete_model)]
SplitOption = Annotated[str, option("train|val|test", "Split to use.")]
WeightsOption = Annotated[str, option("last|best", "Checkpoint to load.")]
DataRootOption = Annotated[Path | None, option("DIR", "Folder of the data sets (default: MAXSUP_DATA, or ./data).")]
NoLockOption = Annotated[
    bool,
    flag("--no-lock", "For file systems without locks: do not lock runs. Never start a run twice."),
]
JsonOption = Annotated[bool, flag("--json", "Print one JSON object on standard output.")]


def work_without_locks(is_wanted: bool) -> None:
    """Do not lock directories in this process and its workers."""
    from maxsup.lab.core.files.rundir import NO_LOCK

    if is_wanted:
        os.environ[NO_LOCK] = "1"


def with_names(overrides: list[str] | None, data: str | None, model: str | None) -> list[str]:
    """Overrides, and before them those that ``--data`` and ``--model`` stand for."""
    named = {"data.name": data, "model.name": model}
    return [*(f"{key}={value}" for key, value in named.items() if value), *(overrides or [])]


def with_data_root(overrides: list[str] | None, data_root: Path | None) -> list[str]:
    """Overrides, and the one that ``--data-root`` stands for."""
    return [*(overrides or []), *([f"data.root={data_root.resolve()}"] if data_root else [])]


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Run directories, whose names may hold a ``=``, and words of the form key=value."""
    runs = [word for word in words if "=" not in word or Path(word).is_dir()]
    return runs, [word for word in words if word not in runs]


def refuse_strangers(options: Mapping[str, Any], needed: str, *, has_needed: bool, found: str = "alone") -> None:
    """Raise where an option is given without what it belongs to: no option is silently ignored."""
    for name, value in options.items():
        if value is not None and not has_needed:
            raise ValueError(f"{name} must come with {needed}; got {value!r} {found}. Leave it out.")
