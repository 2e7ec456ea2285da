"""Run directories that no study made, as if one had: the runs of one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maxsup.core.config import LossConfig, Recipe
from maxsup.core.errors import MaxsupError, hint
from maxsup.core.files.rundir import RunDir
from maxsup.core.recipes import run_recipe
from maxsup.studies.comparison import measured
from maxsup.studies.entries import Cell, Entry, Scale
from maxsup.studies.execution.study_folder import StudyFolder, differing_settings
from maxsup.studies.expansion import PlannedRun
from maxsup.studies.schema import Study


def folder_of_runs(paths: Sequence[Path], output: Path, *, baseline: str | None = None) -> StudyFolder:
    """Runs that differ in loss and seed alone, as the folder of a comparison.

    Args:
        paths: Run directories.
        output: Where the summary and the report go.
        baseline: The loss to compare with; ``ls`` or ``ce`` where one is there, else the first.
    """
    recipes = {}
    for path in paths:
        run = RunDir(path).require()
        recipes[path.resolve()] = run_recipe(run)
    first = next(iter(recipes.values()))
    rows: dict[str, Entry] = {}
    arms: dict[Path, str] = {}
    for path, recipe in recipes.items():
        _require_same_experiment(path, first, recipe)
        text = _loss_text(recipe.loss)
        if text not in rows:
            name = recipe.loss.name if recipe.loss.name not in {row.name for row in rows.values()} else _name(text)
            rows[text] = Entry(name=name, title=text, loss=recipe.loss)
        arms[path] = rows[text].name
    names = [row.name for row in rows.values()]
    chosen = baseline or next((name for name in ("ls", "ce") if name in names), names[0])
    if chosen not in names:
        raise ValueError(f"baseline must be a loss of these runs; got {chosen!r}. {hint(chosen, names)}")
    seeds = tuple(sorted({recipe.seed for recipe in recipes.values()}))
    scale = Scale(recipe=str(RunDir(next(iter(recipes))).config), seeds=seeds, note="runs as they were trained")
    # Without an analysis.
    metrics = {key: metric for key, metric in measured(first)[0].items() if metric.source == "test"}
    study = Study(
        name="runs",
        label="",
        title=f"{len(recipes)} runs on {first.data.name}",
        question=f"How do {', '.join(names)} compare on {first.data.name}?",
        stated=(),
        unstated=(),
        baseline=chosen,
        rows=tuple(rows.values()),
        columns=tuple(Entry(name=key, title=metric.title, metric=metric) for key, metric in metrics.items()),
        scales={"full": scale, "tiny": scale},
    )
    planned = {
        # An absolute name is a folder of its own.
        str(path): PlannedRun(recipe, arms[path], recipe.seed, tuple(Cell(arms[path], column) for column in metrics))
        for path, recipe in recipes.items()
    }
    return StudyFolder(output, study, "full", planned, ())


def _require_same_experiment(path: Path, first: Recipe, recipe: Recipe) -> None:
    for key, (left, right) in differing_settings(first, recipe).items():
        raise MaxsupError(
            f"runs of one table must differ in loss and seed alone; got {key}={right!r} beside {left!r} in {path}. "
            "Report them separately."
        )


def _loss_text(loss: LossConfig) -> str:
    return " ".join([loss.name, *(f"{key}={value}" for key, value in loss.options.items())])


def _name(text: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in text.lower())
