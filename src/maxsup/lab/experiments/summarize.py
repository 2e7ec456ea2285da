"""What a study found: numbers read back from its run directories, compared seed by seed, as one JSON object."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxsup import __version__
from maxsup.lab.core.files.reading import as_written, read_json
from maxsup.lab.core.files.records import PROTOCOL
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.execution.launch import Job, read_state
from maxsup.lab.experiments.execution.study_folder import StudyFolder
from maxsup.lab.experiments.execution.worker import JOB, LOG
from maxsup.lab.experiments.run import Result
from maxsup.lab.experiments.statistics import compare_losses, mean_and_std
from maxsup.lab.experiments.table import Cell, ComparedCells, Line, Metric, Table
from maxsup.lab.experiments.verdicts import BOLD_RULE, conclusions, verdict_sentences
from maxsup.lab.reports.summary import (
    LossNumber,
    PairedComparison,
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

Values = dict[int, float]
"""One number per seed; nan where a run is missing."""


class _Group(NamedTuple):
    """Losses that are compared with one another by one number."""

    cells: ComparedCells
    metric: Metric
    found: dict[str, PairedComparison]


def summarize(folder: StudyFolder) -> Summary:
    """Read all runs back, compare them, and write ``summary.json``."""
    design, table = folder.design, folder.design.table
    results = folder.results()
    values = {cell: _values(design, results, cell) for cell in table.cells()}
    groups = [_group(table, cells, values) for cells in table.comparisons()]
    compared = {group.cells.cells[arm]: found for group in groups for arm, found in group.found.items()}
    metrics = [
        _printed_metric(other.metric or table.metric, name=other.name, column=other.title, group=other.group)
        for other in table.others
    ]
    losses = _losses(table, values, compared)
    same = {"name", "kind", "title", "label", "question", "scale", "note", "stated", "unstated", "errata"}
    summary = Summary(
        **design.model_dump(include=same),
        version=__version__,
        protocol=PROTOCOL,
        baseline=table.baseline,
        seeds=design.seeds,
        environment=_environment(folder),
        runs=[_run_entry(folder, name) for name in folder.runs],
        metrics=metrics,
        losses=losses,
        conclusions=conclusions(losses, metrics, table.baseline),
        table=_table(table, values, compared),
        verdicts=_verdicts(table, groups),
        bold_rule=BOLD_RULE,
    )
    RunDir(folder.path).write_json(folder.path / "summary.json", summary.model_dump(mode="json"))
    return summary


def _values(design: Design, results: Sequence[Result], cell: Cell) -> Values:
    place, metric = design.table.place(cell), design.table.metric_of(cell)
    if place is None:
        return dict.fromkeys(design.seeds, math.nan)
    return results[place.experiment].numbers(place.arm, f"{metric.source}.{metric.name}")


def _group(table: Table, cells: ComparedCells, values: Mapping[Cell, Values]) -> _Group:
    columns = {arm: list(values[cell].values()) for arm, cell in cells.cells.items()}
    metric = table.metric_of(next(iter(cells.cells.values())))
    margin = None if metric.margin is None else metric.margin / metric.factor
    found = compare_losses(columns, table.baseline, direction=metric.direction, margin=margin)
    return _Group(cells, metric, found)


def _table(table: Table, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]) -> SummaryTable:
    published = {Cell(number.row, number.column): number for number in table.published_numbers()}
    cells: dict[str, dict[str, SummaryCell]] = {}
    for cell in table.cells():
        metric, comparison, printed = table.metric_of(cell), compared.get(cell), published.get(cell)
        paper = None
        if printed is not None:
            text = metric.text(printed.mean, printed.std)
            paper = PublishedCell(text=text, mean=printed.mean, std=printed.std, label=printed.label)
        cells.setdefault(cell.row, {})[cell.column] = SummaryCell(
            **_spread(values[cell], metric),
            is_baseline=table.arm(cell) == table.baseline,
            is_bold=comparison is not None and comparison.is_conclusive,
            left_out=table.left_out(cell),
            comparison=comparison,
            difference_text="" if comparison is None else _difference_text(comparison, _printed_metric(metric)),
            published=paper,
        )

    def lines(axis: Sequence[Line]) -> list[SummaryEntry]:
        return [SummaryEntry(name=line.name, title=line.title, group=line.group) for line in axis]

    return SummaryTable(rows=lines(table.rows), columns=lines(table.columns), cells=cells)


def _losses(
    table: Table, values: Mapping[Cell, Values], compared: Mapping[Cell, PairedComparison]
) -> list[SummaryLoss]:
    """Return one entry per arm, with every number it has in the table."""
    losses = []
    for arm in table.arms:
        metrics, loss = {}, arm.arm_name
        for other in table.others:
            cell = table.cell(arm, other)
            numbers = _spread(values[cell], table.metric_of(cell))
            found = compared.get(cell)
            metrics[other.name] = LossNumber(**numbers, **({} if found is None else found.model_dump()))
        is_baseline = loss == table.baseline
        losses.append(
            SummaryLoss(loss=loss, title=arm.title, group=arm.group, is_baseline=is_baseline, metrics=metrics)
        )
    return losses


def _printed_metric(metric: Metric, **place: Any) -> SummaryMetric:
    printed = metric.model_dump(include={"title", "unit", "direction", "digits", "factor", "margin"})
    return SummaryMetric(**place, **printed)


def _verdicts(table: Table, groups: Sequence[_Group]) -> list[SummaryVerdict]:
    """Return what each comparison shows, in words."""
    others = {other.name: other for other in table.others}
    shown = [(group.cells.group, group.metric.title) for group in groups]
    verdicts = []
    for cells, metric, found in groups:
        # If several columns show the same number, only the column tells them apart.
        other = others[cells.other]
        column = (other.group, other.title) if shown.count((cells.group, metric.title)) > 1 else ()
        title = ", ".join(word for word in (cells.group, *column, metric.title) if word)
        sentences = verdict_sentences(found, table.baseline, _printed_metric(metric))
        verdicts.append(SummaryVerdict(title=title, sentences=sentences))
    return verdicts


def _spread(values: Values, metric: Metric) -> dict[str, Any]:
    mean, std = mean_and_std(values.values())
    text = "-"
    if not math.isnan(mean):
        text = metric.text(mean * metric.factor, None if math.isnan(std) else std * metric.factor)
    return {"text": text, "mean": mean, "std": std, "values": {str(seed): value for seed, value in values.items()}}


def _difference_text(comparison: PairedComparison, metric: SummaryMetric) -> str:
    """``+0.31 [0.10, 0.52]``; without the interval if there are too few seeds for one."""
    finding = comparison.finding()
    if finding == "nothing":
        return ""
    text = metric.signed(comparison.difference)
    if finding == "too few seeds" or math.isnan(comparison.low):
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
    """Return where the first finished run ran, as it recorded."""
    for name in folder.runs:
        path = RunDir(folder.folder(name)).env
        record = read_json(path) if os.path.lexists(path) else {}
        if record:
            plain = ("maxsup", "python", "device", "cpu", "num_cores", "git_commit")
            with as_written(path):
                known = {"torch": record["packages"].get("torch"), **{key: record.get(key) for key in plain}}
            return known | _unrepeatable(folder, str(known["device"]))
    return {}


def _unrepeatable(folder: StudyFolder, device: str) -> dict[str, str]:
    """Return how many runs would not repeat their last bits; a CPU always does."""
    recipes = [run.recipe for run in folder.runs.values()]
    number = sum(not recipe.deterministic for recipe in recipes)
    if device == "cpu" or number == 0:
        return {}
    return {"kernels": f"not deterministic in {number} of {len(recipes)} runs (deterministic=false)"}
