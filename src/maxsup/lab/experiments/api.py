"""Comparisons and studies from Python, which ``maxsup compare`` and ``maxsup study run`` call too.

An :class:`Order` says what is to be done; :func:`carry_out` tunes, announces, trains, analyses and summarises it.
Workers are processes that import this package and nothing of the caller's: a script needs no
``if __name__ == "__main__"``, and a notebook works. What no worker can import, such as a lambda, is trained in this
process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError
from maxsup.lab.core.recipes import override_words
from maxsup.lab.data import PythonData, data_name
from maxsup.lab.experiments.comparison import LossChoice, comparison, recipe_for
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.execution.launch import JobState, Launcher, create_launcher
from maxsup.lab.experiments.execution.launch_display import View, create_view
from maxsup.lab.experiments.execution.launch_local import HereLauncher
from maxsup.lab.experiments.execution.study_folder import StudyFolder, execute, plan_folder, write_folder
from maxsup.lab.experiments.forecast.runs import power_text, runs_text, settled_overrides, total_text
from maxsup.lab.experiments.imports import kept_here
from maxsup.lab.experiments.local_data import obstacle_in
from maxsup.lab.experiments.result import FailedRunsError, StudyResult
from maxsup.lab.experiments.study_files import load_study
from maxsup.lab.experiments.study_format import SCALES, ScaleName, Study
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.experiments.tuning import Strengths, chosen_strengths, strength_of, trials_of, with_tuned_rows
from maxsup.lab.models import Factory, model_name

Overrides = Iterable[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Order:
    """A design to carry out, and how its strengths are tuned first, if they are."""

    design: Design
    output: Path
    data_root: Path | None = None
    notes: tuple[str, ...] = ()  # sentences about what the data decided
    tuned: Callable[[Strengths], Design] | None = None  # the design with the strengths that trials chose
    tuned_rows: Collection[str] | None = None  # None: all that have a strength
    trials_output: Path = Path()

    @cached_property
    def folder(self) -> StudyFolder:
        """The design laid out before tuning; nothing is written."""
        return plan_folder(self.design, self.output, data_root=self.data_root)

    @cached_property
    def trials(self) -> StudyFolder | None:
        """The runs that choose strengths; None if nothing is tuned."""
        if self.tuned is None:
            return None
        return plan_folder(trials_of(self.design, self.tuned_rows), self.trials_output, data_root=self.data_root)

    def folders(self) -> list[StudyFolder]:
        """Everything that is planned before tuning."""
        return [folder for folder in (self.trials, self.folder) if folder is not None]

    def folder_with(self, strengths: Strengths) -> StudyFolder:
        """The design laid out with the strengths that trials chose."""
        design = self.design if self.tuned is None else self.tuned(strengths)
        return plan_folder(design, self.output, data_root=self.data_root)


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
        workers: Runs at a time, by default as many as there are processors; a launcher object has its ``num_workers``.
        data_root: Where data sets are.
        is_quiet: Show nothing.

    Returns:
        Table, differences and report.

    Raises:
        MaxsupError: If ``output`` holds runs with other settings, or no run can be made.
        Interruption: After Ctrl-C; what is trained is saved.
    """
    chosen = _chosen_launcher(launcher, workers)
    order = comparison_order(
        data, model, losses, seeds, baseline, recipe, overrides, tune, output, data_root, chosen.is_elsewhere
    )
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
    data_root: str | Path | None = None,
    is_quiet: bool = False,
) -> StudyResult:
    """Run a table or a figure of the paper; the same call continues where it was stopped.

    ``name`` is one from ``maxsup study ls``, a label of the paper, a ``.yaml`` file, or a study; ``scale`` is ``tiny``,
    ``small`` or ``full``, and the folder ``studies/NAME-SCALE`` by default. At the small scale ``tune`` adds rows whose
    strength is chosen on validation images. All other arguments are those of :func:`compare`.
    """
    chosen = _chosen_launcher(launcher, workers)
    order = study_order(name, scale, output=output, overrides=overrides, tune=tune, data_root=data_root)
    return carry_out(order, chosen, is_quiet=is_quiet)


def comparison_order(
    data: str | PythonData = "synthetic",
    model: str | Factory | None = None,
    losses: Sequence[LossChoice] | None = None,
    seeds: int | Sequence[int] = 6,
    baseline: str | None = None,
    recipe: str | Path | None = None,
    overrides: Overrides = (),
    tune: str | None = None,
    output: str | Path = "comparison",
    data_root: str | Path | None = None,
    is_elsewhere: bool = False,
) -> Order:
    """What :func:`compare` will do; ``is_elsewhere`` says that runs are made on machines that may have other data."""
    if tune is not None:
        check_choice("tune", tune, ("alpha",))
    output, root = Path(output), None if data_root is None else Path(data_root)
    name = data_name(data, output)
    base = recipe_for(name) if recipe is None else str(recipe)
    words = [*([f"model.name={model_name(model)}"] if model is not None else []), *override_words(overrides)]
    if recipe is None or name != "synthetic":
        words.insert(0, f"data.name={name}")
    notes: Sequence[str] = ()
    try:
        words, notes = settled_overrides(base, words, root)
    except DataError:
        if not is_elsewhere:
            raise  # other machines may have the data; there each run settles it

    def design(strengths: Strengths | None = None) -> Design:
        return comparison(base, losses, seeds=seeds, baseline=baseline, overrides=words, strengths=strengths)

    tuned, trials = None if tune is None else design, output / "tuning"
    return Order(design(), output, root, tuple(notes), tuned, trials_output=trials)


