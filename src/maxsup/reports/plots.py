"""Figures of what a summary holds: every seed, paired differences, published numbers against ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

from maxsup.figures.charts import few_ticks
from maxsup.figures.style import GREY, Look, panels, run_looks, styled
from maxsup.reports.page import Column, Plot, Table
from maxsup.reports.summary import Summary, SummaryLoss, SummaryMetric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 6.6
"""Width of a figure that takes the whole page, in inches."""

INK = "#000000"
SOFT = "#5a5a5a"

_PER_ROW = 3
_BETTER = {"higher": "right is better", "lower": "left is better"}


def seeds_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Every run as a dot, a panel a metric; runs with the same seed are joined."""
    losses, metrics = summary.losses, _measured(summary)
    if not metrics:
        return None
    looks = arm_looks(summary)
    rows: list[list[Any]] = []
    with styled():
        figure, grid = _small_multiples(len(metrics), len(losses), [looks[entry.loss].label for entry in losses])
        for axes, metric in zip(grid, metrics, strict=True):
            values = [_values(entry, metric) for entry in losses]
            for seed in summary.seeds:
                track = [found.get(str(seed), math.nan) for found in values]
                axes.plot(track, range(len(losses)), color=GREY, linewidth=0.5, alpha=0.55, zorder=1)
            for place, (entry, found) in enumerate(zip(losses, values, strict=True)):
                look = looks[entry.loss]
                dots = [value for value in found.values() if math.isfinite(value)]
                axes.plot(
                    dots,
                    [place] * len(dots),
                    marker=look.marker,
                    linestyle="none",
                    color=look.color,
                    markersize=3.6,
                    alpha=0.8,
                    zorder=2,
                )
                if dots:
                    mean = sum(dots) / len(dots)
                    axes.plot([mean, mean], [place - 0.32, place + 0.32], color=INK, linewidth=1.4, zorder=3)
                rows += [[metric.label, entry.title, int(seed), value] for seed, value in found.items()]
            _name_axis(axes, metric, unit=metric.unit)
    columns = [Column("metric", is_number=False), Column("loss", is_number=False), Column("seed"), Column("value", 6)]
    return Plot(
        f"{prefix}seeds",
        "Every run",
        "A dot a run, a bar for the mean; thin lines join runs with the same seed, which had the same initial weights "
        "and the same order of images. Lines that cross say that the seed decides; parallel lines, that the loss does.",
        figure,
        Table("Every run", columns, rows),
    )


def differences_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Paired differences to the baseline with their intervals, a panel a metric."""
    losses = [entry for entry in summary.losses if not entry.is_baseline]
    metrics = [
        metric for metric in _measured(summary) if any(entry.number(metric).difference is not None for entry in losses)
    ]
    if not metrics or not losses:
        return None
    looks = arm_looks(summary)
    rows: list[list[Any]] = []
    with styled():
        figure, grid = _small_multiples(len(metrics), len(losses), [looks[entry.loss].label for entry in losses])
        for axes, metric in zip(grid, metrics, strict=True):
            axes.axvline(0, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
            for place, entry in enumerate(losses):
                found, look = entry.number(metric), looks[entry.loss]
                if found.difference is None:
                    continue
                centre, low, high = (_scaled(end, metric.factor) for end in (found.difference, found.low, found.high))
                if math.isfinite(low) and math.isfinite(high):
                    axes.plot([low, high], [place, place], color=look.color, linewidth=1.6, solid_capstyle="butt")
                face = look.color if found.is_conclusive else "white"
                axes.plot(
                    [centre],
                    [place],
                    marker=look.marker,
                    linestyle="none",
                    color=look.color,
                    markerfacecolor=face,
                    markersize=4.5,
                )
                rows.append([metric.label, entry.title, centre, low, high, found.p, found.adjusted_p])
            _name_axis(axes, metric, note=_BETTER.get(metric.direction, ""), unit=metric.difference_unit)
            _hold_zero(axes)
    columns = [Column("metric", is_number=False), Column("loss", is_number=False)]
    columns += [Column(name, 6) for name in ("difference", "low", "high", "p", "Holm p")]
    return Plot(
        f"{prefix}differences",
        f"Difference to {summary.baseline}",
        "Mean of the paired differences with its 95 % interval, where there are seeds enough for one; filled where the "
        "difference may be printed bold, hollow where nothing can be concluded. On the dashed line the two are equal.",
        figure,
        Table("Differences", columns, rows),
    )


def published_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Our means against those of the paper, with the line on which they would be equal."""
    points: dict[str, list[tuple[Any, ...]]] = {}
    looks = arm_looks(summary)
    metrics = {metric.name: metric for metric in summary.metrics}
    for row, column, cell in summary.table.filled():
        published, metric = cell.published, metrics.get(column.name) or metrics.get(row.name)
        if published is None or published.mean is None or cell.mean is None or metric is None:
            continue
        arm = row.name if metric.name == column.name else column.name
        ours, std = metric.printed(cell.mean), _scaled(cell.std, metric.factor)
        entry = (row.title, column.title, published.mean, ours, std, published.label, looks.get(arm))
        points.setdefault(f"{metric.title} ({metric.unit})" if metric.unit else metric.title, []).append(entry)
    if not points:
        return None
    used: dict[str, Look] = {}
    with styled():
        count = len(points)
        figure, [*grid] = panels(math.ceil(count / 3), min(3, count), width=2.3 * min(3, count) + 0.9, height=2.6)
        flat = [axes for line in grid for axes in line]
        for axes, (title, found) in zip(flat, points.items(), strict=False):
            for _, _, paper, ours, std, _, look in found:
                look = look or Look("", GREY, "o")
                used[look.label] = look
                axes.errorbar(
                    [paper],
                    [ours],
                    yerr=None if math.isnan(std) else [[std], [std]],
                    marker=look.marker,
                    linestyle="none",
                    color=look.color,
                    markersize=4.5,
                    elinewidth=0.8,
                )
            axes.margins(0.15)
            _identity(axes)
            axes.set_xlabel(f"published {tamed(title)}")
            axes.set_ylabel("measured here")
            few_ticks(axes, count=4)
            few_ticks(axes, axis="y", count=4)
            axes.grid()
        for axes in flat[count:]:
            axes.set_visible(False)
        _legend(figure, [look for look in used.values() if look.label])
    rows = [[title, *entry[:6]] for title, found in points.items() for entry in found]
    columns = [Column(name, is_number=False) for name in ("metric", "row", "column")]
    columns += [Column(name, 4) for name in ("published", "measured", "std")] + [Column("label", is_number=False)]
    scale = f" Ours are of the {summary.scale} scale: other data, another network." if summary.is_reduced else ""
    return Plot(
        f"{prefix}published",
        "Published against measured",
        f"A dot a cell of the table, bars are one standard deviation; on the dashed line both are equal.{scale}",
        figure,
        Table("Published against measured", columns, rows),
    )


