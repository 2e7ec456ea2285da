"""What is said of runs before they are made: how many, how long, which of them fail, and what the seeds can show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from maxsup.analysis import ANALYSES, RunOutputs
from maxsup.core.config import Recipe, differing_keys
from maxsup.core.errors import DataError
from maxsup.core.recipes import load_recipe
from maxsup.data import DataBundle, Split
from maxsup.studies.execution.launch import Launcher
from maxsup.studies.execution.launch_display import duration
from maxsup.studies.execution.launch_local import num_processors
from maxsup.studies.execution.study_folder import StudyFolder
from maxsup.studies.statistics.power import MIN_SEEDS, POWER, detectable_difference
from maxsup.training.builders import build_data
from maxsup.training.preflight.defaults import fitted
from maxsup.training.preflight.estimate import estimated_seconds, rehearsed_run, try_step

_NUM_CLASSES, _PER_CLASS = 10, 8

Names = dict[str, list[str]]


@dataclass(frozen=True)
class Preview:
    """What a few steps of each setting tell.

    ``seconds`` are those of training all runs that can be made here, one after another; None where none can.
    """

    seconds: float | None
    missing: Names  # runs by the sentence about their data, where that cannot be used
    failing: Names  # runs that fail at their first step, by the sentence about it
    analyses: dict[str, str]  # what goes wrong with analyses, by their name


def preview(
    recipes: Mapping[str, Recipe],
    *,
    analyses: Mapping[str, Mapping[str, Any]] | None = None,
    is_elsewhere: bool = False,
) -> Preview:
    """Make the first step of every loss, and every analysis, whose options are given by name, of a few images.

    Runs that are made elsewhere may have data there which this machine lacks.

    Raises:
        Exception: What the first step raised, where no run can be made: there is nothing to begin with.
    """
    seconds, missing, failing, errors = 0.0, Names(), Names(), list[Exception]()
    problems: dict[str, str] | None = None
    for losses in _settings(recipes):
        bundle, each = None, None
        for names in losses:
            recipe = recipes[names[0]]
            try:
                bundle = bundle or build_data(recipe)
                if each is None:
                    each = estimated_seconds(recipe, bundle)
                else:
                    try_step(recipe, bundle)
            except DataError as error:
                errors.append(error)
                missing.setdefault(str(error), []).extend(names)
            except Exception as error:  # a run that cannot even begin is not the end of the others
                errors.append(error)
                failing.setdefault(str(error) or type(error).__name__, []).extend(names)
            else:
                seconds += len(names) * each
                if problems is None:
                    problems = _failing_analyses(recipe, bundle, analyses or {})
    num_refused = sum(len(names) for found in (missing, failing) for names in found.values())
    if recipes and num_refused == len(recipes) and not (is_elsewhere and missing):
        raise errors[0]
    return Preview(None if num_refused == len(recipes) else seconds, missing, failing, problems or {})


def settled_overrides(
    recipe: str, overrides: Sequence[str], data_root: Path | None = None
) -> tuple[list[str], list[str]]:
    """Overrides that also say what the recipe leaves to its data, and sentences about what was chosen.

    All runs of a comparison then have it from their recipe, and a later one with the same words finds the same.
    """
    place = [f"data.root={data_root.resolve()}"] if data_root else []
    base = load_recipe(recipe, [*overrides, *place])
    settled, sentences = fitted(base)
    chosen = {key: new for key, (_, new) in differing_keys(base, settled).items()}
    return [*overrides, *(f"{key}={json.dumps(value)}" for key, value in chosen.items())], sentences


def runs_text(folder: StudyFolder, launcher: Launcher) -> str:
    """How many runs there are, how many are done, and how long training the others may take.

    Raises:
        Exception: Where no open run can be made, what its first step raised.
    """
    open_runs = folder.open_runs()
    num_seeds = len(folder.study.scales[folder.scale].seeds)
    text = f"{len(folder.runs)} run{_s(len(folder.runs))} ({num_seeds} seed{_s(num_seeds)})"
    if len(open_runs) < len(folder.runs):
        text += f", {len(folder.runs) - len(open_runs)} of them done"
    if not open_runs:
        return "\n".join([text, *folder.missing])
    # One that fine-tunes by a recipe of its own is a training, not a few images.
    tried = [plan for plan in folder.analyses if plan.data is None and "recipe" not in plan.options]
    found = preview(
        {name: run.recipe for name, run in open_runs.items()},
        analyses={plan.what: plan.options for plan in tried},
        is_elsewhere=launcher.is_elsewhere,
    )
    num_workers = min(launcher.num_workers or num_processors(), len(open_runs))
    if found.seconds is None:
        text += "; how long is unknown: their data is not here"
    else:
        time = duration(found.seconds / num_workers)
        text += f"; about {time} of training with {num_workers} at a time, analyses not counted"
    for sentence, names in found.missing.items():
        text += f"\n{len(names)} of them cannot be trained here ({', '.join(names)}): {sentence}"
    for sentence, names in found.failing.items():
        text += f"\n{len(names)} of them will fail ({', '.join(names)}): {sentence}"
    for analysis, sentence in found.analyses.items():
        text += f"\nanalysis {analysis} failed when it was tried on a few images, and may fail again: {sentence}"
    return "\n".join([text, *folder.missing])


def power_text(folder: StudyFolder) -> str:
    """What so many seeds can show."""
    num_seeds = len(folder.study.scales[folder.scale].seeds)
    if num_seeds < MIN_SEEDS:
        fix = f" Use {MIN_SEEDS} seeds or more." if folder.study.name == "compare" else ""
        return (
            f"{num_seeds} seed{_s(num_seeds)} cannot show a difference of any size: the smallest p that can come of "
            f"it is above 0.05.{fix}"
        )
    size = detectable_difference(1.0, num_seeds)
    return (
        f"{num_seeds} seeds find a true difference of {size:.2f} standard deviations of the paired differences in "
        f"{POWER:.0%} of cases; for instance {size * 0.5:.2f} points of accuracy where these differ by 0.5 points "
        "from seed to seed"
    )


def total_text(folders: Sequence[StudyFolder], num_studies: int, launcher: Launcher) -> str:
    """One sentence on all runs of several studies that are open, each counted once however many share it."""
    runs = {folder.folder(name): run.recipe for folder in folders for name, run in folder.open_runs().items()}
    seen = preview({str(path): recipe for path, recipe in runs.items()}, is_elsewhere=True)
    num_workers = launcher.num_workers or num_processors()
    num_missing = sum(map(len, seen.missing.values()))
    text = f"{num_studies} studies need {len(runs)} more runs"
    if num_missing:
        text += f", of which {num_missing} lack their data"
    if seen.seconds:
        text += f"; about {duration(seen.seconds / num_workers)} of training with {num_workers} at a time"
    return f"{text}, analyses and runs with tuned strengths not counted"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _settings(recipes: Mapping[str, Recipe]) -> list[list[list[str]]]:
    """Names of runs that differ in the seed alone, in lists of those that differ in the loss besides."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, recipe in recipes.items():
        losses = found.setdefault(recipe.model_dump_json(exclude={"loss", "seed"}), {})
        losses.setdefault(recipe.loss.model_dump_json(), []).append(name)
    return [list(losses.values()) for losses in found.values()]


