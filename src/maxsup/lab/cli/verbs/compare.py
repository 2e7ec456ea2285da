"""``maxsup compare``: which loss should be used on some data, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from maxsup.lab.cli import studies
from maxsup.lab.cli.listings import complete_loss, complete_losses, complete_recipe
from maxsup.lab.cli.options import (
    DATA,
    DataRootOption,
    JsonOption,
    ModelOption,
    NoLockOption,
    OverrideArguments,
    work_without_locks,
)
from maxsup.lab.cli.shorthands import option

_LOSSES = (
    "Separated by commas; maxsup:0.2 sets a strength. By default those of the paper's main table that the data can be "
    "trained with: ce, ls, zipf_ls, ols, maxsup, logit_penalty."
)
_SEEDS = "Number of paired seeds, or a list such as 3,5,8. With fewer than 6 no difference can be significant."


def compare(
    overrides: OverrideArguments = None,
    data: Annotated[str, DATA] = "synthetic",
    model: ModelOption = None,
    recipe: Annotated[
        str | None, option("RECIPE", "Recipe of all runs (default: by the data).", complete_recipe)
    ] = None,
    losses: Annotated[str | None, option("NAMES", _LOSSES, complete_losses)] = None,
    seeds: Annotated[
        str,
        option("N", _SEEDS),
    ] = "6",
    baseline: Annotated[
        str | None,
        option("LOSS", "Loss to compare the others with (default: ls).", complete_loss),
    ] = None,
    tune: Annotated[
        str | None,
        option("alpha", "Choose each strength on validation data, with equally many runs a loss."),
    ] = None,
    output: Annotated[Path, option("DIR", "Folder for report.html, summary.json and the runs.")] = Path("comparison"),
    launcher: studies.LauncherOption = "local",
    job: studies.JobOption = None,
    workers: studies.WorkersOption = None,
    gpus_per_run: studies.GpusOption = None,
    mirror: studies.MirrorOption = None,
    dry_run: studies.DryRunOption = False,
    data_root: DataRootOption = None,
    no_lock: NoLockOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare losses over paired seeds.

    Prints findings and a table, and writes a report. Run the same command again to resume.
    """
    work_without_locks(no_lock)
    studies.work_with_mirror(mirror)
    chosen = studies.make_launcher(launcher, workers, job, gpus_per_run, is_dry=dry_run)
    from maxsup.lab.experiments.order import comparison_order

    order = comparison_order(
        data,
        model,
        None if losses is None else [name for name in losses.split(",") if name],
        seeds=_seeds(seeds),
        baseline=baseline,
        recipe=recipe,
        overrides=overrides or [],
        tune=tune,
        output=output,
        data_root=data_root,
        is_elsewhere=chosen.is_elsewhere,
    )
    if dry_run:
        studies.print_jobs(order, chosen, launcher, as_json=as_json)
    else:
        from maxsup.lab.experiments.api import carry_out

        studies.show_result(carry_out(order, chosen), as_json=as_json)


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--seeds must be a number, or numbers as 3,5,8; got {text!r}. Write --seeds 6.") from None
    return numbers[0] if len(numbers) == 1 else numbers
