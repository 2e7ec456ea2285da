"""Comparisons and studies from Python: what ``maxsup compare`` and ``maxsup study run`` call.

Workers are processes that import this package and nothing of the caller's: a script needs no
``if __name__ == "__main__"``, and a notebook works. What no worker can import, such as a lambda, is trained in this
process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError
from maxsup.core.recipes import override_words
from maxsup.data import PythonData, data_name
from maxsup.models import Factory, model_name
from maxsup.studies.comparison import LossChoice, comparison, recipe_for
from maxsup.studies.execution.launch import Launcher, create_launcher
from maxsup.studies.forecast.runs import settled_overrides
from maxsup.studies.orders import Order, Strengths, carry_out
from maxsup.studies.outcome import StudyResult
from maxsup.studies.schema import SCALES, ScaleName, Study
from maxsup.studies.study_files import load_study
from maxsup.studies.tuning import with_tuned_rows

Overrides = Iterable[str] | Mapping[str, Any]


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
    """Compare losses over paired seeds; the same call goes on where it was stopped.

    Args:
        data: A name from ``maxsup ls data``, ``folder:PATH`` or ``arrays:PATH``; or data as
            :func:`maxsup.data.data_name` takes it, which is kept in ``output``.
        model: A name from ``maxsup ls models`` or any of timm's; or a function that makes a network, as
            :func:`maxsup.models.model_name` takes it. The recipe's by default.
        losses: Names, ``name:strength``, mappings with ``name`` and options, or losses. By default those of the paper's
            main table that the data can be trained with.
        seeds: How many paired seeds, counted from 0, or which.
        baseline: The loss that others are compared with, as in ``losses``; label smoothing by default.
        recipe: What all runs share, a name or a ``.yaml`` file; chosen by the data.
        overrides: ``key.sub=value`` each, or a mapping of such keys, for every run.
        tune: ``"alpha"`` gives every loss the same number of runs to choose its strength on validation images.
        output: Gets the runs, ``summary.json``, and ``report.html`` once it is asked for.
        launcher: ``local``, ``ray``, ``slurm``, or a launcher with options of its own.
        workers: Runs at a time; as many as there are processors by default.
        data_root: Where data sets are.
        is_quiet: Show nothing.

    Returns:
        Table, differences and report.

    Raises:
        MaxsupError: Where ``output`` holds runs with other settings, or no run can be made.
        Interruption: After Ctrl-C; what is trained is saved.
    """
    chosen = _launcher(launcher, workers)
    order = comparison_order(
        data,
        model,
        losses,
        seeds=seeds,
        baseline=baseline,
        recipe=recipe,
        overrides=overrides,
        tune=tune,
        output=output,
        data_root=data_root,
        is_elsewhere=chosen.is_elsewhere,
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
    """Run a table or a figure of the paper; the same call goes on where it was stopped.

    ``name`` is one from ``maxsup study ls``, a label of the paper, a ``.yaml`` file, or a study; ``scale`` is ``tiny``,
    ``small`` or ``full``, and the folder ``studies/NAME-SCALE`` by default. At the small scale ``tune`` adds rows whose
    strength is chosen on validation images. All other arguments are those of :func:`compare`.
    """
    order = study_order(name, scale, output=output, overrides=overrides, tune=tune, data_root=data_root)
    return carry_out(order, _launcher(launcher, workers), is_quiet=is_quiet)


def comparison_order(
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
    data_root: str | Path | None = None,
    is_elsewhere: bool = False,
) -> Order:
    """What :func:`compare` will do; ``is_elsewhere`` says that it is done on machines that may have other data."""
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
            raise  # else other machines may have the data; each run settles it there

    def study(strengths: Strengths | None = None) -> Study:
        return comparison(base, losses, seeds=seeds, baseline=baseline, overrides=words, strengths=strengths)

    return Order(
        study(),
        "full",
        output,
        data_root=root,
        notes=tuple(notes),
        tuned=None if tune is None else study,
        trials_output=output / "tuning",
    )


def study_order(
    name: str | Study,
    scale: str = "tiny",
    *,
    output: str | Path | None = None,
    overrides: Overrides = (),
    tune: bool = False,
    data_root: str | Path | None = None,
) -> Order:
    """What :func:`run_study` will do; trials are beside the study because they are shared."""
    check_choice("scale", scale, SCALES)
    size = cast("ScaleName", scale)
    study = name if isinstance(name, Study) else load_study(name)
    path = Path("studies") / f"{study.name}-{scale}" if output is None else Path(output)
    rows = study.scale(size).tuned if tune else ()
    return Order(
        study,
        size,
        path,
        tuple(override_words(overrides)),
        None if data_root is None else Path(data_root),
        tuned=(lambda strengths: with_tuned_rows(study, size, strengths)) if rows else None,
        tuned_rows=rows,
        trials_output=path.with_name(f"{path.name}-tuning"),
    )


def _launcher(launcher: str | Launcher, workers: int | None) -> Launcher:
    if isinstance(launcher, Launcher):
        return launcher
    return create_launcher(launcher, **({} if workers is None else {"num_workers": workers}))
