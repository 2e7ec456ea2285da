"""Strengths chosen on validation images: the same number of trials for every loss, on seeds that are not evaluated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from maxsup.core.config import LossConfig
from maxsup.core.files.reading import as_written
from maxsup.core.files.records import RunSummary, read_record
from maxsup.core.files.rundir import RunDir
from maxsup.losses import LOSSES
from maxsup.studies.entries import Entry, EntryScale, Metric
from maxsup.studies.execution.study_folder import StudyFolder
from maxsup.studies.schema import ScaleName, Study

TUNED_FACTORS = (0.5, 1.0, 2.0)
"""Strengths tried by tuning, as multiples of the usual one: the same number of trials for every loss that has one."""

TUNING_SEEDS = (1000, 1001)
"""Seeds of the trials; evaluated seeds count from 0."""


def strength_of(loss: str) -> str | None:
    """What a loss calls its strength; None for plain cross-entropy.

    Example:
        >>> strength_of("maxsup"), strength_of("logit_penalty"), strength_of("ce")
        ('alpha', 'beta', None)
    """
    return None if loss == "ce" else LOSSES[loss].strength


def tuning(study: Study, scale: ScaleName, names: Collection[str] | None = None) -> Study:
    """The study that chooses strengths: every loss with each of a few multiples of its own, on seeds of their own.

    ``names`` are those of the rows to tune; without them all that have a strength are.
    """
    plan = study.scale(scale)
    rows, changes = [], {}
    for row in study.rows:
        loss = _loss(study, scale, row)
        strength = strength_of(loss.name)
        usual = None if strength is None else loss.options.get(strength)
        if strength is None or not isinstance(usual, int | float) or (names is not None and row.name not in names):
            continue
        for index, factor in enumerate(TUNED_FACTORS):
            options = {**loss.options, strength: round(usual * factor, 6)}
            name, title = f"{row.name}_{index}", f"{row.name} {strength}={options[strength]:g}"
            rows.append(Entry(name=name, title=title, loss=LossConfig(name=loss.name, **options)))
            changes[name] = plan.rows.get(row.name, EntryScale()).model_copy(update={"loss": None})
    if not rows:
        raise ValueError("tune must have losses with a strength to choose; got none. Leave --tune out.")
    update = {"seeds": TUNING_SEEDS, "note": "tuning", "rows": changes, "analyses": {}, "tuned": ()}
    return study.model_copy(
        update={
            "name": "tuning",
            "baseline": rows[0].name,
            "metric": Metric(factor=100.0, unit="%"),
            "rows": tuple(rows),
            "columns": tuple(column.model_copy(update={"metric": None, "losses": {}}) for column in study.columns),
            "analyses": (),
            "published": (),
            "scales": dict.fromkeys(study.scales, plan.model_copy(update=update)),
        }
    )


def chosen_strengths(folder: StudyFolder) -> dict[str, dict[str, Any]]:
    """Options of each loss in the folder of a finished :func:`tuning` whose trials are best on validation images.

    The best have the highest mean accuracy, of masks mIoU; of equals the lower NLL.
    """
    trials: dict[str, list[Path]] = {}
    for name, run in folder.runs.items():
        trials.setdefault(run.cells[0].row, []).append(folder.folder(name))
    best: dict[str, tuple[tuple[float, float], dict[str, Any]]] = {}
    for row in folder.study.rows:
        assert row.loss is not None
        found = [_last_val(RunDir(path).summary) for path in trials[row.name]]
        accuracy = fmean(entry.get("miou", entry["accuracy"]) for entry in found)
        score = (accuracy, -fmean(entry["nll"] for entry in found))
        if row.loss.name not in best or score > best[row.loss.name][0]:
            best[row.loss.name] = (score, dict(row.loss.options))
    return {name: options for name, (_, options) in best.items()}


def _last_val(path: Path) -> dict[str, float]:
    numbers = read_record(RunSummary, path).val.get("last") or {}
    with as_written(path):
        return {key: float(numbers[key]) for key in ("miou", "accuracy", "nll") if key in numbers}


def with_tuned_rows(study: Study, scale: ScaleName, strengths: Mapping[str, Mapping[str, Any]]) -> Study:
    """The study with a further row for every tuned loss, behind the one with the usual strength."""
    plan = study.scale(scale)
    rows, changes = [], dict(plan.rows)
    for row in study.rows:
        rows.append(row)
        loss = _loss(study, scale, row)
        if row.name not in plan.tuned or loss.name not in strengths:
            continue
        name, options, strength = f"{row.name}_tuned", strengths[loss.name], strength_of(loss.name)
        assert strength is not None
        tuned = {
            "name": name,
            "arm": None if row.arm is None else f"{row.arm}_tuned",
            "title": f"{row.title}, {strength} tuned to {options[strength]:g}",
            "loss": LossConfig(name=loss.name, **options),
        }
        rows.append(row.model_copy(update=tuned))
        changes[name] = plan.rows.get(row.name, EntryScale()).model_copy(update={"loss": None})
    scales = {**study.scales, scale: plan.model_copy(update={"rows": changes})}
    return study.model_copy(update={"rows": tuple(rows), "scales": scales})


def _loss(study: Study, scale: ScaleName, row: Entry) -> LossConfig:
    loss = study.scale(scale).rows.get(row.name, EntryScale()).loss or row.loss
    return loss or LossConfig(name="ce")
