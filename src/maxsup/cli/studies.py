"""What `compare` and `study run` share: options, the announcement, the launch, the table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.cli.options import print_json

if TYPE_CHECKING:
    from maxsup.reports.summary import Summary, SummaryCell, SummaryEntry
    from maxsup.studies.engine import StudyFolder
    from maxsup.studies.launch import JobState, Launcher

LauncherOption = Annotated[str, typer.Option("--launcher", metavar="local|ray|slurm", help="Who runs the runs.")]
JobOption = Annotated[
    list[str] | None,
    typer.Option(
        "--job",
        metavar="KEY=VALUE",
        help="A setting of the launcher, for instance partition=gpu or num_gpus=1; may be given again.",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the jobs and start none.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Runs at a time; as many as there are cores.")
]


def checked_launcher(
    name: str, workers: int | None, settings: list[str] | None = None, *, is_dry: bool = False
) -> Launcher:
    """The launcher that the options ask for; a mistake in them is said before anything is written."""
    from maxsup.core.recipes import parse_yaml
    from maxsup.studies.launch import create_launcher

    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1; got {workers}. Leave it out for one a processor.")
    options: dict[str, Any] = {} if workers is None else {"num_workers": workers}
    for word in settings or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"--job must be KEY=VALUE; got {word!r}. Write for instance --job partition=gpu.")
        options[key] = parse_yaml(value, source=f"value of {key}")
    launcher = create_launcher(name, **options)
    if not is_dry:
        launcher.check_machine()
    return launcher


def print_jobs(folder: StudyFolder, launcher: Launcher, name: str, *, as_json: bool) -> None:
    """What would be launched, a line a run, and what is asked for each."""
    open_runs = folder.open_runs()
    settings = launcher.settings(max(run.recipe.data.num_workers for run in folder.runs.values()))
    if as_json:
        jobs = {run: {"folder": str(folder.folder(run)), "is_done": run not in open_runs} for run in folder.runs}
        print_json({"launcher": name, "settings": settings, "jobs": jobs})
        return
    width = max(len(run) for run in folder.runs)
    for run, planned in folder.runs.items():
        recipe = planned.recipe
        what = f"{recipe.model.name} on {recipe.data.name}, {recipe.epochs} epochs"
        typer.echo(f"{run:<{width}}  {what if run in open_runs else 'done'}")
    asked = ", ".join(f"{key}={value}" for key, value in settings.items())
    typer.echo(f"{len(open_runs)} of {len(folder.runs)} to be done by {name}{f' ({asked})' if asked else ''}")
    typer.echo(f"into {folder.path}; nothing was started")


def runs_line(folder: StudyFolder, launcher: Launcher, workers: int | None) -> str:
    """How many runs there are, how many are done, and how long training the others may take.

    Raises:
        Exception: Where no open run can be made, what its first step raised.
    """
    from maxsup.studies.launch_local import num_processors
    from maxsup.studies.live import duration
    from maxsup.studies.preview import preview

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
    num_workers = min(workers or num_processors(), len(open_runs))
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


def announce(folder: StudyFolder, launcher: Launcher, workers: int | None) -> None:
    """Number of runs, expected time, and what so many seeds can show; before anything is trained."""
    from maxsup.studies.power import MIN_SEEDS, POWER, detectable_difference

    typer.echo(runs_line(folder, launcher, workers), err=True)
    num_seeds = len(folder.study.scales[folder.scale].seeds)
    if num_seeds < MIN_SEEDS:
        typer.echo(
            f"{num_seeds} seed{_s(num_seeds)} cannot show a difference of any size: the smallest p that can come of "
            f"it is above 0.05.{f' Use --seeds {MIN_SEEDS} or more.' if folder.study.name == 'compare' else ''}",
            err=True,
        )
    else:
        size = detectable_difference(1.0, num_seeds)
        typer.echo(
            f"{num_seeds} seeds find a true difference of {size:.2f} standard deviations of the paired differences in "
            f"{POWER:.0%} of cases; for instance {size * 0.5:.2f} points of accuracy where these differ by 0.5 points "
            "from seed to seed",
            err=True,
        )


def run_folder(folder: StudyFolder, launcher: Launcher) -> list[JobState]:
    """Write down what is planned, launch what is open and show how far it is."""
    from maxsup.studies.engine import execute, write_folder
    from maxsup.studies.live import create_view

    write_folder(folder)
    with create_view() as view:
        return execute(folder, launcher, view.update)


def tuned_strengths(folder: StudyFolder, launcher: Launcher, workers: int | None) -> dict[str, dict[str, Any]]:
    """Make the trials of :func:`maxsup.studies.tuning.tuning` and say which strengths they choose."""
    from maxsup.studies.tuning import chosen_strengths, strength_of

    line = runs_line(folder, launcher, workers)
    typer.echo(f"tuning on seeds of its own, judged on validation images: {line}", err=True)
    exit_with(run_folder(folder, launcher))
    chosen = chosen_strengths(folder)
    for loss, options in chosen.items():
        typer.echo(f"  {loss}: {strength_of(loss)}={options[strength_of(loss) or '']:g}", err=True)
    return chosen


def finish(folder: StudyFolder, *, kind: str) -> Summary:
    """Numbers and report of what is there."""
    from maxsup.reports import write_report
    from maxsup.studies.results import summarize

    summary = summarize(folder, kind=kind)
    write_report(folder.path, on_left_out=lambda sentence: typer.echo(f"maxsup: {sentence}", err=True))
    return summary


def carry_out(folder: StudyFolder, launcher: Launcher, workers: int | None, *, kind: str, as_json: bool) -> None:
    """Announce, run, report and print a study; leaves with the exit code of what failed."""
    announce(folder, launcher, workers)
    states = run_folder(folder, launcher)
    summary = finish(folder, kind=kind)
    if as_json:
        print_json(summary.model_dump(mode="json"))
    else:
        print_summary(summary, folder.path)
    exit_with(states)


def exit_with(states: list[JobState]) -> None:
    """Name what failed and leave with its exit code; 1 where a worker died without a word."""
    from maxsup.core.reading import read_json
    from maxsup.studies.worker import FAILURE

    codes = []
    for state in states:
        if state.status != "done":
            typer.echo(f"{state.job.name} failed: {state.sentence} Log: {state.log}", err=True)
            path = state.job.folder / FAILURE
            codes.append(int(read_json(path).get("exit_code", 1)) if path.is_file() else 1)
    if codes:
        raise typer.Exit(max(codes))


def print_summary(summary: Summary, output: Path) -> None:
    """What was found in words, the table behind it, and where everything is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    rows, columns = summary.table.rows, summary.table.columns
    # Whichever is longer goes down the page; a terminal is narrow.
    is_turned = len(columns) > len(rows)
    across, down = (rows, columns) if is_turned else (columns, rows)
    table.add_column("", overflow="fold")
    for entry in across:
        table.add_column(Text(_heading(entry)), justify="right", overflow="fold")
    for entry in down:
        pairs = [(other, entry) if is_turned else (entry, other) for other in across]
        cells = [summary.table.cells[row.name][column.name] for row, column in pairs]
        table.add_row(
            Text(_heading(entry)), *(Text(_cell_text(cell), style="bold" if cell.is_bold else "") for cell in cells)
        )
    if summary.is_reduced:
        console.print(Text(f"{summary.scale.upper()} SCALE: {summary.note}", style="bold"))
    for sentence in summary.conclusions:
        console.print(Text(f"{sentence}\n"))
    console.print(table)
    console.print(Text(f"\n{summary.bold_rule}"))
    console.print(f"\nreport: {output / 'report.html'}\nnumbers: {output / 'summary.json'}", soft_wrap=True)


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _heading(entry: SummaryEntry) -> str:
    return f"{entry.group}, {entry.title}" if entry.group else entry.title


def _cell_text(cell: SummaryCell) -> str:
    if cell.left_out:
        return "left out"
    published = f"paper {cell.published.text}" if cell.published else ""
    return "\n".join(line for line in (cell.text, cell.difference_text, published) if line)