def arm_looks(summary: Summary) -> dict[str, Look]:
    """Colour and marker of each arm, which are those of its loss."""
    losses = {run.arm: run.loss for run in summary.runs}
    entries = {arm: {"facts": {"loss": losses.get(arm, "")}} for arm in summary.arm_titles}
    return {arm: replace(look, label=tamed(summary.arm_titles[arm])) for arm, look in run_looks(entries).items()}


def tamed(text: str, limit: int = 28) -> str:
    r"""Text for a figure: no longer than it can show, and never taken for a formula.

    Example:
        >>> tamed("$x$ and a long rest", 10)
        '\\$x\\$ and a…'
    """
    short = " ".join(text.split())
    short = short if len(short) <= limit else f"{short[: limit - 1]}…"
    return short.replace("$", r"\$")


def _measured(summary: Summary) -> list[SummaryMetric]:
    """Metrics that some run has."""
    return [
        metric for metric in summary.metrics if any(entry.number(metric).mean is not None for entry in summary.losses)
    ]


def _values(entry: SummaryLoss, metric: SummaryMetric) -> dict[str, float]:
    return {seed: _scaled(value, metric.factor) for seed, value in entry.number(metric).values.items()}


def _scaled(value: float | None, factor: float) -> float:
    return math.nan if value is None else value * factor


def _small_multiples(count: int, num_rows: int, labels: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Panels side by side and under one another that share their named rows."""
    lines = math.ceil(count / _PER_ROW)
    width = WIDE if count >= _PER_ROW else 0.6 + (WIDE - 0.6) * count / _PER_ROW
    figure, grid = panels(
        lines,
        min(_PER_ROW, count),
        height=lines * (0.62 + 0.19 * num_rows),
        width=max(3.0, width),
        sharey=True,
    )
    flat = [axes for line in grid for axes in line]
    for axes in flat[count:]:
        axes.set_visible(False)
    flat[0].set_yticks(range(num_rows), list(labels))
    flat[0].set_ylim(num_rows - 0.5, -0.5)
    return figure, flat[:count]


def _name_axis(axes: Axes, metric: SummaryMetric, note: str = "", unit: str = "") -> None:
    unit = f" ({unit})" if unit else ""
    axes.set_title(fill(f"{tamed(metric.label, 54)}{unit}", 30), loc="left", fontweight="bold")
    if note:
        axes.set_xlabel(note, color=SOFT, fontsize=6)
    axes.grid(axis="x")
    axes.margins(x=0.08)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    few_ticks(axes, count=4)


def _hold_zero(axes: Axes) -> None:
    """Zero away from the edge: which side something is on is what the panel is about."""
    low, high = axes.get_xlim()
    reach = max(abs(low), abs(high)) * 0.12
    axes.set_xlim(min(low, -reach), max(high, reach))


def _identity(axes: Axes) -> None:
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")


def _legend(figure: Figure, looks: Sequence[Look]) -> None:
    from maxsup.figures.style import legend_above

    if looks:
        legend_above(figure, looks, has_lines=False)
