"""Figures of comparisons and studies: seeds, differences, published numbers, curves, strengths and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from maxsup.lab.figures.charts import flat_panels, name_rows
from maxsup.lab.figures.style import GREY, INK, SOFT, WIDE, Look, legend_above, loss_look, panels, short_text, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float, float, float]]
"""Epoch from 1, and the mean, lowest and highest value over all seeds."""

_PER_ROW = 3
_DASHES: Any = (0, (3, 2))
_VERDICTS = {
    "confirmed": Look("confirmed", "#009E73", "o"),
    "not reproduced": Look("not reproduced", "#D55E00", "X"),
    "no difference within the margin": Look("no difference within the margin", "#0072B2", "s"),
    "inconclusive": Look("inconclusive", GREY, "|"),
}


class Difference(NamedTuple):
    """A mean difference to the baseline, the ends of its interval, and whether it is conclusive."""

    mean: float
    low: float
    high: float
    is_conclusive: bool


class Point(NamedTuple):
    """A published number, ours, and our standard deviation (``nan`` for one seed); grey without a look."""

    look: Look | None
    published: float
    measured: float
    std: float


@styled()
def seeds_figure(metrics: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]], looks: Mapping[str, Look]) -> Figure:
    """One panel per metric: a dot for every run, a bar for the mean, lines between runs with the same seed.

    ``metrics`` hold the title of a panel and its values by loss and seed; every loss of ``looks`` has a row.
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
    """One panel per metric: paired differences with their intervals, hollow where nothing can be concluded.

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
        # Zero stays away from the edge: the panel is about which side of it a difference is on.
        low, high = axes.get_xlim()
        reach = max(abs(low), abs(high)) * 0.12
        axes.set_xlim(min(low, -reach), max(high, reach))
    return figure


@styled()
def published_figure(metrics: Mapping[str, Sequence[Point]]) -> Figure:
    """One panel per metric: our means against those of the paper, and the line on which both are equal."""
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
    """One panel per quantity: the mean over seeds of each label, and a band from the lowest to the highest."""
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
    """One panel per metric: a dot for every run by loss and strength, and lines through the means."""
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


@styled()
def claims_figure(claims: Sequence[Mapping[str, Any]]) -> Figure:
    """Every claim in units of its margin; the claimed direction is to the right."""
    # Intervals of fewer seeds are so wide that they would leave no room for the others.
    shown = [claim for claim in claims if claim["has_enough_seeds"]]
    figure, [[axes]] = panels(width=WIDE, height=0.6 + 0.28 * max(len(shown), 2))
    _draw_margin(axes, 1)
    for place, claim in enumerate(reversed(shown)):
        unit = claim["margin"] * (-1 if claim["direction"] == "lower" else 1)
        _draw_interval(axes, place, claim, unit)
    axes.set_yticks(range(len(shown)), [claim["name"].replace("_", " ") for claim in reversed(shown)])
    axes.set_xlabel(
        "difference in units of the margin (grey band), to the right as claimed (equality: no side)\n"
        "bars: 95 % intervals over seeds, 90 % where equality is asked or found; small networks, short training"
    )
    legend_above(figure, _VERDICTS.values())
    return figure


@styled()
def claim_figure(claim: Mapping[str, Any]) -> Figure:
    """The difference of every seed, their mean with its interval, and the margin as a band."""
    figure, [[axes]] = panels(width=WIDE, height=1.3)
    _draw_margin(axes, claim["margin"])
    axes.plot([own - other for _, own, other in claim["values"]], [1] * claim["num_pairs"], "o", color=GREY, alpha=0.7)
    _draw_interval(axes, 0, claim)
    axes.set_yticks([0, 1], ["mean", "seeds"])
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlabel(f"{claim['claim']} minus {claim['than']}" + (f" ({claim['unit']})" if claim["unit"] else ""))
    return figure


@styled()
def widths_figure(sweeps: Sequence[Mapping[str, Any]]) -> Figure:
    """MaxSup minus label smoothing against the share of training images that stay misclassified."""
    figure, [axes] = panels(1, len(sweeps), width=WIDE, height=2.6, sharey=True)
    for panel, sweep in zip(axes, sweeps, strict=True):
        panel.axhline(0, color=GREY, linewidth=0.8, linestyle=_DASHES)
        for wrong, mean, low, high in sweep["points"]:
            panel.plot([100 * wrong] * 2, [100 * low, 100 * high], color=INK, linewidth=1.2)
            panel.plot([100 * wrong], [100 * mean], "o", color=INK, markersize=4)
        if math.isfinite(sweep["slope"]):
            wrong = [point[0] for point in sweep["points"]]
            ends = [min(wrong), max(wrong)]
            heights = [100 * (sweep["intercept"] + sweep["slope"] * place) for place in ends]
            panel.plot([100 * place for place in ends], heights, color=GREY, linewidth=1)
        low, high = (100 * end for end in sweep["slope_interval"])
        slope = f"slope {100 * sweep['slope']:+.1f} [{low:+.1f}, {high:+.1f}]: {sweep['word']}"
        panel.set(title=f"{sweep['title']}\n{slope}", xlabel="training images wrong (%)")
        panel.margins(x=0.08)
    axes[0].set_ylabel("accuracy, MaxSup - LS (points)")
    return figure


@styled()
def strengths_figure(pools: Sequence[Mapping[str, Any]]) -> Figure:
    """Validation accuracy of every trial of tuning against the multiple of the usual strength, one panel per pool."""
    figure, grid = flat_panels(len(pools), per_row=4, height=1.9, width=WIDE)
    losses = list(dict.fromkeys(loss for pool in pools for loss in pool["lines"]))
    for axes, pool in zip(grid, pools, strict=True):
        for loss, points in pool["lines"].items():
            look, usual = loss_look(loss), points[len(points) // 2][0]
            multiples = [strength / usual for strength, _ in points]
            axes.plot(multiples, [100 * fmean(seeds) for _, seeds in points], **look.stroke)
            for multiple, (_, seeds) in zip(multiples, points, strict=True):
                axes.plot([multiple] * len(seeds), [100 * value for value in seeds], **look.marks)
        axes.set_xscale("log", base=2)
        axes.set_xticks([0.5, 1, 2], ["1/2", "1", "2"])
        axes.set(title=pool["pool"], xlabel="strength / usual strength")
    grid[0].set_ylabel("validation accuracy (%)")
    legend_above(figure, [loss_look(loss) for loss in losses])
    return figure


def _rows_of_losses(count: int, looks: Mapping[str, Look]) -> tuple[Figure, list[Axes]]:
    """Panels that share their rows, one for each loss."""
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


def _draw_margin(axes: Axes, margin: float) -> None:
    axes.axvspan(-margin, margin, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)


def _draw_interval(axes: Axes, place: int, claim: Mapping[str, Any], unit: float = 1) -> None:
    """Mean and interval of a claim in its row, with colour and marker of its verdict; 90 % where it is of equality."""
    look = _VERDICTS[claim["word"]]
    low, high = (claim[f"equal_{end}" if claim["is_about_equality"] else end] for end in ("low", "high"))
    axes.plot([low / unit, high / unit], [place, place], linewidth=1.6, **look.stroke)
    axes.plot([claim["mean"] / unit], [place], markersize=6, **look.marks)
