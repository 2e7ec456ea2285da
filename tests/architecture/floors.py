"""Which part of the package may import which, and a walk over the source that says where that is broken."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import called_name, parsed_files

# Top-level modules that only re-export; they stand on the losses and count as one part.
FACADES = {"__init__", "functional", "monitor", "schedules"}

_IMPORTERS = {"__import__", "import_module"}

_GROUND = {"core"}
_PARTS = {"data", "losses", "metrics", "models"}
_DRAWN = {"figures"}
_TASK = {"dense"}
_RUN = {"diagnosis", "training"}
_WORK = {"analysis"} | _DRAWN | _TASK | _RUN
_PAGES = {"reports"}
_PUBLIC = {"core", "losses", "facade"}

# The members of a floor do not import one another, so each part lists floors strictly below its own.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "facade": {"core", "losses"},
    "integrations": _PUBLIC,
    "doctor": _PUBLIC,
    "bench": _PUBLIC,
    **dict.fromkeys(_PARTS, _GROUND),
    "diagnosis": {"core", "metrics"},
    "dense": _GROUND | _PARTS,
    "training": _PUBLIC | _PARTS | _TASK,
    "figures": {"core", "metrics"},
    "analysis": _PUBLIC | _PARTS | _DRAWN | _TASK | _RUN,
    "reports": _PUBLIC | _PARTS | _WORK,
    "studies": _PUBLIC | _PARTS | _WORK | _PAGES,
    "cli": _PUBLIC | _PARTS | _WORK | _PAGES | {"bench", "doctor", "integrations", "studies"},
}


def _part(name: str) -> str:
    return name if name in MAY_IMPORT and name != "facade" else "facade"


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
    """One line for every import that does not point down, and for every file that belongs to no floor."""
    found = []
    for path, tree in parsed_files(package):
        parts = path.relative_to(package).with_suffix("").parts
        owner = "facade" if len(parts) == 1 and parts[0] in FACADES else {"__main__": "cli"}.get(parts[0], parts[0])
        where = path.relative_to(package.parent).as_posix()
        if owner not in MAY_IMPORT:
            found.append(f"{where}: belongs to no floor")
            continue
        for line, name in _imported_names(tree, [package.name, *parts[:-1]]):
            top, _, rest = name.partition(".")
            target = _part(rest.partition(".")[0])
            if top == package.name and rest != "__version__" and target not in MAY_IMPORT[owner] | {owner}:
                found.append(f"{where}:{line}: {owner} must not import {name} ({target})")
    return found
