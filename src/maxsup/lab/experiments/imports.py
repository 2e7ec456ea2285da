"""Losses, networks and data sets of the user's own code: where a worker can import them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from maxsup.lab.core.config import Recipe
from maxsup.lab.data import DATASETS
from maxsup.lab.models import MODELS, factory_of, model_name
from maxsup.losses import LOSSES

_OURS = __name__.partition(".")[0]


def imports_of(recipe: Recipe) -> list[dict[str, str]]:
    """What a worker must import for a recipe: the folder of a module, its name, and the object in it."""
    return [found for part in _own_parts(recipe).values() if (found := _place(part)) is not None]


def parts_only_here(recipe: Recipe) -> list[str]:
    """Parts of a recipe that no other process can import: lambdas, and what a notebook or script defines."""
    return [name for name, part in _own_parts(recipe).items() if _place(part) is None]


def import_all(entries: Iterable[Mapping[str, str]]) -> None:
    """Import what :func:`imports_of` found; functions that make networks are registered in this process."""
    for entry in entries:
        if entry["folder"] not in sys.path:
            sys.path.append(entry["folder"])
        part = attrgetter(entry["name"])(import_module(entry["module"]))
        if entry["kind"] == "factory":
            model_name(part)


def _own_parts(recipe: Recipe) -> dict[str, Any]:
    kind = recipe.data.name.partition(":")[0]
    registered = ((LOSSES, recipe.loss.name), (MODELS, recipe.model.name), (DATASETS, kind))
    found: dict[str, Any] = {name: registry[name] for registry, name in registered if name in registry}
    found |= {name: factory for name in found if (factory := factory_of(name)) is not None}
    return {name: part for name, part in found.items() if _module(part).partition(".")[0] != _OURS}


def _module(part: Any) -> str:
    return str(getattr(part, "__module__", ""))


def _place(part: Any) -> dict[str, str] | None:
    """Where another process finds the same object; None if it cannot."""
    name, module = getattr(part, "__qualname__", ""), sys.modules.get(_module(part))
    file = getattr(sys.modules.get(_module(part).partition(".")[0]), "__file__", None)
    if not name or "<" in name or module is None or file is None or module.__name__ == "__main__":
        return None
    if getattr(module, name.partition(".")[0], None) is None or attrgetter(name)(module) is not part:
        return None
    folder = Path(file).resolve().parent
    is_package = Path(file).stem == "__init__"
    registered = [registry[key] for registry in (LOSSES, MODELS, DATASETS) for key in registry]
    place = {"folder": str(folder.parent if is_package else folder), "module": module.__name__, "name": name}
    return place | {"kind": "registered" if part in registered else "factory"}
