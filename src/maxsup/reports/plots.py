"""Plots of what a summary holds: every seed, paired differences, published numbers against ours."""

from __future__ import annotations

import math
from typing import Any

from maxsup.figures.comparisons import Difference, Point, differences_figure, published_figure, seeds_figure
from maxsup.figures.style import Look, run_looks
from maxsup.reports.blocks import Plot, csv_text
from maxsup.reports.summary import Summary, SummaryMetric

_BETTER = {"higher": "right is better", "lower": "left is better"}


def seeds_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Every run as a dot, a panel a metric; runs with the same seed are joined."""
    metrics, rows = [], list[list[Any]]()
    for metric in _measured(summary):
        found = {
            entry.loss: {seed: _printed(metric, value) for seed, value in entry.number(metric).values.items()}
            for entry in summary.losses
        }
        metrics.append((_with_unit(metric.label, metric.unit), found))
        rows += [
            [metric.label, entry.title, int(seed), value]
            for entry in summary.losses
            for seed, value in found[entry.loss].items()
        ]
    if not metrics:
        return None
    return Plot(
        f"{prefix}seeds",
        "Every run",
        "A dot a run, a bar for the mean; thin lines join runs with the same seed, which had the same initial weights "
        "and the same order of images. Lines that cross say that the seed decides; parallel lines, that the loss does.",
        seeds_figure(metrics, arm_looks(summary)),
        csv_text(["metric", "loss", "seed", "value"], rows),
    )


def differences_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Paired differences to the baseline with their intervals, a panel a metric."""
    losses = [entry for entry in summary.losses if not entry.is_baseline]
    metrics, rows = [], list[list[Any]]()
    for metric in _measured(summary):
        differences = {}
        for entry in losses:
            found = entry.number(metric)
            if found.difference is None:
                continue
            mean, low, high = (_printed(metric, value) for value in (found.difference, found.low, found.high))
            differences[entry.loss] = Difference(mean, low, high, found.is_conclusive)
            rows.append([metric.label, entry.title, mean, low, high, found.p, found.adjusted_p])
        if differences:
            title = _with_unit(metric.label, metric.difference_unit)
            metrics.append((title, _BETTER.get(metric.direction, ""), differences))
    if not metrics:
        return None
    looks = arm_looks(summary)
    return Plot(
        f"{prefix}differences",
        f"Difference to {summary.baseline_title}",
        "Mean of the paired differences with its 95 % interval, where there are seeds enough for one; filled where the "
        "difference may be printed bold, hollow where nothing can be concluded. On the dashed line the two are equal.",
        differences_figure(metrics, {entry.loss: looks[entry.loss] for entry in losses}),
        csv_text(["metric", "loss", "difference", "low", "high", "p", "Holm p"], rows),
    )


def published_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Our means against those of the paper, with the line on which they would be equal."""
    points, rows = dict[str, list[Point]](), list[list[Any]]()
    looks = arm_looks(summary)
    metrics = {metric.name: metric for metric in summary.metrics}
    for row, column, cell in summary.table.filled():
        published, metric = cell.published, metrics.get(column.name) or metrics.get(row.name)
        if published is None or published.mean is None or cell.mean is None or metric is None:
            continue
        arm = row.name if metric.name == column.name else column.name
        title = _with_unit(metric.title, metric.unit)
        point = Point(looks.get(arm), published.mean, metric.printed(cell.mean), _printed(metric, cell.std))
        points.setdefault(title, []).append(point)
        rows.append([title, row.title, column.title, *point[1:], published.label])
    if not points:
        return None
    scale = f" Ours are of the {summary.scale} scale: other data, another network." if summary.is_reduced else ""
    return Plot(
        f"{prefix}published",
        "Published against measured",
        f"A dot a cell of the table, bars are one standard deviation; on the dashed line both are equal.{scale}",
        published_figure(points),
        csv_text(["metric", "row", "column", "published", "measured", "std", "label"], rows),
    )


def arm_looks(summary: Summary) -> dict[str, Look]:
    """Colour and marker of each arm, which are those of its loss."""
    losses = {run.arm: run.loss for run in summary.runs}
    return run_looks({arm: losses.get(arm, "") for arm in summary.arm_titles}, summary.arm_titles)


def _measured(summary: Summary) -> list[SummaryMetric]:
    """Metrics that some run has."""
    return [
        metric for metric in summary.metrics if any(entry.number(metric).mean is not None for entry in summary.losses)
    ]


def _printed(metric: SummaryMetric, value: float | None) -> float:
    return math.nan if value is None else metric.printed(value)


def _with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title
