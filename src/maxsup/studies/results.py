"""What a study found: numbers read back from its run directories, compared seed by seed, as one JSON object.

A report needs nothing besides this and the run directories. Numbers are in stored units (shares, not percent); ``text``
is what a table prints.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from maxsup.analysis import data_label, result_path
from maxsup.core.reading import as_written, read_json, read_json_lines
from maxsup.core.rundir import RunDir
from maxsup.studies.conclusions import conclusions
from maxsup.studies.engine import StudyFolder, analysis_call
from maxsup.studies.launch import Job, read_state
from maxsup.studies.parts import Cell, Metric
from maxsup.studies.plans import PlannedRun, comparisons
from maxsup.studies.power import MIN_SEEDS
from maxsup.studies.schema import Study
from maxsup.studies.statistics import PairedComparison, compare_losses
from maxsup.studies.verdicts import BOLD_RULE, Quantity, verdict_sentences
from maxsup.studies.worker import JOB, LOG

PROTOCOL = 1
"""Version of how the numbers are made; it changes when they would."""

_PRINTED = {"title", "unit", "direction", "digits", "factor", "margin"}

Values = dict[int, float]
"""One number a seed; nan where a run is missing."""


def summarize(folder: StudyFolder, *, kind: str = "study") -> dict[str, Any]:
    """Read all runs back, compare them, and write ``summary.json``."""
    study, scale = folder.study, folder.scale
    values = {cell: _values(folder, cell) for cell in study.cells()}
    compared = _compared(folder, values)
    plan, metrics, losses = study.scales[scale], _metrics(study), _losses(study, values, compared)
    summary = {
        "protocol": PROTOCOL,
        "kind": kind,
        "name": study.name,
        "title": study.title,
        "label": study.label if kind == "study" else "",
        "question": study.question,
        "scale": scale if kind == "study" else "",
        "note": plan.note,
        "stated": list(study.stated),
        "unstated": [entry.model_dump() for entry in study.unstated],
        "errata": list(study.errata),
        "baseline": study.baseline,
        "seeds": list(plan.seeds),
        "environment": _environment(folder),
        "runs": [_run_entry(folder, name, run) for name, run in folder.runs.items()],
        "metrics": metrics,
        "losses": losses,
        "conclusions": conclusions(losses, metrics, study.baseline),
        "table": _table(study, scale, values, compared),
        "verdicts": _verdicts(folder, values),
        "bold_rule": BOLD_RULE,
    }
    RunDir(folder.path).write_json(folder.path / "summary.json", summary)
    return summary


def run_number(folder: StudyFolder, name: str, metric: Metric) -> float:
    """The number of a run that a cell shows; nan where the run or its analysis is missing."""
    run = RunDir(folder.folder(name))
    if metric.source == "timing":
        return _mean_of_lines(run.timing, metric.name)
    if metric.source == "test":
        with as_written(run.summary):
            return _number(_read(run.summary).get("test", {}).get(folder.study.weights, {}).get(metric.name))
    analysis = next((entry for entry in folder.analyses if entry.name == metric.source), None)
    if analysis is None:
        return math.nan
    call = analysis_call(analysis, folder.runs[name].recipe, folder.study.weights)
    path = result_path(
        run.path,
        call["what"],
        split=call["split"],
        weights=call["weights"],
        options=call["options"],
        data=data_label(call["data"]["name"], call["data"]["options"]) if call["data"] else None,
    )
    with as_written(path):
        return _number(_read(path).get("numbers", {}).get(metric.name, {}).get("value"))


def _values(folder: StudyFolder, cell: Cell) -> Values:
    metric = folder.study.metric_of(cell)
    by_seed = {run.seed: name for name, run in folder.runs.items() if cell in run.cells}
    seeds = folder.study.scales[folder.scale].seeds
    return {seed: run_number(folder, by_seed[seed], metric) if seed in by_seed else math.nan for seed in seeds}


def _compared(folder: StudyFolder, values: Mapping[Cell, Values]) -> dict[Cell, PairedComparison]:
    found = {}
    for group in comparisons(folder.study, folder.scale):
        columns = {arm: list(values[cell].values()) for arm, cell in group.cells.items()}
        metric = folder.study.metric_of(next(iter(group.cells.values())))
        for arm, comparison in _comparisons(columns, folder.study.baseline, metric).items():
            found[group.cells[arm]] = comparison
    return found


def _comparisons(columns: Mapping[str, list[float]], baseline: str, metric: Metric) -> dict[str, PairedComparison]:
    return compare_losses(columns, baseline, direction=metric.direction, margin=metric.stored_margin)


def _table(
    study: Study, scale: Any, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]
) -> dict[str, Any]:
    published = {(number.row, number.column): number for number in study.published_numbers()}
    cells: dict[str, dict[str, Any]] = {}
    for cell in study.cells():
        metric, comparison = study.metric_of(cell), compared.get(cell)
        arm = (study.row(cell.row) if study.compared_axis == "rows" else study.column(cell.column)).compared_as
        printed = published.get((cell.row, cell.column))
        cells.setdefault(cell.row, {})[cell.column] = {
            **_spread(values[cell], metric),
            "is_baseline": arm == study.baseline,
            "is_bold": comparison is not None and comparison.is_conclusive,
            "left_out": study.left_out(scale, cell),
            "comparison": None if comparison is None else comparison.as_dict(),
            "difference_text": "" if comparison is None else _difference_text(comparison, metric),
            "published": None
            if printed is None
            else {
                "text": metric.text(printed.mean, printed.std),
                "mean": printed.mean,
                "std": printed.std,
                "label": printed.label,
            },
        }
    entries = {
        axis: [{"name": entry.name, "title": entry.title, "group": entry.group} for entry in getattr(study, axis)]
        for axis in ("rows", "columns")
    }
    return {"corner": "", **entries, "cells": cells}


def _losses(
    study: Study, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]
) -> list[dict[str, Any]]:
    """One entry an arm, with every number it has in the table."""
    is_by_row = study.compared_axis == "rows"
    arms, others = (study.rows, study.columns) if is_by_row else (study.columns, study.rows)
    losses = []
    for arm in arms:
        metrics = {}
        for other in others:
            cell = Cell(arm.name, other.name) if is_by_row else Cell(other.name, arm.name)
            comparison = compared.get(cell)
            metrics[other.name] = {
                **_spread(values[cell], study.metric_of(cell)),
                "difference": None if comparison is None else comparison.mean_difference,
                "low": None if comparison is None else comparison.low,
                "high": None if comparison is None else comparison.high,
                "p": None if comparison is None else comparison.p_value,
                "adjusted_p": None if comparison is None else comparison.adjusted_p,
                "is_conclusive": comparison is not None and comparison.is_conclusive,
                "is_better": comparison is not None and comparison.is_better,
                "is_equivalent": comparison is not None and comparison.is_equivalent,
                "holds_after_correction": comparison is not None and comparison.holds_after_correction,
                "num_pairs": 0 if comparison is None else comparison.num_pairs,
            }
        losses.append(
            {
                "loss": arm.compared_as,
                "title": arm.title,
                "group": arm.group,
                "is_baseline": arm.compared_as == study.baseline,
                "metrics": metrics,
            }
        )
    return losses


def _metrics(study: Study) -> list[dict[str, Any]]:
    others = study.columns if study.compared_axis == "rows" else study.rows
    return [
        {
            "name": entry.name,
            "column": entry.title,
            "group": entry.group,
            **(entry.metric or study.metric).model_dump(
                include={"title", "unit", "direction", "digits", "factor", "margin"}
            ),
        }
        for entry in others
    ]


def _verdicts(folder: StudyFolder, values: Mapping[Cell, Values]) -> list[dict[str, Any]]:
    """Under each comparison, what it shows in words."""
    study, verdicts = folder.study, []
    groups = comparisons(study, folder.scale)
    named = study.column if study.compared_axis == "rows" else study.row
    shown = [(group.group, study.metric_of(next(iter(group.cells.values()))).title) for group in groups]
    for group in groups:
        columns = {arm: list(values[cell].values()) for arm, cell in group.cells.items()}
        metric = study.metric_of(next(iter(group.cells.values())))
        found = _comparisons(columns, study.baseline, metric)
        unit = "points" if metric.unit == "%" else metric.unit
        quantity = Quantity(metric.title, unit, metric.factor, metric.digits)
        # The same number in several columns: only the column tells them apart.
        other = named(group.other)
        column = (other.group, other.title) if shown.count((group.group, metric.title)) > 1 else ()
        titles = [word for word in (group.group, *column, metric.title) if word]
        verdicts.append({"title": ", ".join(titles), "sentences": verdict_sentences(found, study.baseline, quantity)})
    return verdicts


def _spread(values: Values, metric: Metric) -> dict[str, Any]:
    numbers = [value for value in values.values() if math.isfinite(value)]
    mean = fmean(numbers) if numbers else math.nan
    std = stdev(numbers) if len(numbers) > 1 else math.nan
    text = "-"
    if numbers:
        text = metric.text(mean * metric.factor, std * metric.factor if len(numbers) > 1 else None)
    return {"text": text, "mean": mean, "std": std, "values": {str(seed): value for seed, value in values.items()}}


def _difference_text(comparison: PairedComparison, metric: Metric) -> str:
    """``+0.31 [0.10, 0.52]``; without an interval where there are too few seeds for one."""
    if not comparison.num_pairs:
        return ""
    text = f"{comparison.mean_difference * metric.factor:+.{metric.digits}f}"
    if comparison.num_pairs < MIN_SEEDS or math.isnan(comparison.low):
        return text
    low, high = (f"{end * metric.factor:+.{metric.digits}f}" for end in (comparison.low, comparison.high))
    return f"{text} [{low}, {high}]"


def _run_entry(folder: StudyFolder, name: str, run: PlannedRun) -> dict[str, Any]:
    path = folder.folder(name)
    status, sentence = "done" if RunDir(path).summary.exists() else "missing", ""
    if (path / JOB).exists():  # runs that no study made have none
        state = read_state(Job(name, path, run.recipe.epochs))
        status, sentence = state.status if state.is_final else "missing", state.sentence
    place = os.path.relpath(path.resolve(), folder.path.resolve())
    return {
        "folder": place,
        "arm": run.arm,
        "loss": run.recipe.loss.name,
        "seed": run.seed,
        "status": status,
        "sentence": sentence,
        "log": None if status == "done" else os.path.join(place, LOG),
    }


def _environment(folder: StudyFolder) -> dict[str, Any]:
    """What the first finished run recorded about where it ran; the same for the same folder."""
    for name in folder.runs:
        path = RunDir(folder.folder(name)).env
        record = _read(path)
        with as_written(path):
            if not record:
                continue
            plain = ("maxsup", "python", "device", "cpu", "num_cores", "git_commit")
            return {"torch": record["packages"].get("torch"), **{key: record.get(key) for key in plain}}
    return {}


def _mean_of_lines(path: Path, key: str) -> float:
    with as_written(path):
        numbers = [float(line[key]) for line in read_json_lines(path)]
    return fmean(numbers) if numbers else math.nan


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if os.path.lexists(path) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
