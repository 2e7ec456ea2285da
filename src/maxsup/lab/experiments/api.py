"""Comparisons and studies from Python, which ``maxsup compare`` and ``maxsup study run`` call too.

An :class:`~maxsup.lab.experiments.order.Order` says what is to be done; :func:`carry_out` tunes, announces, trains,
analyses and summarises it. Workers are processes that import this package and nothing of the caller's: a script needs
no ``if __name__ == "__main__"``, and a notebook works. What no worker can import, such as a lambda, is trained in this
process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from maxsup.core.errors import DataError, counted
from maxsup.lab.data import PythonData
from maxsup.lab.experiments.comparison import LossChoice
from maxsup.lab.experiments.execution.launch import JobState, Launcher, create_launcher
from maxsup.lab.experiments.execution.launch_display import View, create_view
from maxsup.lab.experiments.execution.launch_local import HereLauncher
from maxsup.lab.experiments.execution.mirror import copy_all, fetch_all, mirror_at
from maxsup.lab.experiments.execution.study_folder import StudyFolder, execute, write_folder
from maxsup.lab.experiments.forecast import power_text, runs_text, total_text
from maxsup.lab.experiments.imports import parts_only_here
from maxsup.lab.experiments.order import Order, Overrides, comparison_order, study_order
from maxsup.lab.experiments.result import FailedRunsError, StudyResult
from maxsup.lab.experiments.study_format import Study
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.experiments.tuning import choose_strengths, strength_of
from maxsup.lab.models import Factory


def compare(
    data: str | PythonData = "synthetic",
    model: str | Factory | None = None,
    losses: Sequence[LossChoice] | None = None,
    *,
    seeds: int | Sequence[int] = 6,
    baseline: str | None = None,
    recipe: str | Path | None = None,
    overrides: Overrides = (),
    tune: str | None = None,
    output: str | Path = "comparison",
    launcher: str | Launcher = "local",
    workers: int | None = None,
    gpus_per_run: int | None = None,
    mirror: str | None = None,
    data_root: str | Path | None = None,
    is_quiet: bool = False,
) -> StudyResult:
    """Compare losses over paired seeds; the same call continues where it was stopped.

    Args:
        data: A name from ``maxsup ls data``, ``folder:PATH`` or ``arrays:PATH``; or data as
            :func:`maxsup.lab.data.data_name` takes it, which is kept in ``output``.
        model: A name from ``maxsup ls models`` or any of timm's; or a function that makes a network, as
            :func:`maxsup.lab.models.model_name` takes it. By default the recipe's.
        losses: Names, ``name:strength``, mappings with ``name`` and options, or losses. By default those of the paper's
            main table that the data can be trained with.
        seeds: How many paired seeds, counted from 0, or which.
        baseline: The loss that others are compared with, as in ``losses``; label smoothing by default.
        recipe: What all runs share, a name or a ``.yaml`` file; chosen by the data.
        overrides: ``key.sub=value`` each, or a mapping of such keys, for every run.
        tune: ``"alpha"`` gives every loss the same number of runs to choose its strength on validation images.
        output: Gets the runs, ``summary.json``, and ``report.html`` once it is asked for.
        launcher: ``local``, ``ray``, ``slurm``, or a launcher with options of its own.
        workers: Runs at a time, by default as many as there are GPUs, or else processors; a launcher object has its
            ``num_workers``.
        gpus_per_run: Train each run in so many processes with a GPU each; by default in one.
        mirror: A URL such as ``s3://bucket/folder`` that runs are copied to at each checkpoint, and fetched from where
            they are missing.
        data_root: Where data sets are.
        is_quiet: Show nothing.

    Returns:
        Table, differences and report.

    Raises:
        MaxsupError: If ``output`` holds runs with other settings, or no run can be made.
        Interruption: After Ctrl-C; what is trained is saved.
    """
    chosen = _create_launcher(launcher, workers, gpus_per_run)
    order = comparison_order(
        data, model, losses, seeds, baseline, recipe, overrides, tune, output, data_root, chosen.is_elsewhere
    )
    with mirror_at(mirror):
        return carry_out(order, chosen, is_quiet=is_quiet)


def run_study(
    name: str | Study,
    scale: str = "tiny",
    *,
    output: str | Path | None = None,
    overrides: Overrides = (),
    tune: bool = False,
    launcher: str | Launcher = "local",
    workers: int | None = None,
    gpus_per_run: int | None = None,
    mirror: str | None = None,
    data_root: str | Path | None = None,
    is_quiet: bool = False,
) -> StudyResult:
    """Run a table or a figure of the paper; the same call continues where it was stopped.

    ``name`` is one from ``maxsup study ls``, a label of the paper, a ``.yaml`` file, or a study; ``scale`` is ``tiny``,
    ``small`` or ``full``, and the folder ``studies/NAME-SCALE`` by default. At the small scale ``tune`` adds rows whose
    strength is chosen on validation images. All other arguments are those of :func:`compare`.
    """
    chosen = _create_launcher(launcher, workers, gpus_per_run)
    order = study_order(name, scale, output=output, overrides=overrides, tune=tune, data_root=data_root)
    with mirror_at(mirror):
        return carry_out(order, chosen, is_quiet=is_quiet)


def carry_out(order: Order, launcher: Launcher, *, is_quiet: bool = False) -> StudyResult:
    """Tune if asked to, announce what is planned, train and analyse what is missing, and summarise."""
    launcher = _launcher_for(order, launcher, is_quiet)
    for note in order.notes:
        _say(note, is_quiet)
    _fetch(order, is_quiet)
    folder = _tune(order, launcher, is_quiet)
    _say(runs_text(folder, launcher), is_quiet)
    _say(power_text(folder), is_quiet)
    return _finish(folder, launcher, is_quiet)


def carry_out_all(orders: Sequence[Order], launcher: Launcher) -> Iterator[StudyResult]:
    """Announce the cost of all studies together, then run one after another; one that lacks its data is skipped."""
    _say(total_text([folder for order in orders for folder in order.folders()], len(orders), launcher))
    for order in orders:
        try:
            _fetch(order)
            folder = _tune(order, launcher)
            _say(f"{order.design.name}: {runs_text(folder, launcher)}")
        except DataError as error:
            _say(f"{order.design.name} is skipped: {error}")
            continue
        yield _finish(folder, launcher)


def _fetch(order: Order, is_quiet: bool = False) -> None:
    """Fetch what a mirror has of an order."""
    if number := fetch_all(job.folder for folder in order.folders() for job in folder.jobs()):
        _say(f"{counted(number, 'run')} fetched from the mirror", is_quiet)


def _say(sentence: str, is_quiet: bool = False) -> None:
    if not is_quiet:
        print(sentence, file=sys.stderr, flush=True)


def _create_launcher(launcher: str | Launcher, workers: int | None, gpus_per_run: int | None) -> Launcher:
    if not isinstance(launcher, Launcher):
        return create_launcher(launcher, num_workers=workers, gpus_per_run=gpus_per_run)
    for name, option, value in (("workers", "num_workers", workers), ("gpus_per_run", "gpus_per_run", gpus_per_run)):
        if value is not None:
            raise ValueError(
                f"{name} must be left out where launcher is an object; got {value}. Create the launcher with "
                f"{option}={value}."
            )
    return launcher


def _launcher_for(order: Order, launcher: Launcher, is_quiet: bool) -> Launcher:
    """Return the launcher, or one in this process if workers cannot import what is to be trained."""
    names = sorted({name for run in order.folder.runs.values() for name in parts_only_here(run.recipe)})
    if not names:
        return launcher
    what = ", ".join(names)
    if launcher.is_elsewhere:
        raise ValueError(
            f"losses, models and data sets must be in a module that other machines can import; got {what}, which only "
            "this process knows. Move it into a file and import it, or use the launcher 'local'."
        )
    if launcher.gpus_per_run > 1:
        raise ValueError(
            f"gpus_per_run must be 1 for what only this process knows, {what}; got {launcher.gpus_per_run}. Move it "
            "into a module and import it, so that other processes can."
        )
    _say(f"only this process knows {what}, so it trains one run after another; workers import from modules", is_quiet)
    return HereLauncher()


def _tune(order: Order, launcher: Launcher, is_quiet: bool = False) -> StudyFolder:
    """Run the trials that choose strengths, if there are any, and return the folder of what is then compared."""
    if (trials := order.trials) is None:
        return order.folder
    _say(f"tuning on seeds of its own, judged on validation images: {runs_text(trials, launcher)}", is_quiet)
    if failed := _run_jobs(trials, launcher, is_quiet):
        raise FailedRunsError(failed)
    strengths = choose_strengths(trials)
    for loss, options in strengths.items():
        _say(f"  {loss}: {strength_of(loss)}={options[strength_of(loss)]:g}", is_quiet)
    return order.folder_with(strengths)


def _run_jobs(folder: StudyFolder, launcher: Launcher, is_quiet: bool) -> list[JobState]:
    """Write down what is planned, launch what is missing and show progress; gives the jobs that failed."""
    write_folder(folder)
    launcher.say = partial(_say, is_quiet=is_quiet)
    with View() if is_quiet else create_view() as view:
        states = execute(folder, launcher, view.update)
    done = [state.job.name for state in states if state.status == "done" and state.job.name in folder.runs]
    copy_all(map(folder.folder, done))
    return [state for state in states if state.status != "done"]


def _finish(folder: StudyFolder, launcher: Launcher, is_quiet: bool = False) -> StudyResult:
    failed = _run_jobs(folder, launcher, is_quiet)
    return StudyResult(folder, summarize(folder), failed)
