"""From a study to what has to be done: runs with complete recipes, analyses, and the cells to compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.recipes import read_yaml, recipe_path
from maxsup.lab.experiments.entries import AnalysisScale, Cell, DataChoice
from maxsup.lab.experiments.schema import ScaleName, Study

Availability = Callable[[DataChoice], bool]

_EMBEDDED_ONLY: Availability = attrgetter("is_embedded")


@dataclass(frozen=True)
class PlannedRun:
    """A run that a study needs.

    Where the table compares losses, runs of one seed differ in the loss alone: ``recipe.seed`` decides initial weights,
    order of the data and augmentation. Runs of a ``pool`` serve several studies.
    """

    recipe: Recipe
    arm: str
    seed: int
    cells: tuple[Cell, ...]
    pool: str = ""


@dataclass(frozen=True)
class PlannedAnalysis:
    """An analysis of every run; ``data`` is what to analyse on, None for the run's own data."""

    name: str
    what: str
    split: str
    options: dict[str, Any]
    data: DataChoice | None


@dataclass(frozen=True)
class ComparedCells:
    """Cells whose values are compared with the baseline's, seed by seed: one table of statistics."""

    group: str
    other: str
    cells: dict[str, Cell]


def expand(
    study: Study,
    scale: ScaleName = "tiny",
    *,
    is_available: Availability = _EMBEDDED_ONLY,
    overrides: Iterable[str] = (),
) -> list[PlannedRun]:
    """Every run of a study at a scale, seed by seed, so that an interrupted study has complete pairs.

    Cells with the same recipe share one run. The first available choice of data is used; overrides are applied to every
    recipe after everything else.

    Example:
        >>> from maxsup.lab.experiments.study_files import load_study
        >>> runs = expand(load_study("tab_alpha"), "full")
        >>> [(run.recipe.loss.name, [cell.column for cell in run.cells]) for run in runs if run.seed == 0][:2]
        [('ce', ['constant', 'linear']), ('ls', ['constant'])]
    """
    plan, words = study.scale(scale), tuple(overrides)
    runs: dict[str, PlannedRun] = {}
    for seed in plan.seeds:
        for cell in study.cells():
            if study.left_out(scale, cell):
                continue
            recipe = _recipe(study, scale, cell, seed, is_available, words)
            by_row, by_column = plan.entry(cell)
            pool = by_row.pool or by_column.pool or plan.pool or ""
            new = PlannedRun(recipe, study.arm(cell), seed, (), pool)
            known = runs.setdefault(recipe.model_dump_json(), new)
            runs[recipe.model_dump_json()] = replace(known, cells=(*known.cells, cell))
    return list(runs.values())


def planned_analyses(
    study: Study, scale: ScaleName = "tiny", *, is_available: Availability = _EMBEDDED_ONLY
) -> list[PlannedAnalysis]:
    """Every analysis of a study with the options and data of a scale, except those that only left-out cells show."""
    shown, left_out = set[str](), set[str]()
    for cell in study.cells():
        (left_out if study.left_out(scale, cell) else shown).add(study.metric_of(cell).source)
    planned = []
    for plan in study.analyses:
        if plan.name in left_out - shown:
            continue
        change = study.scale(scale).analyses.get(plan.name, AnalysisScale())
        own = DataChoice(name=plan.data) if plan.data else None
        data = chosen_data(change.data, is_available) or own
        planned.append(PlannedAnalysis(plan.name, plan.what, plan.split, plan.options | change.options, data))
    return planned


def comparisons(study: Study, scale: ScaleName = "tiny") -> list[ComparedCells]:
    """What is compared with what: the arms of each group, for every entry of the other axis."""
    found = []
    for group in dict.fromkeys(arm.group for arm in study.arms):
        for other in study.others:
            cells = {arm.compared_as: study.cell(arm, other) for arm in study.arms if arm.group == group}
            measured = {arm: cell for arm, cell in cells.items() if not study.left_out(scale, cell)}
            if len(measured) > 1 and study.baseline in measured:
                found.append(ComparedCells(group, other.name, measured))
    return found


def chosen_data(choices: Sequence[DataChoice], is_available: Availability) -> DataChoice | None:
    """The first available choice, else the first of all; None without any choice."""
    there = (choice for choice in choices if choice.is_embedded or is_available(choice))
    return next(there, choices[0] if choices else None)


def _recipe(
    study: Study, scale: ScaleName, cell: Cell, seed: int, is_available: Availability, words: tuple[str, ...]
) -> Recipe:
    plan = study.scale(scale)
    by_row, by_column = plan.entry(cell)
    data = chosen_data(by_row.data or by_column.data or plan.data, is_available)
    overrides = (*plan.overrides, *by_row.overrides, *by_column.overrides, *(data.overrides if data else ()))
    words_of_seed = tuple(word.replace("{seed}", str(seed)) for word in overrides)
    values = _base_recipe(by_row.recipe or by_column.recipe or plan.recipe, words_of_seed).model_dump(mode="json")
    if data is not None:
        values["data"] |= {"name": data.name, "options": data.options, "image_size": data.image_size}
    loss = by_row.loss or by_column.loss
    values |= {"loss": _loss(study, cell) if loss is None else loss.model_dump(), "seed": seed}
    return parse_recipe(values, words, source=f"study {study.name}")


@lru_cache(maxsize=256)
def _base_recipe(base: str, overrides: tuple[str, ...]) -> Recipe:
    path = recipe_path(base)
    return parse_recipe(read_yaml(path), overrides, source=f"recipe {path.stem}")


def _loss(study: Study, cell: Cell) -> dict[str, Any]:
    row, column = study.row(cell.row), study.column(cell.column)
    own, other = (row, column) if row.loss is not None else (column, row)
    assert own.loss is not None, "the study's own check gives every cell a loss"
    return {**own.loss.model_dump(), **other.losses.get(own.loss.name, {})}
