"""What is said before anything is trained: how many runs, how long, which of them fail, and what the seeds can show."""

from __future__ import annotations

from collections.abc import Sequence

from maxsup.studies.execution.launch import Launcher
from maxsup.studies.execution.launch_display import duration
from maxsup.studies.execution.launch_local import num_processors
from maxsup.studies.execution.study_folder import StudyFolder
from maxsup.studies.forecast.runs import preview
from maxsup.studies.statistics.power import MIN_SEEDS, POWER, detectable_difference


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
