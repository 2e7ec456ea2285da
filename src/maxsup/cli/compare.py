"""``maxsup compare``: which loss should be used on some data, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxsup.cli.completion import complete_data, complete_loss, complete_losses, complete_model, complete_recipe
from maxsup.cli.options import DataRootOption, JsonOption, OverrideArguments
from maxsup.cli.studies import (
    LauncherOption,
    WorkersOption,
    carry_out,
    checked_launcher,
    exit_with,
    run_folder,
    runs_line,
)

if TYPE_CHECKING:
    from maxsup.studies.launch import Launcher
    from maxsup.studies.schema import Study


def compare(
    overrides: OverrideArguments = None,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="NAME",
            help="From `maxsup ls data`, or folder:PATH, arrays:PATH.",
            autocompletion=complete_data,
        ),
    ] = "synthetic",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="From `maxsup ls models`, or any of timm's.",
            autocompletion=complete_model,
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="RECIPE",
            help="What all runs share; chosen by the data.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    losses: Annotated[
        str | None,
        typer.Option(
            "--losses",
            metavar="NAMES",
            help="Separated by commas; maxsup:0.2 sets a strength. By default those of the paper's main table that "
            "the data can be trained with: ce, ls, zipf_ls, ols, maxsup, logit_penalty.",
            autocompletion=complete_losses,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Paired seeds; fewer than 6 show nothing.")] = 6,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="LOSS",
            help="What others are compared with, as in --losses; ls by default.",
            autocompletion=complete_loss,
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            "--tune", metavar="alpha", help="Every loss gets the same runs to choose its strength on validation."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Gets report.html, summary.json and the runs.")
    ] = Path("comparison"),
    launcher: LauncherOption = "local",
    workers: WorkersOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare losses over paired seeds.

    Gives a table, what it shows in words, and a report. The same command goes on where it was stopped.
    """
    from maxsup.core.checks import check_choice
    from maxsup.core.errors import DataError
    from maxsup.core.interrupt import SignalGuard

    if tune is not None:
        check_choice("tune", tune, ("alpha",))
    with SignalGuard():
        from maxsup.studies.compare import comparison, recipe_for
        from maxsup.studies.engine import plan_folder
        from maxsup.studies.preview import settled_overrides

        chosen = checked_launcher(launcher, workers)
        base = recipe or recipe_for(data)
        words = [*([f"model.name={model}"] if model else []), *(overrides or [])]
        if recipe is None or data != "synthetic":
            words.insert(0, f"data.name={data}")
        try:
            words, sentences = settled_overrides(base, words, data_root)
        except DataError:
            if not chosen.is_elsewhere:
                raise
            sentences = []  # other machines may have the data; each run settles it there
        for sentence in sentences:
            typer.echo(sentence, err=True)
        names = None if losses is None else [name for name in losses.split(",") if name]
        study = comparison(base, names, num_seeds=seeds, baseline=baseline, overrides=words)
        folder = plan_folder(study, output, "full", data_root=data_root)
        if tune is not None:
            strengths = _tuned(study, base, words, output, chosen, workers, data_root)
            study = comparison(base, names, num_seeds=seeds, baseline=baseline, overrides=words, strengths=strengths)
            folder = plan_folder(study, output, "full", data_root=data_root)
        carry_out(folder, chosen, workers, kind="comparison", as_json=as_json)


def _tuned(
    study: Study,
    recipe: str,
    words: list[str],
    output: Path,
    launcher: Launcher,
    workers: int | None,
    data_root: Path | None,
) -> dict[str, dict[str, Any]]:
    from maxsup.studies.compare import chosen_strengths, strength_of, tuning
    from maxsup.studies.engine import plan_folder

    trials = tuning(study, recipe, words)
    folder = plan_folder(trials, output / "tuning", "full", data_root=data_root)
    line = runs_line(folder, launcher, workers)
    typer.echo(f"tuning on seeds of its own, judged on validation images: {line}", err=True)
    exit_with(run_folder(folder, launcher))
    by_row: dict[str, list[Path]] = {}
    for name, run in folder.runs.items():
        by_row.setdefault(run.cells[0].row, []).append(folder.folder(name))
    chosen = chosen_strengths(by_row, trials.rows)
    for loss, options in chosen.items():
        typer.echo(f"  {loss}: {strength_of(loss)}={options[strength_of(loss) or '']:g}", err=True)
    return chosen
