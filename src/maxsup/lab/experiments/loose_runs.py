"""Run directories that no study made, as if one had: the runs of one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from maxsup.core.errors import MaxsupError, counted, hint
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.experiments.comparison import measured, one_table
from maxsup.lab.experiments.entries import Cell, Entry, Scale
from maxsup.lab.experiments.execution.study_folder import StudyFolder, differing_settings
from maxsup.lab.experiments.expansion import PlannedRun


def folder_of_runs(paths: Sequence[Path], output: Path, *, baseline: str | None = None) -> StudyFolder:
    """Runs that differ in loss and seed alone, as the folder of a comparison whose summary and report go to ``output``.

    The default ``baseline`` is ``ls`` or ``ce`` if one of them is there, else the first loss.
    """
    recipes = {path.resolve(): run_recipe(RunDir(path).require()) for path in paths}
    first = next(iter(recipes.values()))
    rows: dict[str, Entry] = {}
    arms: dict[Path, str] = {}
    for path, recipe in recipes.items():
        for key, (left, right) in differing_settings(first, recipe).items():
            raise MaxsupError(
                f"runs of one table must differ in loss and seed alone; got {key}={right!r} beside {left!r} in {path}. "
                "Report them separately."
            )
        loss = recipe.loss
        text = " ".join([loss.name, *(f"{key}={value}" for key, value in loss.options.items())])
        if text not in rows:
            is_new = loss.name not in {row.name for row in rows.values()}
            name = loss.name if is_new else re.sub(r"\W", "_", text.lower())
            rows[text] = Entry(name=name, title=text, loss=loss)
        arms[path] = rows[text].name
    names = [row.name for row in rows.values()]
    chosen = baseline or next((name for name in ("ls", "ce") if name in names), names[0])
    if chosen not in names:
        raise ValueError(f"baseline must be a loss of these runs; got {chosen!r}. {hint(chosen, names)}")
    seeds = tuple(sorted({recipe.seed for recipe in recipes.values()}))
    metrics = {key: metric for key, metric in measured(first)[0].items() if metric.source == "test"}
    study = one_table(
        Scale(recipe=str(RunDir(next(iter(recipes))).config), seeds=seeds, note="runs as they were trained"),
        rows.values(),
        metrics,
        name="runs",
        title=f"{counted(len(recipes), 'run')} on {first.data.name}",
        question=f"How do {', '.join(names)} compare on {first.data.name}?",
        baseline=chosen,
    )
    planned = {
        # The name is an absolute path, which is the folder of the run.
        str(path): PlannedRun(recipe, arms[path], recipe.seed, tuple(Cell(arms[path], column) for column in metrics))
        for path, recipe in recipes.items()
    }
    return StudyFolder(output, study, "full", planned, ())
