"""`maxsup study run`: one study with its tuning, or every study of the package over one folder of runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maxsup.cli.options import print_json
from maxsup.cli.studies import exit_with, finish, print_summary, run_folder, runs_line, tuned_strengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maxsup.studies.engine import StudyFolder
    from maxsup.studies.launch import JobState, Launcher
    from maxsup.studies.schema import ScaleName, Study


@dataclass(frozen=True)
class Order:
    """A study to run: at which scale, into which folder, and whether strengths are tuned first."""

    study: Study
    scale: ScaleName
    output: Path
    overrides: tuple[str, ...]
    data_root: Path | None
    is_tuned: bool

    def folder(self) -> StudyFolder:
        """The study as its file says, laid out."""
        from maxsup.studies.engine import plan_folder

        return plan_folder(self.study, self.output, self.scale, overrides=self.overrides, data_root=self.data_root)

    def trials(self) -> StudyFolder | None:
        """The runs that choose strengths, beside the study because they are shared; None where nothing is tuned."""
        from maxsup.studies.engine import plan_folder
        from maxsup.studies.tuning import tuning

        names = self.study.scale(self.scale).tuned
        if not self.is_tuned or not names:
            return None
        path = self.output.with_name(f"{self.output.name}-tuning")
        trials = tuning(self.study, self.scale, names)
        return plan_folder(trials, path, self.scale, overrides=self.overrides, data_root=self.data_root)


def planned(order: Order, launcher: Launcher, workers: int | None) -> StudyFolder:
    """The folder of a study, with rows for tuned strengths after the trials that choose them."""
    from maxsup.studies.tuning import with_tuned_rows

    if (trials := order.trials()) is None:
        return order.folder()
    strengths = tuned_strengths(trials, launcher, workers)
    return replace(order, study=with_tuned_rows(order.study, order.scale, strengths)).folder()


def carry_out_all(orders: Sequence[Order], launcher: Launcher, workers: int | None, *, as_json: bool) -> None:
    """Say what all studies together cost, then run, report and print one after another; what lacks data is skipped."""
    from maxsup.core.errors import DataError
    from maxsup.reports.summary import Summary

    typer.echo(_cost(orders, launcher, workers), err=True)
    states, summaries = list[JobState](), dict[str, Summary]()
    for order in orders:
        try:
            folder = planned(order, launcher, workers)
            typer.echo(f"{order.study.name}: {runs_line(folder, launcher, workers)}", err=True)
        except DataError as error:
            typer.echo(f"{order.study.name} is skipped: {error}", err=True)
            continue
        states += run_folder(folder, launcher)
        summaries[order.study.name] = finish(folder, kind="study")
        if not as_json:
            print_summary(summaries[order.study.name], folder.path)
    if as_json:
        print_json({name: summary.model_dump(mode="json") for name, summary in summaries.items()})
    exit_with(states)


def _cost(orders: Sequence[Order], launcher: Launcher, workers: int | None) -> str:
    """One sentence on all runs that are open, each counted once however many studies share it."""
    from maxsup.studies.launch_local import num_processors
    from maxsup.studies.live import duration
    from maxsup.studies.preview import preview

    found = [folder for order in orders for folder in (order.trials(), order.folder()) if folder is not None]
    runs = {folder.folder(name): run.recipe for folder in found for name, run in folder.open_runs().items()}
    seen = preview({str(path): recipe for path, recipe in runs.items()}, is_elsewhere=True)
    num_workers = workers or num_processors()
    num_missing = sum(map(len, seen.missing.values()))
    text = f"{len(orders)} studies need {len(runs)} more runs"
    if num_missing:
        text += f", of which {num_missing} lack their data"
    if seen.seconds:
        text += f"; about {duration(seen.seconds / num_workers)} of training with {num_workers} at a time"
    return f"{text}, analyses and runs with tuned strengths not counted"
