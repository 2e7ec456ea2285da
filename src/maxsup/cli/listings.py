"""What ``maxsup ls`` shows and a shell completes.

Rows of the registries are kept in a file, because asking the registries costs an import of torch.
``python -m maxsup.cli.listings`` in a checkout writes the file again, and the table of losses in the documents; a test
says when that is due. Until then a loss in a new file is listed from the registry.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]

FILE = Path(__file__).with_name("listings.json")
KINDS = ("losses", "models", "data", "analyses", "recipes")
TABLE_HEAD = "| name | objective | default |\n|---|---|---|\n"

_LOSSES = Path(__file__).parents[1] / "losses"
_FIRST = ("ce", "ls", "maxsup")


def registry_rows() -> dict[str, Any]:
    """The rows of every kind that is registered in code, from the registries themselves."""
    from maxsup.analysis import describe_analyses
    from maxsup.data import describe_datasets
    from maxsup.dense import SEGMENTERS
    from maxsup.losses import describe_losses
    from maxsup.models import describe_models

    rows = {
        "losses": describe_losses(),
        "files of losses": _files_of_losses(),
        "models": [*describe_models(), *({"name": name, **SEGMENTERS.facts(name)} for name in SEGMENTERS)],
        "data": describe_datasets(),
        "analyses": describe_analyses(),
    }
    # As they come back from the file: JSON has no tuples.
    return dict(json.loads(json.dumps(rows)))


def read_rows(kind: str) -> list[Row]:
    """The rows of one of :data:`KINDS`, without torch.

    Example:
        >>> [row["default"] for row in read_rows("losses") if row["name"] == "maxsup"]
        [0.1]
    """
    if kind == "recipes":
        from maxsup.core.recipes import describe_recipes

        return [dict(row) for row in describe_recipes()]
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    if kind == "losses" and kept["files of losses"] != _files_of_losses():
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


def with_loss_table(text: str, rows: list[Row]) -> str:
    """A document whose table of losses, if it has one, is that of the registry."""
    return re.sub(re.escape(TABLE_HEAD) + r"(?:\|.*\n)*", lambda _: loss_table(rows), text)


def _files_of_losses() -> list[str]:
    return sorted(path.name for path in (*_LOSSES.glob("*.py"), *_LOSSES.glob("relatives/*.py")))


if __name__ == "__main__":
    found = registry_rows()
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for page in (Path("README.md"), *Path("docs").glob("*.md")):
        page.write_text(with_loss_table(page.read_text(encoding="utf-8"), found["losses"]), encoding="utf-8")
