"""What ``maxsup ls`` shows and a shell completes.

Rows of the registries are kept in a file, because asking the registries costs an import of torch.
``python -m maxsup.cli.listings`` writes the file again, and a test says when that is due.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]

FILE = Path(__file__).with_name("listings.json")
KINDS = ("losses", "models", "data", "analyses", "recipes")


def registry_rows() -> dict[str, list[Row]]:
    """The rows of every kind that is registered in code, from the registries themselves."""
    from maxsup.analysis import describe_analyses
    from maxsup.data import describe_datasets
    from maxsup.losses import describe_losses
    from maxsup.models import describe_models

    rows = {
        "losses": describe_losses(),
        "models": describe_models(),
        "data": describe_datasets(),
        "analyses": describe_analyses(),
    }
    # As they come back from the file: JSON has no tuples.
    found: dict[str, list[Row]] = json.loads(json.dumps(rows))
    return found


def read_rows(kind: str) -> list[Row]:
    """The rows of one of :data:`KINDS`, without torch.

    Example:
        >>> [row["default"] for row in read_rows("losses") if row["name"] == "maxsup"]
        [0.1]
    """
    if kind == "recipes":
        from maxsup.core.recipes import describe_recipes

        return [dict(row) for row in describe_recipes()]
    rows: list[Row] = json.loads(FILE.read_text(encoding="utf-8"))[kind]
    return rows


if __name__ == "__main__":
    FILE.write_text(json.dumps(registry_rows(), indent=1) + "\n", encoding="utf-8")
