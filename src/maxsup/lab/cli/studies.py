"""What `compare` and `study run` share: options, the jobs of a dry run, the table at the end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.core.errors import counted
from maxsup.lab.cli import say
from maxsup.lab.cli.printing import create_table, print_json
from maxsup.lab.cli.shorthands import flag, option

if TYPE_CHECKING:
    from maxsup.lab.experiments.execution.launch import Launcher
    from maxsup.lab.experiments.order import Order
    from maxsup.lab.experiments.result import StudyResult
    from maxsup.lab.reports.summary import Summary, SummaryCell

LauncherOption = Annotated[str, option("local|ray|slurm", "Where the runs execute.")]
JobOption = Annotated[
    list[str] | None,
    option("KEY=VALUE", "A setting of the launcher, for instance partition=gpu or num_gpus=1; may be given again."),
]
GpusOption = Annotated[int | None, option("N", "GPUs per run, with a process each (default: 1).")]
MirrorOption = Annotated[str | None, option("URL", "Copy runs there and fetch missing ones, as s3://BUCKET/DIR.")]
DryRunOption = Annotated[bool, flag("--dry-run", "Print the runs without starting them.")]
WorkersOption = Annotated[int | None, option("N", "Runs in parallel (default: one per GPU, or else per core).")]


def work_with_mirror(url: str | None) -> None:
    """Copy the runs of this process and its workers to a URL."""
    from maxsup.lab.experiments.execution.mirror import MIRROR

    if url is not None:
        os.environ[MIRROR] = url


def make_launcher(
    name: str,
    workers: int | None,
    settings: list[str] | None,
    gpus_per_run: int | None = None,
    *,
    is_dry: bool = False,
) -> Launcher:
    """The launcher that the options ask for; a mistake in them is reported before anything is written."""
    from maxsup.lab.core.recipes import parse_yaml
    from maxsup.lab.experiments.execution.launch import create_launcher

    if workers is not None and workers < 1:
        raise ValueError(f"--workers must be at least 1; got {workers}. Leave it out for one a GPU or processor.")
    options: dict[str, Any] = {} if workers is None else {"num_workers": workers}
    options |= {} if gpus_per_run is None else {"gpus_per_run": gpus_per_run}
    for word in settings or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"--job must be KEY=VALUE; got {word!r}. Write for instance --job partition=gpu.")
        options[key] = parse_yaml(value, source=f"value of {key}")
    launcher = create_launcher(name, **options)
    if not is_dry:
        launcher.check_machine()
    return launcher


def print_jobs(order: Order, launcher: Launcher, name: str, *, as_json: bool) -> None:
    """The runs that would be launched, one a line, and the settings of the launcher for each."""
    for note in order.notes:
        typer.echo(note, err=True)
    for folder in order.folders():
        open_runs = folder.open_runs()
        settings = launcher.settings(max(run.recipe.data.num_workers for run in folder.runs.values()))
        if as_json:
            jobs = {run: {"folder": str(folder.folder(run)), "is_done": run not in open_runs} for run in folder.runs}
            print_json({"launcher": name, "settings": settings, "jobs": jobs})
            continue
        width = max(len(run) for run in folder.runs)
        for run, planned in folder.runs.items():
            recipe = planned.recipe
            what = f"{recipe.model.name} on {recipe.data.name}, {counted(recipe.epochs, 'epoch')}"
            typer.echo(f"{run:<{width}}  {what if run in open_runs else 'done'}")
        asked = ", ".join(f"{key}={value}" for key, value in settings.items())
        typer.echo(f"{len(open_runs)} of {len(folder.runs)} to be done by {name}{f' ({asked})' if asked else ''}")
        typer.echo(f"into {folder.path}; nothing was started")


def show_result(result: StudyResult, *, as_json: bool) -> None:
    """Write the report, print the result, and exit with the code of what failed."""
    result.report(on_left_out=say)
    if as_json:
        print_json(result.summary.model_dump(mode="json"))
    else:
        print_summary(result.summary, result.path)
    exit_with([result])


def exit_with(results: list[StudyResult]) -> None:
    """Name the runs that failed, if any, and exit with their code."""
    from maxsup.lab.experiments.result import failure_code, failure_text

    states = [state for result in results for state in result.failed]
    for state in states:
        typer.echo(failure_text(state), err=True)
    if states:
        raise typer.Exit(max(map(failure_code, states)))


def print_summary(summary: Summary, output: Path) -> None:
    """The conclusions in words, the table behind them, and where everything is."""
    from rich.console import Console
    from rich.text import Text

    from maxsup.lab.experiments.result import heading

    console = Console(highlight=False)
    rows, columns = summary.table.rows, summary.table.columns
    # Whichever is longer goes down the page; a terminal is narrow.
    is_turned = len(columns) > len(rows)
    across, down = (rows, columns) if is_turned else (columns, rows)
    table = create_table(["", *map(heading, across)], padding=(0, 1, 0, 0))
    for entry in down:
        pairs = [(other, entry) if is_turned else (entry, other) for other in across]
        cells = [summary.table.cells[row.name][column.name] for row, column in pairs]
        table.add_row(
            Text(heading(entry)), *(Text(_cell_text(cell), style="bold" if cell.is_bold else "") for cell in cells)
        )
    if summary.is_reduced:
        console.print(Text(f"{summary.scale.upper()} SCALE: {summary.note}", style="bold"))
    for sentence in summary.conclusions:
        console.print(Text(f"{sentence}\n"))
    console.print(table)
    console.print(Text(f"\n{summary.bold_rule}"))
    console.print(f"\nreport: {output / 'report.html'}\nnumbers: {output / 'summary.json'}", soft_wrap=True)


def _cell_text(cell: SummaryCell) -> str:
    if cell.left_out:
        return "left out"
    published = f"paper {cell.published.text}" if cell.published else ""
    return "\n".join(line for line in (cell.text, cell.difference_text, published) if line)
