"""Strengths chosen on validation images: the same number of trials for every loss, on seeds that are not evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from maxsup.lab.core.config import LossConfig
from maxsup.lab.core.files.reading import as_written
from maxsup.lab.core.files.records import RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.entries import Entry, EntryScale, Metric, Scale
from maxsup.lab.experiments.execution.study_folder import StudyFolder
from maxsup.lab.experiments.schema import ScaleName, Study
from maxsup.lab.tasks import task_of_numbers
from maxsup.losses import LOSSES

TUNED_FACTORS = (0.5, 1.0, 2.0)
"""Strengths that tuning tries, as multiples of the usual one."""

TUNING_SEEDS = (1000, 1001)
"""Seeds of the trials; evaluated seeds count from 0."""

Score = tuple[float, float]
"""Accuracy and NLL on validation images."""

Strengths = Mapping[str, Mapping[str, Any]]
"""Options of losses by name."""


def strength_of(loss: str) -> str:
    """The option that is the strength of a loss (``alpha``, ``beta``, ``tau``); "" for plain cross-entropy."""
    return "" if loss == "ce" else LOSSES[loss].strength or ""


def tuning(study: Study, scale: ScaleName, names: Collection[str] | None = None) -> Study:
    """The study that chooses strengths: every loss with a few multiples of its strength, on seeds of its own.

    ``names`` are those of the rows to tune; by default all that have a strength.
    """
    plan = study.scale(scale)
    rows, changes = [], {}
    for row in study.rows:
        loss, change = _loss_and_change(plan, row)
        strength = strength_of(loss.name)
        usual = loss.options.get(strength)
        if not isinstance(usual, int | float) or (names is not None and row.name not in names):
            continue
        for index, factor in enumerate(TUNED_FACTORS):
            options = {**loss.options, strength: round(usual * factor, 6)}
            name, title = f"{row.name}_{index}", f"{row.name} {strength}={options[strength]:g}"
            rows.append(Entry(name=name, title=title, loss=LossConfig(name=loss.name, **options)))
            changes[name] = change
    if not rows:
        raise ValueError("tune needs losses with a strength, and none of these has one. Leave it out.")
    # All scales keep their data and lose what they say about rows and analyses that the trials do not have.
    bare = {"note": "tuning", "rows": {}, "analyses": {}, "tuned": ()}
    scales = {name: other.model_copy(update=bare) for name, other in study.scales.items()}
    scales[scale] = scales[scale].model_copy(update={"seeds": TUNING_SEEDS, "rows": changes})
    return study.model_copy(
        update={
            "name": "tuning",
            "baseline": rows[0].name,
            "metric": Metric(factor=100.0, unit="%"),
            "rows": tuple(rows),
            "columns": tuple(column.model_copy(update={"metric": None, "losses": {}}) for column in study.columns),
            "analyses": (),
            "published": (),
            "scales": scales,
        }
    )


def chosen_strengths(folder: StudyFolder) -> dict[str, dict[str, Any]]:
    """The options of each loss that did best on validation images, from the folder of a finished :func:`tuning`."""
    losses = {row.name: row.loss for row in folder.study.rows if row.loss is not None}
    trials: dict[str, dict[str, list[Score]]] = {}
    for name, run in folder.runs.items():
        row, score = run.cells[0].row, validation_score(RunDir(folder.folder(name)))
        trials.setdefault(losses[row].name, {}).setdefault(row, []).append(score)
    return {loss: dict(losses[best_trial(rows)].options) for loss, rows in trials.items()}


def best_trial(trials: Mapping[str, Sequence[Score]]) -> str:
    """The name whose scores have the highest mean accuracy; ties go to the lower mean NLL.

    Example:
        >>> best_trial({"0.05": [(0.8, 0.7), (0.8, 0.7)], "0.1": [(0.7, 0.5), (0.9, 0.5)]})
        '0.1'
    """

    def quality(name: str) -> Score:
        accuracies, nlls = zip(*trials[name], strict=True)
        return fmean(accuracies), -fmean(nlls)

    return max(trials, key=quality)


def validation_score(run: RunDir) -> Score:
    """Accuracy (mIoU for segmentation) and NLL of a finished run on validation images, with the last weights."""
    numbers = read_record(RunSummary, run.summary).val.get("last") or {}
    with as_written(run.summary):
        return float(numbers[task_of_numbers(numbers).main_number]), float(numbers["nll"])


def with_tuned_rows(study: Study, scale: ScaleName, strengths: Strengths) -> Study:
    """The study with another row for every tuned loss, after the one with the usual strength."""
    plan = study.scale(scale)
    rows, changes = [], dict(plan.rows)
    for row in study.rows:
        rows.append(row)
        loss, change = _loss_and_change(plan, row)
        if row.name not in plan.tuned or loss.name not in strengths:
            continue
        name, options, strength = f"{row.name}_tuned", strengths[loss.name], strength_of(loss.name)
        tuned = {
            "name": name,
            "arm": None if row.arm is None else f"{row.arm}_tuned",
            "title": f"{row.title}, {strength} tuned to {options[strength]:g}",
            "loss": LossConfig(name=loss.name, **options),
        }
        rows.append(row.model_copy(update=tuned))
        changes[name] = change
    scales = {**study.scales, scale: plan.model_copy(update={"rows": changes})}
    return study.model_copy(update={"rows": tuple(rows), "scales": scales})


def _loss_and_change(plan: Scale, row: Entry) -> tuple[LossConfig, EntryScale]:
    """The loss of a row at a scale, and what else the scale says about the row."""
    change = plan.rows.get(row.name, EntryScale())
    return change.loss or row.loss or LossConfig(name="ce"), change.model_copy(update={"loss": None})
