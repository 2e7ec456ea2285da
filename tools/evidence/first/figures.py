"""Figures of the first edition: claims, sweeps of widths, and tuned strengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from maxsup.lab.figures.charts import flat_panels
from maxsup.lab.figures.style import GREY, INK, WIDE, Look, legend_above, loss_look, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES: Any = (0, (3, 2))
_VERDICTS = {
    "confirmed": Look("confirmed", "#009E73", "o"),
    "not reproduced": Look("not reproduced", "#D55E00", "X"),
    "no difference within the margin": Look("no difference within the margin", "#0072B2", "s"),
    "inconclusive": Look("inconclusive", GREY, "|"),
}


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


def _draw_margin(axes: Axes, margin: float) -> None:
    axes.axvspan(-margin, margin, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)


def _draw_interval(axes: Axes, place: int, claim: Mapping[str, Any], unit: float = 1) -> None:
    """Mean and interval of a claim in its row, with colour and marker of its verdict; 90 % where it is of equality."""
    look = _VERDICTS[claim["word"]]
    low, high = (claim[f"equal_{end}" if claim["is_about_equality"] else end] for end in ("low", "high"))
    axes.plot([low / unit, high / unit], [place, place], linewidth=1.6, **look.stroke)
    axes.plot([claim["mean"] / unit], [place], markersize=6, **look.marks)
