"""Strengths chosen on validation images: the same number of trials for every loss, on seeds that are not evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from maxsup.lab.core.config import LossConfig
from maxsup.lab.core.files.reading import as_written
from maxsup.lab.core.files.records import RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.execution.study_folder import StudyFolder
from maxsup.lab.experiments.experiment import Arm, Experiment
from maxsup.lab.experiments.study_format import Entry, EntryScale, Scale, ScaleName, Study
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


def trials_of(design: Design, names: Collection[str] | None = None) -> Design:
    """The design that chooses strengths: every loss with a few multiples of its strength, on seeds of its own.

    ``names`` are those of the lines of the table to tune; by default all that have a strength.
    """
    wanted = None if names is None else {line.arm_name for line in design.table.arms if line.name in names}
    experiments: list[Experiment] = []
    for each in design.experiments:
        arms = [trial for arm in each.arms if wanted is None or arm.name in wanted for trial in _trials_of(arm)]
        made = each.model_copy(update={"arms": tuple(arms), "seeds": TUNING_SEEDS, "analyses": ()})
        if arms and made not in experiments:
            experiments.append(made)
    if not experiments:
        raise ValueError("tune needs losses with a strength, and none of these has one. Leave it out.")
    return Design(name="tuning", kind="tuning", note="tuning", experiments=tuple(experiments))


def _trials_of(arm: Arm) -> list[Arm]:
    """A loss with multiples of its strength; none if it has no strength that is a number."""
    loss, strength = arm.loss, strength_of(arm.loss.name)
    usual = loss.options.get(strength)
    if not isinstance(usual, int | float):
        return []
    strengths = [round(usual * factor, 6) for factor in TUNED_FACTORS]
    return [
        Arm(name=f"{arm.name}_{index}", loss=LossConfig(name=loss.name, **{**loss.options, strength: value}))
        for index, value in enumerate(strengths)
    ]


def choose_strengths(folder: StudyFolder) -> dict[str, dict[str, Any]]:
    """The options of each loss that did best on validation images, from the folder of finished trials."""
    losses = {run.recipe.loss.label: run.recipe.loss for run in folder.runs.values()}
    scores: dict[str, dict[str, list[Score]]] = {}
    for name, run in folder.runs.items():
        loss = run.recipe.loss
        scores.setdefault(loss.name, {}).setdefault(loss.label, []).append(
            validation_score(RunDir(folder.folder(name)))
        )
    return {name: dict(losses[best_trial(labels)].options) for name, labels in scores.items()}


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


def add_tuned_rows(study: Study, scale: ScaleName, strengths: Strengths) -> Study:
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
