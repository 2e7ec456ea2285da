"""Losses against one another: every seed, differences to the baseline, published numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from maxsup.figures.charts import few_ticks, flat_panels, name_rows, plain_grid
from maxsup.figures.style import GREY, INK, SOFT, WIDE, Look, legend_above, short_text, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PER_ROW = 3
_DASHES: Any = (0, (3, 2))


class Difference(NamedTuple):
    """A mean difference to the baseline, the ends of its interval, and whether anything can be concluded."""

    mean: float
    low: float
    high: float
    is_conclusive: bool


class Point(NamedTuple):
    """A published number, ours, and our standard deviation, ``nan`` of one seed; grey without a look."""

    look: Look | None
    published: float
    measured: float
    std: float


@styled()
def seeds_figure(metrics: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]], looks: Mapping[str, Look]) -> Figure:
    """Every run as a dot, a panel a metric, a bar for the mean; runs with the same seed are joined.

    ``metrics`` are the title of a panel and its values by loss and seed; every loss of ``looks`` has a row.
    """
    figure, grid = _rows_of_losses(len(metrics), looks)
    for axes, (title, found) in zip(grid, metrics, strict=True):
        for seed in dict.fromkeys(seed for values in found.values() for seed in values):
            track = [found.get(loss, {}).get(seed, math.nan) for loss in looks]
            axes.plot(track, range(len(looks)), color=GREY, linewidth=0.5, alpha=0.55, zorder=1)
        for place, (loss, look) in enumerate(looks.items()):
            dots = [value for value in found.get(loss, {}).values() if math.isfinite(value)]
            axes.plot(dots, [place] * len(dots), markersize=3.6, alpha=0.8, zorder=2, **look.marks)
            if dots:
                mean = fmean(dots)
                axes.plot([mean, mean], [place - 0.32, place + 0.32], color=INK, linewidth=1.4, zorder=3)
        _name_panel(axes, title)
    return figure


@styled()
def differences_figure(
    metrics: Sequence[tuple[str, str, Mapping[str, Difference]]], looks: Mapping[str, Look]
) -> Figure:
    """Paired differences with their intervals, a panel a metric; hollow where nothing can be concluded.

    ``metrics`` are the title of a panel, what stands below it, and differences by loss.
    """
    figure, grid = _rows_of_losses(len(metrics), looks)
    for axes, (title, note, found) in zip(grid, metrics, strict=True):
        axes.axvline(0, color=GREY, linewidth=0.8, linestyle=_DASHES, zorder=1)
        for place, (loss, look) in enumerate(looks.items()):
            if loss not in found:
                continue
            mean, low, high, is_conclusive = found[loss]
            if math.isfinite(low) and math.isfinite(high):
                axes.plot([low, high], [place, place], color=look.color, linewidth=1.6, solid_capstyle="butt")
            marks = look.marks if is_conclusive else look.marks | {"markerfacecolor": "white"}
            axes.plot([mean], [place], markersize=4.5, **marks)
        _name_panel(axes, title)
        if note:
            axes.set_xlabel(note, color=SOFT, fontsize=6)
        _hold_zero(axes)
    return figure


@styled()
def published_figure(metrics: Mapping[str, Sequence[Point]]) -> Figure:
    """Our means against those of the paper, a panel a metric, with the line on which they would be equal."""
    num_columns = min(_PER_ROW, len(metrics))
    figure, grid = flat_panels(len(metrics), height=2.6, width=2.3 * num_columns + 0.9)
    for axes, (title, points) in zip(grid, metrics.items(), strict=True):
        for look, published, measured, std in points:
            shown = (look or Look("", GREY, "o")).marks
            error = None if math.isnan(std) else [[std], [std]]
            axes.errorbar([published], [measured], yerr=error, markersize=4.5, elinewidth=0.8, **shown)
        axes.margins(0.15)
        _draw_identity(axes)
        axes.set(xlabel=f"published {short_text(title)}", ylabel="measured here")
        plain_grid(axes)
    looks = {point.look.label: point.look for points in metrics.values() for point in points if point.look}
    if looks:
        legend_above(figure, looks.values(), has_lines=False)
    return figure


def _rows_of_losses(count: int, looks: Mapping[str, Look]) -> tuple[Figure, list[Axes]]:
    """Panels that share their rows, a row a loss."""
    width = WIDE if count >= _PER_ROW else max(3.0, 0.6 + (WIDE - 0.6) * count / _PER_ROW)
    figure, grid = flat_panels(count, per_row=_PER_ROW, height=0.62 + 0.19 * len(looks), width=width, sharey=True)
    name_rows(grid, [look.label for look in looks.values()])
    return figure, grid


def _name_panel(axes: Axes, title: str) -> None:
    axes.set_title(fill(short_text(title, 60), 30), loc="left", fontweight="bold")
    axes.grid(axis="x")
    axes.margins(x=0.08)
    axes.spines["left"].set_visible(False)
    few_ticks(axes, count=4)


def _hold_zero(axes: Axes) -> None:
    """Zero away from the edge: which side something is on is what the panel is about."""
    low, high = axes.get_xlim()
    reach = max(abs(low), abs(high)) * 0.12
    axes.set_xlim(min(low, -reach), max(high, reach))


def _draw_identity(axes: Axes) -> None:
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=_DASHES, zorder=1)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
