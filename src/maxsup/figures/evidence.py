"""Evidence for claims: every claim in units of its margin, the seeds behind one, and the sweep over widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.style import GREY, INK, WIDE, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {"confirmed": "#1b7837", "contradicted": "#b2182b", "undecided": GREY}


@styled()
def claims_figure(claims: Sequence[Mapping[str, Any]]) -> Figure:
    """Every claim in units of its margin, claimed direction to the right."""
    # Intervals of fewer seeds are so wide that they would leave no room for the others.
    shown = [claim for claim in claims if claim["has_enough_seeds"]]
    figure, [[axes]] = panels(width=WIDE, height=0.6 + 0.28 * max(len(shown), 2))
    axes.axvspan(-1, 1, color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for place, claim in enumerate(reversed(shown)):
        sign = -1 if claim["direction"] == "lower" else 1
        mean, *ends = (sign * claim[key] / claim["margin"] for key in ("mean", "low", "high"))
        axes.plot(ends, [place, place], color=_COLORS[claim["word"]], linewidth=1.6)
        axes.plot([mean], [place], "o", color=_COLORS[claim["word"]], markersize=4.5)
    axes.set_yticks(range(len(shown)), [claim["name"].replace("_", " ") for claim in reversed(shown)])
    axes.set_xlabel("difference in units of the margin; to the right as claimed")
    return figure


@styled()
def claim_figure(claim: Mapping[str, Any]) -> Figure:
    """The difference of every seed, their mean with its interval, and the margin as a band."""
    figure, [[axes]] = panels(width=WIDE, height=1.3)
    axes.axvspan(-claim["margin"], claim["margin"], color=GREY, alpha=0.15, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    color = _COLORS[claim["word"]]
    axes.plot([own - other for _, own, other in claim["values"]], [1] * claim["num_pairs"], "o", color=GREY, alpha=0.7)
    axes.plot([claim["low"], claim["high"]], [0, 0], color=color, linewidth=1.6)
    axes.plot([claim["mean"]], [0], "o", color=color)
    axes.set_yticks([0, 1], ["mean", "seeds"])
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlabel(f"{claim['claim']} minus {claim['than']}" + (f" ({claim['unit']})" if claim["unit"] else ""))
    return figure


@styled()
def widths_figure(sweeps: Sequence[Mapping[str, Any]]) -> Figure:
    """Difference of MaxSup to label smoothing against the share of training images that stay wrong."""
    figure, [axes] = panels(1, len(sweeps), width=WIDE, height=2.6)
    for panel, sweep in zip(axes, sweeps, strict=True):
        panel.axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))
        for wrong, mean, low, high in sweep["points"]:
            panel.plot([100 * wrong] * 2, [100 * low, 100 * high], color=INK, linewidth=1.2)
            panel.plot([100 * wrong], [100 * mean], "o", color=INK, markersize=4)
        slope, intercept = sweep["slope"], sweep["intercept"]
        if math.isfinite(slope):
            end = max(point[0] for point in sweep["points"])
            panel.plot([0, 100 * end], [100 * intercept, 100 * (intercept + slope * end)], color=GREY, linewidth=1)
        panel.set(xlim=(0, None), title=sweep["title"], xlabel="training images wrong (%)")
    axes[0].set_ylabel("accuracy, MaxSup - LS (points)")
    return figure
