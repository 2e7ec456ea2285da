"""Figures of comparisons and studies: seeds, differences, published numbers, curves, strengths and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from maxsup.lab.figures.charts import flat_panels, name_rows
from maxsup.lab.figures.style import GREY, INK, SOFT, WIDE, Look, legend_above, short_text, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float, float, float]]
"""Epoch from 1, and the mean, lowest and highest value over all seeds."""

_PER_ROW = 3
_DASHES: Any = (0, (3, 2))


class Difference(NamedTuple):
    """A mean difference from the baseline with its interval, conclusive or not."""

    mean: float
    low: float
    high: float
    is_conclusive: bool


class Point(NamedTuple):
    """A published number, our mean and our standard deviation (``nan`` for one seed), grey without a look."""

    look: Look | None
    published: float
    measured: float
    std: float


@styled()
def seeds_figure(metrics: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]], looks: Mapping[str, Look]) -> Figure:
    """Draw a panel per metric: a dot for every run, a bar for the mean, lines between runs with the same seed.

    ``metrics`` hold the title of a panel and its values by loss and seed. Every loss of ``looks`` has a row.
    """
    figure, grid = _rows_of_losses(len(metrics), looks)
    for axes, (title, found) in zip(grid, metrics, strict=True):
        for seed in dict.fromkeys(seed for values in found.values() for seed in values):
            track = [found.get(loss, {}).get(seed, math.nan) for loss in looks]
            axes.plot(track, range(len(looks)), color=GREY, linewidth=0.5, alpha=0.55, zorder=1)
        for place, (loss, look) in enumerate(looks.items()):
            dots = [value for value in found.get(loss, {}).values() if math.isfinite(value)]
            axes.plot(dots, [place] * len(dots), markersize=3.6, alpha=0.8, zorder=2, **look.filled_marks)
            if dots:
                mean = fmean(dots)
                axes.plot([mean, mean], [place - 0.32, place + 0.32], color=INK, linewidth=1.4, zorder=3)
        _name_panel(axes, title)
    return figure


@styled()
def differences_figure(
    metrics: Sequence[tuple[str, str, Mapping[str, Difference]]], looks: Mapping[str, Look]
) -> Figure:
    """Draw a panel per metric with paired differences and their intervals. Hollow marks are inconclusive.

    ``metrics`` hold the title of a panel, the note below it, and differences by loss.
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
            axes.plot([mean], [place], markersize=4.5, **(look.filled_marks if is_conclusive else look.hollow_marks))
        _name_panel(axes, title)
        axes.set_xlabel(note, color=SOFT, fontsize=6)
        # Keep zero away from the edge, so that both sides of it are visible.
        low, high = axes.get_xlim()
        reach = max(abs(low), abs(high)) * 0.12
        axes.set_xlim(min(low, -reach), max(high, reach))
    return figure


@styled()
def published_figure(metrics: Mapping[str, Sequence[Point]]) -> Figure:
    """Draw a panel per metric: our means against those of the paper, with the identity line."""
    figure, grid = flat_panels(len(metrics), height=2.6, width=2.3 * min(_PER_ROW, len(metrics)) + 0.9)
    for axes, (title, points) in zip(grid, metrics.items(), strict=True):
        for look, published, measured, std in points:
            error = None if math.isnan(std) else [[std], [std]]
            marks = (look or Look("", GREY, "o")).marks
            axes.errorbar([published], [measured], yerr=error, markersize=4.5, elinewidth=0.8, **marks)
        axes.margins(0.15)
        low, high = min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=_DASHES, zorder=1)
        axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        axes.set(xlabel=f"published {short_text(title)}", ylabel="measured here")
        axes.grid()
        axes.locator_params(nbins=4)
    looks = {point.look.label: point.look for points in metrics.values() for point in points if point.look}
    if looks:
        legend_above(figure, looks.values(), has_lines=False)
    return figure


@styled()
def training_figure(curves: Mapping[str, Mapping[str, Curve]], looks: Mapping[str, Look]) -> Figure:
    """Draw a panel per quantity: the mean over seeds of each label, and a band from minimum to maximum."""
    figure, grid = flat_panels(len(curves), per_row=_PER_ROW, height=1.9, width=WIDE, sharex=True)
    for axes, (title, found) in zip(grid, curves.items(), strict=True):
        for label, curve in found.items():
            epochs, means, lows, highs = (list(column) for column in zip(*curve, strict=True))
            axes.fill_between(epochs, lows, highs, color=looks[label].color, alpha=0.13, linewidth=0)
            shown = looks[label].marks if len(epochs) == 1 else looks[label].stroke
            axes.plot(epochs, means, linewidth=1.1, **shown)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.grid()
        axes.locator_params(nbins=4)
    for axes in grid[-_PER_ROW:]:
        axes.set_xlabel("epoch")
        axes.tick_params(labelbottom=True)
    legend_above(figure, looks.values())
    return figure


@styled()
def sweep_figure(
    metrics: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]], looks: Mapping[str, Look]
) -> Figure:
    """Draw a panel per metric: a dot for every run by loss and strength, and lines through the means."""
    figure, grid = flat_panels(len(metrics), per_row=len(metrics), height=2.0, width=WIDE)
    for axes, (title, found) in zip(grid, metrics.items(), strict=True):
        for loss, values in found.items():
            axes.plot(list(values), [fmean(dots) for dots in values.values()], **looks[loss].stroke)
            for strength, dots in values.items():
                axes.plot([strength] * len(dots), dots, markersize=3.2, alpha=0.65, **looks[loss].marks)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("strength in the last epoch")
        axes.margins(x=0.08)
        axes.grid()
        axes.locator_params(nbins=4)
    legend_above(figure, looks.values())
    return figure


def _rows_of_losses(count: int, looks: Mapping[str, Look]) -> tuple[Figure, list[Axes]]:
    """Create panels that share their rows, one row per loss."""
    width = WIDE if count >= _PER_ROW else max(3.0, 0.6 + (WIDE - 0.6) * count / _PER_ROW)
    figure, grid = flat_panels(count, per_row=_PER_ROW, height=0.62 + 0.19 * len(looks), width=width, sharey=True)
    name_rows(grid, [look.label for look in looks.values()])
    return figure, grid


def _name_panel(axes: Axes, title: str) -> None:
    axes.set_title(fill(short_text(title, 60), 30), loc="left", fontweight="bold")
    axes.grid(axis="x")
    axes.margins(x=0.08)
    axes.spines["left"].set_visible(False)
    axes.locator_params("x", nbins=4)
