"""Which part of the package may import which, and a walk over the source that says where that is broken."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import called_name, parsed_files

# Top-level modules that only re-export; they stand on the losses and count as one part.
FACADES = {"__init__", "functional", "monitor", "schedules"}

_IMPORTERS = {"__import__", "import_module"}

_PUBLIC = {"core", "losses", "facade"}

# What each part of the library may import. None of them imports the laboratory.
LIBRARY: dict[str, set[str]] = {
    "core": set(),
    "losses": {"core"},
    "metrics": {"core"},
    "facade": {"core", "losses"},
    "diagnosis": {"core", "metrics"},
    "doctor": _PUBLIC,
    "integrations": _PUBLIC,
}

_GROUND = {"core", "lab.core"}
_PARTS = _GROUND | {"losses", "metrics", "lab.data", "lab.models"}
_RUNS = _PUBLIC | _PARTS | {"lab.tasks", "lab.training"}
_WORK = _RUNS | {"diagnosis", "lab.analysis", "lab.figures"}
_PAGES = _WORK | {"lab.reports"}

# What each part of the laboratory may import: the floors strictly below its own.
LABORATORY: dict[str, set[str]] = {
    "lab.core": {"core"},
    "lab.bench": _PUBLIC | _GROUND,
    "lab.data": _GROUND,
    "lab.models": _GROUND,
    "lab.figures": _GROUND | {"metrics"},
    "lab.tasks": _PARTS,
    "lab.segmentation": _PARTS | {"lab.tasks"},
    "lab.training": _PUBLIC | _PARTS | {"lab.tasks"},
    # One analysis is of masks.
    "lab.analysis": _RUNS | {"diagnosis", "lab.figures", "lab.segmentation"},
    "lab.reports": _WORK,
    "lab.experiments": _PAGES,
    "lab": _PAGES | {"lab.experiments"},
    "lab.cli": _PAGES | {"doctor", "integrations", "lab.bench", "lab.experiments"},
    # `python -m maxsup` is the door of the command line.
    "__main__": {"lab.core", "lab.cli"},
}
MAY_IMPORT = LIBRARY | LABORATORY


def part_of(names: list[str]) -> str:
    """Return the part that a dotted name below the package belongs to."""
    if names[:1] == ["lab"]:
        return f"lab.{names[1]}" if f"lab.{''.join(names[1:2])}" in MAY_IMPORT else "lab"
    return names[0] if names and names[0] in MAY_IMPORT else "facade"


def owner_of(parts: tuple[str, ...]) -> str | None:
    """Return the part that a file belongs to, or None if it belongs to none."""
    if parts[0] == "lab":
        found = "lab" if parts[1:] == ("__init__",) else f"lab.{parts[1]}"
    else:
        found = "facade" if len(parts) == 1 and parts[0] in FACADES else parts[0]
    return found if found in MAY_IMPORT else None


def _imported_names(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported, wherever in the file, strings given to import_module included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((node.lineno, alias.name) for alias in aliases)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                base = package[: len(package) - level + 1] if level else []
                prefix = ".".join([*base, *([module] if module else [])])
                yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in aliases)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if called_name(node) in _IMPORTERS:
                yield node.lineno, name


def violations(package: Path) -> list[str]:
    """One line for every import that does not point down, and for every file that belongs to no part."""
    found = []
    for path, tree in parsed_files(package):
        parts = path.relative_to(package).with_suffix("").parts
        where, owner = path.relative_to(package.parent).as_posix(), owner_of(parts)
        if owner is None:
            found.append(f"{where}: belongs to no part")
            continue
        for line, name in _imported_names(tree, [package.name, *parts[:-1]]):
            top, *rest = name.split(".")
            target = part_of(rest)
            if top == package.name and rest != ["__version__"] and target not in MAY_IMPORT[owner] | {owner}:
                found.append(f"{where}:{line}: {owner} must not import {name} ({target})")
    return found