def _failing_analyses(recipe: Recipe, bundle: DataBundle, analyses: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Sentences of analyses that raise after one step on a few images."""
    if not analyses or bundle.is_dense:
        return {}
    few = replace(bundle, train=_few(bundle.train), val=_few(bundle.val), test=_few(bundle.test))
    problems = {}
    with rehearsed_run(recipe, few) as (run, model):
        outputs = RunOutputs(run.path, loaded=(few, model))
        for name, options in analyses.items():
            analysis = ANALYSES[name]
            if analysis.trains:
                continue
            try:
                if analysis.obstacle(outputs, split="test", **options) is None:
                    shared = {**options, **analysis.agree([outputs], split="test", **options)}
                    analysis.compute(outputs, split="test", **shared)
            except Exception as error:
                problems[name] = f"{type(error).__name__}: {error}"
    return problems


def _few(split: Split) -> Split:
    """Some images of some classes."""
    labels: Sequence[int] = split.labels.tolist()
    kept, counts = [], dict[int, int]()
    for index, label in enumerate(labels):
        if len(counts) < _NUM_CLASSES or label in counts:
            counts[label] = counts.get(label, 0) + 1
            if counts[label] <= _PER_CLASS:
                kept.append(index)
    return split.subset(split.labels.new_tensor(kept))