def study_order(
    name: str | Study,
    scale: str = "tiny",
    *,
    output: str | Path | None = None,
    overrides: Overrides = (),
    tune: bool = False,
    data_root: str | Path | None = None,
) -> Order:
    """What :func:`run_study` will do; trials are beside the study because studies share them."""
    check_choice("scale", scale, SCALES)
    size = cast("ScaleName", scale)
    study = name if isinstance(name, Study) else load_study(name)
    path = Path("studies") / f"{study.name}-{scale}" if output is None else Path(output)
    rows, root = study.scale(size).tuned if tune else (), None if data_root is None else Path(data_root)
    words = override_words(overrides)

    def design(strengths: Strengths | None = None) -> Design:
        found = study if strengths is None else with_tuned_rows(study, size, strengths)
        return found.at(size, obstacle=obstacle_in(root), overrides=words)

    trials = path.with_name(f"{path.name}-tuning")
    return Order(design(), path, root, tuned=design if rows else None, tuned_rows=rows, trials_output=trials)


def carry_out(order: Order, launcher: Launcher, *, is_quiet: bool = False) -> StudyResult:
    """Tune if asked to, announce what is planned, train and analyse what is missing, and summarise."""
    launcher = _able_launcher(order, launcher, is_quiet)
    for note in order.notes:
        _say(note, is_quiet)
    folder = _tuned_folder(order, launcher, is_quiet)
    _say(runs_text(folder, launcher), is_quiet)
    _say(power_text(folder), is_quiet)
    return _result(folder, launcher, is_quiet)


def carry_out_all(orders: Sequence[Order], launcher: Launcher) -> Iterator[StudyResult]:
    """Announce the cost of all studies together, then run one after another; one that lacks its data is skipped."""
    _say(total_text([folder for order in orders for folder in order.folders()], len(orders), launcher))
    for order in orders:
        try:
            folder = _tuned_folder(order, launcher)
            _say(f"{order.design.name}: {runs_text(folder, launcher)}")
        except DataError as error:
            _say(f"{order.design.name} is skipped: {error}")
            continue
        yield _result(folder, launcher)


def _say(sentence: str, is_quiet: bool = False) -> None:
    if not is_quiet:
        print(sentence, file=sys.stderr, flush=True)


def _chosen_launcher(launcher: str | Launcher, workers: int | None) -> Launcher:
    if not isinstance(launcher, Launcher):
        return create_launcher(launcher, num_workers=workers)
    if workers is not None:
        raise ValueError(
            f"workers must be left out where launcher is an object; got {workers}. Create the launcher with "
            f"num_workers={workers}."
        )
    return launcher


def _able_launcher(order: Order, launcher: Launcher, is_quiet: bool) -> Launcher:
    """The launcher, or one in this process if workers cannot import what is to be trained."""
    names = sorted({name for run in order.folder.runs.values() for name in kept_here(run.recipe)})
    if not names:
        return launcher
    what = ", ".join(names)
    if launcher.is_elsewhere:
        raise ValueError(
            f"losses, models and data sets must be in a module that other machines can import; got {what}, which only "
            "this process knows. Move it into a file and import it, or use the launcher 'local'."
        )
    _say(f"only this process knows {what}, so it trains one run after another; workers import from modules", is_quiet)
    return HereLauncher()


def _tuned_folder(order: Order, launcher: Launcher, is_quiet: bool = False) -> StudyFolder:
    """The folder of a study, after the trials that choose its strengths."""
    if (trials := order.trials) is None:
        return order.folder
    _say(f"tuning on seeds of its own, judged on validation images: {runs_text(trials, launcher)}", is_quiet)
    if failed := _failed_jobs(trials, launcher, is_quiet):
        raise FailedRunsError(failed)
    strengths = chosen_strengths(trials)
    for loss, options in strengths.items():
        _say(f"  {loss}: {strength_of(loss)}={options[strength_of(loss)]:g}", is_quiet)
    return order.folder_with(strengths)


def _failed_jobs(folder: StudyFolder, launcher: Launcher, is_quiet: bool) -> list[JobState]:
    """Write down what is planned, launch what is missing and show progress; gives the jobs that failed."""
    write_folder(folder)
    with View() if is_quiet else create_view() as view:
        return [state for state in execute(folder, launcher, view.update) if state.status != "done"]


def _result(folder: StudyFolder, launcher: Launcher, is_quiet: bool = False) -> StudyResult:
    failed = _failed_jobs(folder, launcher, is_quiet)
    return StudyResult(folder, summarize(folder), failed)
