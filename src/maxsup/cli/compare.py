"""``maxsup compare``: which loss should be used on some data, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxsup.cli.completion import complete_data, complete_loss, complete_losses, complete_model, complete_recipe
from maxsup.cli.options import DataRootOption, JsonOption, OverrideArguments
from maxsup.cli.studies import (
    DryRunOption,
    JobOption,
    LauncherOption,
    WorkersOption,
    carry_out,
    checked_launcher,
    print_jobs,
    tuned_strengths,
)


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
    job: JobOption = None,
    workers: WorkersOption = None,
    dry_run: DryRunOption = False,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare losses over paired seeds.

    Gives a table, what it shows in words, and a report. The same command goes on where it was stopped.
    """
    from maxsup.core.checks import check_choice
    from maxsup.core.errors import DataError

    if tune is not None:
        check_choice("tune", tune, ("alpha",))
    from maxsup.studies.comparison import comparison, recipe_for
    from maxsup.studies.engine import plan_folder
    from maxsup.studies.preview import settled_overrides
    from maxsup.studies.tuning import tuning

    chosen = checked_launcher(launcher, workers, job, is_dry=dry_run)
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
    trials = None
    if tune is not None:
        trials = plan_folder(tuning(study, "full"), output / "tuning", "full", data_root=data_root)
    if dry_run:
        for planned in (trials, folder):
            if planned is not None:
                print_jobs(planned, chosen, launcher, as_json=as_json)
        return
    if trials is not None:
        strengths = tuned_strengths(trials, chosen, workers)
        study = comparison(base, names, num_seeds=seeds, baseline=baseline, overrides=words, strengths=strengths)
        folder = plan_folder(study, output, "full", data_root=data_root)
    carry_out(folder, chosen, workers, kind="comparison", as_json=as_json)
