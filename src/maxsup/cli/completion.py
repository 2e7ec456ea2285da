"""Names that a shell completes: of recipes, studies, losses, data, models and analyses."""

from __future__ import annotations

from collections.abc import Iterable

from maxsup.cli.listings import read_rows


def complete_recipe(incomplete: str) -> list[str]:
    """Recipes of the package; a shell completes paths by itself."""
    from maxsup.core.recipes import list_recipes

    return _matching(incomplete, list_recipes())


def complete_study(incomplete: str) -> list[str]:
    """Studies of the package."""
    from maxsup.studies.study_files import study_names

    return _matching(incomplete, study_names())


def complete_kind(incomplete: str) -> list[str]:
    """What can be listed."""
    from maxsup.cli.listings import KINDS

    return _matching(incomplete, KINDS)


def complete_data(incomplete: str) -> list[str]:
    """Data sets."""
    return _matching(incomplete, _names("data"))


def complete_model(incomplete: str) -> list[str]:
    """Models of the package; those of timm are too many."""
    return _matching(incomplete, _names("models"))


def complete_loss(incomplete: str) -> list[str]:
    """One loss."""
    return _matching(incomplete, _names("losses"))


def complete_losses(incomplete: str) -> list[str]:
    """Losses separated by commas.

    Example:
        >>> complete_losses("ce,max")
        ['ce,maxsup']
    """
    return _matching_last(incomplete, _names("losses"))


def complete_analyses(incomplete: str) -> list[str]:
    """Analyses separated by commas."""
    return _matching_last(incomplete, _names("analyses"))


def _names(kind: str) -> list[str]:
    return [row["name"] for row in read_rows(kind)]


def _matching(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]


def _matching_last(words: str, names: Iterable[str]) -> list[str]:
    before, comma, last = words.rpartition(",")
    return [f"{before}{comma}{name}" for name in _matching(last, names)]
