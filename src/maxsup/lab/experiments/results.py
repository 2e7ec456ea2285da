"""What a study found: numbers read back from its run directories, compared seed by seed, as one JSON object."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from maxsup import __version__
from maxsup.lab.core.files.reading import as_written, read_json, read_json_lines
from maxsup.lab.core.files.records import AnalysisResult, RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.entries import Cell, Entry, Metric
from maxsup.lab.experiments.execution.launch import Job, read_state
from maxsup.lab.experiments.execution.study_folder import StudyFolder, analysis_call, request_path
from maxsup.lab.experiments.execution.worker import JOB, LOG
from maxsup.lab.experiments.expansion import ComparedCells, comparisons
from maxsup.lab.experiments.schema import ScaleName, Study
from maxsup.lab.experiments.statistics import MIN_SEEDS, PairedComparison, compare_losses, spread
from maxsup.lab.experiments.verdicts import BOLD_RULE, conclusions, verdict_sentences
from maxsup.lab.reports.summary import (
    CellComparison,
    LossNumber,
    PublishedCell,
    Summary,
    SummaryCell,
    SummaryEntry,
    SummaryLoss,
    SummaryMetric,
    SummaryRun,
    SummaryTable,
    SummaryVerdict,
)

PROTOCOL = 1
"""Version of how the numbers are made; it changes when they would."""

Values = dict[int, float]
"""One number per seed; nan where a run is missing."""

# What a folder holds, by the name of its study; others are studies of the paper.
_KINDS = {"compare": "comparison", "runs": "runs"}


class _Group(NamedTuple):
    """Losses that are compared with one another by one number."""

    cells: ComparedCells
    metric: Metric
    found: dict[str, PairedComparison]


def summarize(folder: StudyFolder) -> Summary:
    """Read all runs back, compare them, and write ``summary.json``."""
    study, scale, kind = folder.study, folder.scale, _KINDS.get(folder.study.name, "study")
    values = {cell: _values(folder, cell) for cell in study.cells()}
    groups = [_group(study, cells, values) for cells in comparisons(study, scale)]
    compared = {group.cells.cells[arm]: found for group in groups for arm, found in group.found.items()}
    metrics = [
        _as_printed(other.metric or study.metric, name=other.name, column=other.title, group=other.group)
        for other in study.others
    ]
    losses = _losses(study, values, compared)
    same = {"name", "title", "question", "stated", "unstated", "errata", "baseline"}
    summary = Summary(
        **study.model_dump(include=same),
        version=__version__,
        protocol=PROTOCOL,
        kind=kind,
        label=study.label if kind == "study" else "",
        scale=scale if kind == "study" else "",
        note=study.scales[scale].note,
        seeds=study.scales[scale].seeds,
        environment=_environment(folder),
        runs=[_run_entry(folder, name) for name in folder.runs],
        metrics=metrics,
        losses=losses,
        conclusions=conclusions(losses, metrics, study.baseline),
        table=_table(study, scale, values, compared),
        verdicts=_verdicts(study, groups),
        bold_rule=BOLD_RULE,
    )
    RunDir(folder.path).write_json(folder.path / "summary.json", summary.model_dump(mode="json"))
    return summary


def _values(folder: StudyFolder, cell: Cell) -> Values:
    metric = folder.study.metric_of(cell)
    by_seed = {run.seed: name for name, run in folder.runs.items() if cell in run.cells}
    seeds = folder.study.scales[folder.scale].seeds
    return {seed: _run_number(folder, by_seed[seed], metric) if seed in by_seed else math.nan for seed in seeds}


def _run_number(folder: StudyFolder, name: str, metric: Metric) -> float:
    """The number of a run that a cell shows; nan if the run or its analysis is missing."""
    run, value = RunDir(folder.folder(name)), None
    if metric.source == "timing":
        with as_written(run.timing):
            seconds = [float(line[metric.name]) for line in read_json_lines(run.timing)]
        return fmean(seconds) if seconds else math.nan
    if metric.source == "test":
        if os.path.lexists(run.summary):
            tested = read_record(RunSummary, run.summary).test.get(folder.study.weights) or {}
            value = tested.get(metric.name)
    elif analysis := next((entry for entry in folder.analyses if entry.name == metric.source), None):
        path = request_path(run.path, analysis_call(analysis, folder.runs[name].recipe, folder.study.weights))
        value = read_record(AnalysisResult, path).value(metric.name) if os.path.lexists(path) else None
    return float(value) if isinstance(value, int | float) else math.nan


def _group(study: Study, cells: ComparedCells, values: Mapping[Cell, Values]) -> _Group:
    columns = {arm: list(values[cell].values()) for arm, cell in cells.cells.items()}
    metric = study.metric_of(next(iter(cells.cells.values())))
    margin = None if metric.margin is None else metric.margin / metric.factor
    found = compare_losses(columns, study.baseline, direction=metric.direction, margin=margin)
    return _Group(cells, metric, found)


def _table(
    study: Study, scale: ScaleName, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]
) -> SummaryTable:
    published = {Cell(number.row, number.column): number for number in study.published_numbers()}
    cells: dict[str, dict[str, SummaryCell]] = {}
    for cell in study.cells():
        metric, comparison, printed = study.metric_of(cell), compared.get(cell), published.get(cell)
        paper = None
        if printed is not None:
            text = metric.text(printed.mean, printed.std)
            paper = PublishedCell(text=text, mean=printed.mean, std=printed.std, label=printed.label)
        cells.setdefault(cell.row, {})[cell.column] = SummaryCell(
            **_spread(values[cell], metric),
            is_baseline=study.arm(cell) == study.baseline,
            is_bold=comparison is not None and comparison.is_conclusive,
            left_out=study.left_out(scale, cell),
            comparison=None if comparison is None else CellComparison(**comparison.as_dict()),
            difference_text="" if comparison is None else _difference_text(comparison, _as_printed(metric)),
            published=paper,
        )

    def entries(axis: Sequence[Entry]) -> list[SummaryEntry]:
        return [SummaryEntry(name=entry.name, title=entry.title, group=entry.group) for entry in axis]

    return SummaryTable(rows=entries(study.rows), columns=entries(study.columns), cells=cells)


def _losses(
    study: Study, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]
) -> list[SummaryLoss]:
    """One entry per arm, with every number it has in the table."""
    losses = []
    for arm in study.arms:
        metrics, loss = {}, arm.compared_as
        for other in study.others:
            cell = study.cell(arm, other)
            numbers = _spread(values[cell], study.metric_of(cell))
            metrics[other.name] = LossNumber(**numbers, **_difference(compared.get(cell)))
        is_baseline = loss == study.baseline
        found = SummaryLoss(loss=loss, title=arm.title, group=arm.group, is_baseline=is_baseline, metrics=metrics)
        losses.append(found)
    return losses


def _difference(found: PairedComparison | None) -> dict[str, Any]:
    if found is None:
        return {}
    same = ("low", "high", "adjusted_p", "is_conclusive", "is_better", "is_equivalent", "holds_after_correction")
    values = {key: getattr(found, key) for key in (*same, "num_pairs")}
    return {"difference": found.mean_difference, "p": found.p_value, **values}


def _as_printed(metric: Metric, **place: Any) -> SummaryMetric:
    printed = metric.model_dump(include={"title", "unit", "direction", "digits", "factor", "margin"})
    return SummaryMetric(**place, **printed)


def _verdicts(study: Study, groups: Sequence[_Group]) -> list[SummaryVerdict]:
    """What each comparison shows, in words."""
    others = {other.name: other for other in study.others}
    shown = [(group.cells.group, group.metric.title) for group in groups]
    verdicts = []
    for cells, metric, found in groups:
        # If several columns show the same number, only the column tells them apart.
        other = others[cells.other]
        column = (other.group, other.title) if shown.count((cells.group, metric.title)) > 1 else ()
        title = ", ".join(word for word in (cells.group, *column, metric.title) if word)
        sentences = verdict_sentences(found, study.baseline, _as_printed(metric))
        verdicts.append(SummaryVerdict(title=title, sentences=sentences))
    return verdicts


def _spread(values: Values, metric: Metric) -> dict[str, Any]:
    mean, std = spread(values.values())
    text = "-"
    if not math.isnan(mean):
        text = metric.text(mean * metric.factor, None if math.isnan(std) else std * metric.factor)
    return {"text": text, "mean": mean, "std": std, "values": {str(seed): value for seed, value in values.items()}}


def _difference_text(comparison: PairedComparison, metric: SummaryMetric) -> str:
    """``+0.31 [0.10, 0.52]``; without the interval if there are too few seeds for one."""
    if not comparison.num_pairs:
        return ""
    text = metric.signed(comparison.mean_difference)
    if comparison.num_pairs < MIN_SEEDS or math.isnan(comparison.low):
        return text
    return f"{text} [{metric.signed(comparison.low)}, {metric.signed(comparison.high)}]"


def _run_entry(folder: StudyFolder, name: str) -> SummaryRun:
    path, run = folder.folder(name), folder.runs[name]
    status, sentence = "done" if RunDir(path).summary.exists() else "missing", ""
    if (path / JOB).exists():  # runs that no study made have none
        state = read_state(Job(name, path, run.recipe.epochs))
        status, sentence = state.status if state.is_final else "missing", state.sentence
    place = os.path.relpath(path.resolve(), folder.path.resolve())
    return SummaryRun(
        folder=place,
        arm=run.arm,
        loss=run.recipe.loss.name,
        seed=run.seed,
        status=status,
        sentence=sentence,
        log=None if status == "done" else os.path.join(place, LOG),
    )


def _environment(folder: StudyFolder) -> dict[str, Any]:
    """Where the first finished run ran, as it recorded."""
    for name in folder.runs:
        path = RunDir(folder.folder(name)).env
        record = read_json(path) if os.path.lexists(path) else {}
        if record:
            plain = ("maxsup", "python", "device", "cpu", "num_cores", "git_commit")
            with as_written(path):
                return {"torch": record["packages"].get("torch"), **{key: record.get(key) for key in plain}}
    return {}
