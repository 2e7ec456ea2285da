"""Whether the files of a data set exist; only their names are checked, and no file is opened."""

from __future__ import annotations

from pathlib import Path

from maxsup.data.registry import DATASETS, data_root
from maxsup.data.sets.arrays import local_path


def missing_places(name: str, root: Path | str | None = None, *, is_generated: bool = False) -> list[Path]:
    """Paths that a data set needs and that do not exist; empty where one of them does, or where it needs none.

    Args:
        name: As in :func:`load_data`.
        root: Where data sets live, as there.
        is_generated: Whether its own files are computed, so that only those of the set it is made from are needed.

    Example:
        >>> missing_places("digits")
        []
        >>> [path.as_posix() for path in missing_places("cifar10_lt", root="nowhere")]
        ['nowhere/cifar10.npz', 'nowhere/cifar-10-batches-py']
    """
    kind, _, argument = name.partition(":")
    facts, place = DATASETS.facts(kind), data_root(root)
    if argument:
        looked_at = [local_path(argument, place)]
    else:
        looked_at = [place / words for words in facts.get("places", "").split(" or ") if words and not is_generated]
    if looked_at and not any(path.exists() for path in looked_at):
        return looked_at
    return missing_places(facts["base"], root) if "base" in facts else []
