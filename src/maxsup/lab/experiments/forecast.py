"""What is known about runs before they are made: how many, how long, which will fail, and what the seeds can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from maxsup.core.errors import DataError, counted, out_of_memory
from maxsup.lab.analysis import ANALYSES, RunOutputs
from maxsup.lab.analysis.registry import computed
from maxsup.lab.core.config import Recipe
from maxsup.lab.data import DataBundle, Split
from maxsup.lab.experiments.execution.launch import Launcher
from maxsup.lab.experiments.execution.launch_display import duration
from maxsup.lab.experiments.execution.launch_local import num_processors
from maxsup.lab.experiments.execution.study_folder import StudyFolder
from maxsup.lab.experiments.statistics import MIN_SEEDS, POWER, detectable_difference
from maxsup.lab.training.builders import build_data
from maxsup.lab.training.preflight.estimate import estimate_seconds, rehearse_run, try_step
from maxsup.lab.training.preflight.memory import peak_text, reset_peak

_NUM_CLASSES, _PER_CLASS = 10, 8

Names = dict[str, list[str]]


@dataclass(frozen=True)
class Preview:
    """What a few steps of each setting show."""

    seconds: float | None  # of training all runs that can be made here, one after another; None if none can
    missing: Names  # runs whose data cannot be used, by the sentence about it
    failing: Names  # runs that fail at their first step, by the sentence about it
    analyses: dict[str, str]  # what goes wrong with analyses, by their name
    memory: str = ""  # of a GPU that the largest batch needs


def preview(
    recipes: Mapping[str, Recipe],
    *,
    analyses: Mapping[str, Mapping[str, Any]] | None = None,
    is_elsewhere: bool = False,
    num_ranks: int = 1,
) -> Preview:
    """Make the first step of every loss, and every analysis (options by name) of a few images.

    The batch is that of training, or one process's share of it where a run has several. Runs that are made elsewhere
    may have data there that this machine lacks.

    Raises:
        Exception: What the first step raised, if no run can be made.
    """
    seconds, missing, failing, errors = 0.0, Names(), Names(), list[Exception]()
    problems: dict[str, str] | None = None
    reset_peak()
    for losses in _settings(recipes):
        bundle, each = None, None
        for names in losses:
            recipe = recipes[names[0]]
            try:
                bundle = bundle or build_data(recipe)
                if each is None:
                    each = estimate_seconds(recipe, bundle, num_ranks)
                else:
                    try_step(recipe, bundle, num_ranks)
            except Exception as caught:  # a run that cannot even begin does not stop the others
                error = out_of_memory(caught) or caught
                errors.append(error)
                refused = missing if isinstance(error, DataError) else failing
                refused.setdefault(str(error) or type(error).__name__, []).extend(names)
            else:
                seconds += len(names) * each
                if problems is None:
                    problems = _failing_analyses(recipe, bundle, analyses or {})
    num_refused = sum(len(names) for found in (missing, failing) for names in found.values())
    if recipes and num_refused == len(recipes) and not (is_elsewhere and missing):
        raise errors[0]
    memory = peak_text()
    reset_peak()  # the memory of this process is for the workers
    return Preview(None if num_refused == len(recipes) else seconds, missing, failing, problems or {}, memory)


def runs_text(folder: StudyFolder, launcher: Launcher) -> str:
    """Return how many runs there are, how many are done, and how long training the others may take.

    Raises:
        Exception: What the first step raised, if no missing run can be made.
    """
    open_runs, num_seeds = folder.open_runs(), len(folder.design.seeds)
    text = f"{counted(len(folder.runs), 'run')} ({counted(num_seeds, 'seed')})"
    if len(open_runs) < len(folder.runs):
        text += f", {len(folder.runs) - len(open_runs)} of them done"
    if not open_runs:
        return "\n".join([text, *folder.design.missing])
    # An analysis with a recipe of its own is a training, which a few images cannot try.
    tried = [plan for plan in folder.design.analyses if plan.data is None and "recipe" not in plan.options]
    found = preview(
        {name: run.recipe for name, run in open_runs.items()},
        analyses={plan.what: plan.options for plan in tried},
        is_elsewhere=launcher.is_elsewhere,
        num_ranks=launcher.gpus_per_run,
    )
    num_workers = min(launcher.num_workers or num_processors(), len(open_runs))
    num_lanes = launcher.num_at_full_speed(len(open_runs)) or num_workers
    if found.seconds is None:
        text += "; how long is unknown: their data is not here"
    else:
        time = duration(found.seconds / num_lanes)
        text += f"; about {time} of training with {num_workers} at a time, analyses not counted"
    if found.memory:
        text += f"\nthe largest batch takes {found.memory}"
    for what, refused in (("cannot be trained here", found.missing), ("will fail", found.failing)):
        for sentence, names in refused.items():
            text += f"\n{len(names)} of them {what} ({', '.join(names)}): {sentence}"
    for analysis, sentence in found.analyses.items():
        text += f"\nanalysis {analysis} failed when it was tried on a few images, and may fail again: {sentence}"
    return "\n".join([text, *folder.design.missing])


def power_text(folder: StudyFolder) -> str:
    """Return what so many seeds can show."""
    num_seeds = len(folder.design.seeds)
    if num_seeds < MIN_SEEDS:
        fix = f" Use {MIN_SEEDS} seeds or more." if folder.design.kind == "comparison" else ""
        return (
            f"{counted(num_seeds, 'seed')} cannot show a difference of any size: the smallest possible p is above "
            f"0.05.{fix}"
        )
    size = detectable_difference(1.0, num_seeds)
    return (
        f"{num_seeds} seeds find a true difference of {size:.2f} standard deviations of the paired differences in "
        f"{POWER:.0%} of cases; for instance {size * 0.5:.2f} points of accuracy where these differ by 0.5 points "
        "from seed to seed"
    )


def total_text(folders: Sequence[StudyFolder], num_studies: int, launcher: Launcher) -> str:
    """Return one sentence on all missing runs of several studies; a run that studies share counts once."""
    runs = {str(folder.folder(name)): run.recipe for folder in folders for name, run in folder.open_runs().items()}
    seen = preview(runs, is_elsewhere=True)
    num_workers = launcher.num_workers or num_processors()
    text = f"{num_studies} studies need {len(runs)} more runs"
    if seen.missing:
        text += f", of which {sum(map(len, seen.missing.values()))} lack their data"
    if seen.seconds:
        num_lanes = launcher.num_at_full_speed(num_workers) or num_workers
        text += f"; about {duration(seen.seconds / num_lanes)} of training with {num_workers} at a time"
    return f"{text}, analyses and runs with tuned strengths not counted"


def _settings(recipes: Mapping[str, Recipe]) -> list[list[list[str]]]:
    """Return names of runs, grouped by everything but loss and seed, then by loss."""
    found: dict[str, Names] = {}
    for name, recipe in recipes.items():
        losses = found.setdefault(recipe.model_dump_json(exclude={"loss", "seed"}), {})
        losses.setdefault(recipe.loss.model_dump_json(), []).append(name)
    return [list(losses.values()) for losses in found.values()]


def _failing_analyses(recipe: Recipe, bundle: DataBundle, analyses: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Errors of analyses that raise after one step on a few images."""
    kinds = {name: ANALYSES[name] for name in analyses}
    able = [name for name, kind in kinds.items() if not kind.trains and bundle.task in kind.tasks]
    if not able:
        return {}
    few = replace(bundle, train=_few(bundle.train), val=_few(bundle.val), test=_few(bundle.test))
    problems = {}
    with rehearse_run(recipe, few) as (run, model):
        outputs = RunOutputs(run.path, loaded=(few, model))
        for name in able:
            analysis, options = kinds[name], analyses[name]
            try:
                if analysis.obstacle(outputs, split="test", **options) is None:
                    shared = {**options, **analysis.agree([outputs], split="test", **options)}
                    computed(name, outputs, split="test", **shared)
            except Exception as error:
                problems[name] = f"{type(error).__name__}: {error}"
    return problems


def _few(split: Split) -> Split:
    """Some images of some classes."""
    kept, counts = [], dict[int, int]()
    for index, label in enumerate(split.labels.tolist()):
        if len(counts) < _NUM_CLASSES or label in counts:
            counts[label] = counts.get(label, 0) + 1
            if counts[label] <= _PER_CLASS:
                kept.append(index)
    return split.subset(split.labels.new_tensor(kept))
