"""The reference of everything public: each package that says so in ``__all__``."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from sphinx.ext.autodoc.mock import mock

import maxsup
from tools.site.rst import INSTALL_LAB, document, hidden_toctree, table, titled

# Words of the command line, not of Python.
_LEFT_OUT = "maxsup.lab.cli"
# Trainers that the site's environment does not install; the reference needs their names only.
MOCKED = (
    "jax",
    "keras",
    "liger_kernel",
    "lightning",
    "optax",
    "skorch",
    "transformers",
    "trl",
)


def public_modules() -> list[ModuleType]:
    """``maxsup``, its parts and the adapters, where they list what they offer."""
    rooms = [*_inside(maxsup), *(name for name in _inside(import_module("maxsup.lab")) if name != _LEFT_OUT)]
    modules = [maxsup, *map(import_module, rooms)]
    modules += _adapters(import_module("maxsup.integrations"))
    return [module for module in modules if members(module)]


def _adapters(package: ModuleType) -> list[ModuleType]:
    """The modules of the adapters; those imported here may hold stand-ins for a trainer and are forgotten again."""
    names = _inside(package)
    before = set(sys.modules)
    with mock(list(MOCKED)):
        modules = [import_module(name) for name in names]
    for name in [found for found in sys.modules.keys() - before if found.startswith(f"{package.__name__}.")]:
        del sys.modules[name]
        vars(package).pop(name.removeprefix(f"{package.__name__}."), None)
    return modules


def _inside(package: ModuleType) -> list[str]:
    return [
        f"{package.__name__}.{found.name}"
        for found in pkgutil.iter_modules(package.__path__)
        if not found.name.startswith("_")
    ]


def members(module: ModuleType) -> dict[str, Any]:
    """What a module offers by name, without the modules among them."""
    found = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    return {name: value for name, value in found.items() if not inspect.ismodule(value) and name != "__version__"}


def pages() -> dict[str, str]:
    """A page for each module, and the list of them."""
    modules = public_modules()
    # A name that several modules offer is described on the page of the last, which is the closest to its source.
    homes = {id(value): module.__name__ for module in modules for value in members(module).values()}
    made = {f"api/{module.__name__}.rst": page(module, homes) for module in modules}
    return {**made, "api/index.rst": _index(modules)}


def page(module: ModuleType, homes: Mapping[int, str]) -> str:
    """The page of one module: what it is, a list of its names, then each of them that is at home there."""
    name = module.__name__
    rows, bodies, on_cards = [], [], names_on_cards()
    for member, value in members(module).items():
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        role = {"class": "class", "function": "func", "data": "data"}[kind]
        home = homes[id(value)]
        rows.append([f":py:{role}:`~{home}.{member}`", _first_sentence(value) if kind != "data" else ""])
        if home == name and f"{name}.{member}" not in on_cards:
            bodies.append(_directive(kind, f"{name}.{member}", value))
    lead = f".. automodule:: {name}\n   :no-members:"
    return document(titled(name, "="), lead, table(["name", "what it is"], rows), *bodies)


def names_on_cards() -> set[str]:
    """Losses and their functions, which are described on the card of the loss."""
    kinds = [maxsup.losses.LOSSES[name] for name in maxsup.losses.LOSSES]
    functions = {f"maxsup.functional.{kind.function.__name__}" for kind in kinds}
    return functions | {f"maxsup.losses.{kind.__name__}" for kind in kinds}


def _directive(kind: str, name: str, value: Any) -> str:
    if kind == "class":
        return f".. autoclass:: {name}\n   :members:\n   :show-inheritance:"
    if kind == "function":
        return f".. autofunction:: {name}"
    return f".. py:data:: {name}\n   :type: {type(value).__name__}"


def hide_fields(_app: Any, _kind: str, _name: str, value: Any, *_: Any) -> tuple[str, None] | None:
    """Give records no signature: it would be their fields once more, with their types as pydantic keeps them."""
    return ("", None) if inspect.isclass(value) and issubclass(value, BaseModel) else None


def _first_sentence(value: Any) -> str:
    text = " ".join(inspect.cleandoc(value.__doc__ or "").partition("\n\n")[0].split())
    return text if "Signature" not in text else ""


def _index(modules: list[ModuleType]) -> str:
    rows = [
        [f":doc:`{module.__name__}`", " ".join(str(module.__doc__).partition("\n")[0].split())] for module in modules
    ]
    return document(
        titled("Python reference", "="),
        "Everything that is public. The losses, metrics and schedules need torch only; "
        f"the other parts belong to the laboratory ({INSTALL_LAB}) or to one trainer.",
        table(["module", "what it is"], rows),
        hidden_toctree(module.__name__ for module in modules),
    )
