"""What can be said of runs before they are made: how long they may take, and which of them lack their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from maxsup.core.config import Recipe
from maxsup.core.errors import DataError, MaxsupError
from maxsup.training.estimate import estimated_total


@dataclass(frozen=True)
class Preview:
    """What a few steps of each setting tell.

    Args:
        seconds: That training takes, one run after another; of runs whose data is there.
        obstacle: Why that is not known; empty where it is.
        missing: Names of runs by the sentence about their data, where that cannot be used.
    """

    seconds: float
    obstacle: str
    missing: dict[str, list[str]]


def preview(recipes: Mapping[str, Recipe], *, is_elsewhere: bool = False) -> Preview:
    """Look at data and speed of runs.

    Args:
        recipes: By name of the run.
        is_elsewhere: Whether they may be made on machines that have data which this one lacks.

    Raises:
        DataError: Where no run has its data: there is nothing to begin with.
    """
    by_data: dict[str, dict[str, Recipe]] = {}
    for name, recipe in recipes.items():
        by_data.setdefault(recipe.data.model_dump_json(), {})[name] = recipe
    seconds, obstacle, missing = 0.0, "", dict[str, list[str]]()
    for group in by_data.values():
        try:
            seconds += estimated_total(list(group.values()))
        except DataError as error:
            missing.setdefault(str(error), []).extend(group)
        except MaxsupError as error:  # a run that cannot even begin is not the end of the others
            obstacle = str(error)
    if not is_elsewhere and recipes and sum(len(names) for names in missing.values()) == len(recipes):
        raise DataError(next(iter(missing)))
    return Preview(seconds, obstacle, missing)
