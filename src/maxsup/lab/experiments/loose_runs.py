"""Run directories that no comparison made: an experiment that is trained already, and its table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from maxsup.core.errors import MaxsupError, counted, hint
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.experiments.comparison import Contender, one_experiment, usual_numbers
from maxsup.lab.experiments.design import PlannedRun
from maxsup.lab.experiments.execution.study_folder import StudyFolder, differing_settings
from maxsup.lab.experiments.experiment import Setting
from maxsup.lab.experiments.table import Cell


def folder_of_runs(paths: Sequence[Path], output: Path, *, baseline: str | None = None) -> StudyFolder:
    """Runs that differ in loss and seed alone, as the folder of a comparison whose summary and report go to ``output``.

    The default ``baseline`` is ``ls`` or ``ce`` if one of them is there, else the first loss.
    """
    recipes = {path.resolve(): run_recipe(RunDir(path).require()) for path in paths}
    first = next(iter(recipes.values()))
    arms: dict[str, Contender] = {}
    for path, recipe in recipes.items():
        for key, (left, right) in differing_settings(first, recipe).items():
            raise MaxsupError(
                f"runs of one table must differ in loss and seed alone; got {key}={right!r} beside {left!r} in {path}. "
                "Report them separately.",
                code="runs-differ",
            )
        loss, label = recipe.loss, recipe.loss.label
        if label not in arms:
            is_new = loss.name not in {arm.name for arm in arms.values()}
            arms[label] = Contender(loss.name if is_new else re.sub(r"\W", "_", label.lower()), label, loss)
    names = [arm.name for arm in arms.values()]
    chosen = baseline or next((name for name in ("ls", "ce") if name in names), names[0])
    if chosen not in names:
        raise ValueError(f"baseline must be a loss of these runs; got {chosen!r}. {hint(chosen, names)}")
    metrics = {key: metric for key, metric in usual_numbers(first)[0].items() if metric.source == "test"}
    design = one_experiment(
        Setting(recipe=str(RunDir(next(iter(recipes))).config)),
        list(arms.values()),
        sorted({recipe.seed for recipe in recipes.values()}),
        metrics,
        chosen,
        name="runs",
        kind="runs",
        note="runs as they were trained",
        title=f"{counted(len(recipes), 'run')} on {first.data.name}",
        question=f"How do {', '.join(names)} compare on {first.data.name}?",
    )
    runs, folders = dict[str, PlannedRun](), dict[str, Path]()
    for number, (path, recipe) in enumerate(recipes.items(), start=1):
        arm = arms[recipe.loss.label].name
        name = f"{number}-{arm}-s{recipe.seed}"
        runs[name] = PlannedRun(recipe, arm, recipe.seed, tuple(Cell(arm, column) for column in metrics))
        folders[name] = path
    return StudyFolder(output, design, runs, folders)
