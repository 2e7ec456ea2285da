"""A study from its plan to its result: tuned where that is asked for, announced, trained, analysed, counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxsup.core.errors import DataError
from maxsup.studies.execution.launch import JobState, Launcher
from maxsup.studies.execution.launch_display import View, create_view
from maxsup.studies.execution.launch_local import HereLauncher
from maxsup.studies.execution.study_folder import StudyFolder, execute, plan_folder, write_folder
from maxsup.studies.forecast.runs import power_text, runs_text, total_text
from maxsup.studies.imports import kept_here
from maxsup.studies.outcome import FailedRunsError, StudyResult, kind_of
from maxsup.studies.results import summarize
from maxsup.studies.schema import ScaleName, Study
from maxsup.studies.tuning import chosen_strengths, strength_of, tuning

Strengths = Mapping[str, Mapping[str, Any]]
Say = Callable[[str], None]


def print_news(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(sentence, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Order:
    """A study to run, and how its strengths are tuned first where they are."""

    study: Study
    scale: ScaleName
    output: Path
    overrides: tuple[str, ...] = ()  # for every recipe
    data_root: Path | None = None
    notes: tuple[str, ...] = ()  # sentences about what the data decided
    tuned: Callable[[Strengths], Study] | None = None  # the study with the strengths that trials chose
    tuned_rows: Collection[str] | None = None  # all that have a strength if None
    trials_output: Path = Path()

    def folder(self, strengths: Strengths | None = None) -> StudyFolder:
        """The study laid out, with tuned strengths where there are some; nothing is written."""
        study = self.study if self.tuned is None or strengths is None else self.tuned(strengths)
        return self._planned(study, self.output)

    def trials(self) -> StudyFolder | None:
        """The runs that choose strengths; None where nothing is tuned."""
        if self.tuned is None:
            return None
        return self._planned(tuning(self.study, self.scale, self.tuned_rows), self.trials_output)

    def folders(self) -> list[StudyFolder]:
        """All that is planned before anything is tuned."""
        return [folder for folder in (self.trials(), self.folder()) if folder is not None]

    def _planned(self, study: Study, output: Path) -> StudyFolder:
        return plan_folder(study, output, self.scale, overrides=self.overrides, data_root=self.data_root)


def carry_out(order: Order, launcher: Launcher, *, is_quiet: bool = False) -> StudyResult:
    """Tune where that is asked for, say what is planned, train and analyse what is open, and count."""
    say = (lambda sentence: None) if is_quiet else print_news
    launcher = _able_launcher(order, launcher, say)
    for note in order.notes:
        say(note)
    folder = _tuned_folder(order, launcher, say, is_quiet=is_quiet)
    say(runs_text(folder, launcher))
    say(power_text(folder))
    return _result(folder, _run(folder, launcher, is_quiet=is_quiet))


def carry_out_all(orders: Sequence[Order], launcher: Launcher) -> Iterator[StudyResult]:
    """Say what all studies together cost, then carry out one after another; one that lacks its data is skipped."""
    print_news(total_text([folder for order in orders for folder in order.folders()], len(orders), launcher))
    for order in orders:
        try:
            folder = _tuned_folder(order, launcher, print_news)
            print_news(f"{order.study.name}: {runs_text(folder, launcher)}")
        except DataError as error:
            print_news(f"{order.study.name} is skipped: {error}")
            continue
        yield _result(folder, _run(folder, launcher))


def _able_launcher(order: Order, launcher: Launcher, say: Say) -> Launcher:
    """The launcher, or this process where workers could not import what is to be trained."""
    names = sorted({name for run in order.folder().runs.values() for name in kept_here(run.recipe)})
    if not names:
        return launcher
    what = ", ".join(names)
    if launcher.is_elsewhere:
        raise ValueError(
            f"losses, models and data sets must be in a module that other machines can import; got {what}, which only "
            "this process knows. Move it into a file and import it, or use the launcher 'local'."
        )
    say(f"only this process knows {what}, so it trains one run after another; workers import what is in a module")
    return HereLauncher()


def _tuned_folder(order: Order, launcher: Launcher, say: Say, *, is_quiet: bool = False) -> StudyFolder:
    """The folder of a study, after the trials that choose its strengths."""
    if (trials := order.trials()) is None:
        return order.folder()
    say(f"tuning on seeds of its own, judged on validation images: {runs_text(trials, launcher)}")
    failed = [state for state in _run(trials, launcher, is_quiet=is_quiet) if state.status != "done"]
    if failed:
        raise FailedRunsError(failed)
    strengths = chosen_strengths(trials)
    for loss, options in strengths.items():
        say(f"  {loss}: {strength_of(loss)}={options[strength_of(loss) or '']:g}")
    return order.folder(strengths)


def _run(folder: StudyFolder, launcher: Launcher, *, is_quiet: bool = False) -> list[JobState]:
    """Write down what is planned, launch what is open and show how far it is."""
    write_folder(folder)
    with View() if is_quiet else create_view() as view:
        return execute(folder, launcher, view.update)


def _result(folder: StudyFolder, states: Sequence[JobState]) -> StudyResult:
    failed = [state for state in states if state.status != "done"]
    return StudyResult(folder, summarize(folder, kind=kind_of(folder)), failed)
