"""What ``maxsup ls`` shows and a shell completes.

A file keeps the rows of the registries, because asking the registries costs an import of torch. In a checkout,
``python -m maxsup.lab.cli.listings`` rewrites the file and the table of losses in the documents; a test fails when
that is due. What stands in a new file is listed from the registry, as is a kind to which an installed package adds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from maxsup.core.registry import plugins

Row = dict[str, Any]

FILE = Path(__file__).with_name("listings.json")
KINDS = ("losses", "recipes", "studies", "models", "data", "analyses")
TABLE_HEAD = "| name | objective | default |\n|---|---|---|\n"

_PACKAGE = Path(__file__).parents[2]
# Where a module registers a member of a kind.
_MODULES = {
    "losses": ("losses/*.py", "losses/relatives/*.py"),
    "models": ("lab/models/**/*.py", "lab/segmentation/*.py"),
    "data": ("lab/data/sets/*.py", "lab/segmentation/*.py"),
    "analyses": ("lab/analysis/analyses/*.py",),
}
_FIRST = ("ce", "ls", "maxsup")


def registry_rows() -> dict[str, Any]:
    """The rows of every kind that is registered in code, from the registries themselves."""
    from maxsup.lab.analysis import describe_analyses
    from maxsup.lab.data import describe_datasets
    from maxsup.lab.tasks import TASKS
    from maxsup.losses import describe_losses

    rows = {
        "losses": describe_losses(),
        "files": {kind: _files(kind) for kind in _MODULES},
        "models": [row for name in TASKS for row in TASKS[name].describe_models()],
        "data": describe_datasets(),
        "analyses": describe_analyses(),
    }
    # As they come back from the file: JSON has no tuples.
    return dict(json.loads(json.dumps(rows)))


def read_rows(kind: str) -> list[Row]:
    """The rows of one of :data:`KINDS`, without torch."""
    if kind == "recipes":
        from maxsup.lab.core.recipes import describe_recipes

        return list(describe_recipes())
    if kind == "studies":
        from maxsup.lab.experiments.study_files import describe_studies

        return describe_studies()
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    if plugins(f"maxsup.{kind}") or kept["files"][kind] != _files(kind):
        kept = registry_rows()
    return kept[kind]


def loss_table(rows: list[Row]) -> str:
    """The table of losses as the documents show it; the losses of the paper's argument come first.

    Example:
        >>> print(loss_table([{"name": "a", "summary": "s", "needs": [], "strength": "b", "default": 0.1}]), end="")
        | name | objective | default |
        |---|---|---|
        | `a` | s | `b=0.1` |
    """
    lines = []
    for row in sorted(rows, key=lambda row: (row["name"] not in _FIRST, row["name"])):
        needs = "".join(f"; needs `{need}`" for need in row["needs"] if "optional" not in need)
        default = "" if row["default"] is None else f" `{row['strength']}={row['default']:g}`"
        lines.append(f"| `{row['name']}` | {row['summary']}{needs} |{default} |\n")
    return TABLE_HEAD + "".join(lines)


def _files(kind: str) -> list[str]:
    return sorted(path.name for pattern in _MODULES[kind] for path in _PACKAGE.glob(pattern))


def _completer(names: Callable[[], Iterable[str]], *, many: bool = False) -> Callable[[str], list[str]]:
    """The function that typer calls with what has been typed; with ``many``, names are separated by commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if many else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def _listed(kind: str) -> Callable[[], list[str]]:
    return lambda: [row["name"] for row in read_rows(kind)]


def _studies() -> list[str]:
    from maxsup.lab.experiments.study_files import study_names

    return study_names()


complete_kind = _completer(lambda: KINDS)
complete_recipe = _completer(_listed("recipes"))  # of the package; a shell completes paths by itself
complete_study = _completer(_studies)
complete_data = _completer(_listed("data"))
complete_model = _completer(_listed("models"))  # those of timm are too many
complete_loss = _completer(_listed("losses"))
complete_losses = _completer(_listed("losses"), many=True)
complete_analyses = _completer(_listed("analyses"), many=True)


if __name__ == "__main__":
    found = registry_rows()
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    table = loss_table(found["losses"])
    for page in (Path("README.md"), *Path("docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(re.escape(TABLE_HEAD) + r"(?:\|.*\n)*", lambda _: table, text), encoding="utf-8")
