"""Figures of logits: distribution, confidence and the traces of label smoothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxsup.lab.figures.style import GREY, Results, legend_above, panels, result_looks, spread_labels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIDENCES = {"right": "confidence_correct", "wrong": "confidence_wrong"}
"""Names in results of the confidence of correct and of wrong predictions."""

_DATA, _ESTIMATE = "#0072B2", "#D55E00"


@styled()
def logit_figures(results: Results) -> dict[str, Figure]:
    """Draw densities of raw and mean-centred logits, and cumulative confidence of correct and wrong predictions."""
    looks = list(result_looks(results).values())
    densities, [row] = panels(1, 2, height=1.9, sharey=True)
    titles = {"raw": "logit", "centred": "logit \u2212 mean of the sample"}
    for axes, (key, title) in zip(row, titles.items(), strict=True):
        for look, result in zip(looks, results.values(), strict=True):
            found = result["data"][key]
            axes.stairs(found["density"], found["edges"], linewidth=1.0, **look.stroke)
        axes.set(xlabel=title, ylim=(0, None))
        axes.margins(x=0)
    row[0].set_ylabel("density (per unit of logit)")
    legend_above(densities, looks)
    confidences, [row] = panels(1, 2, height=1.9, sharex=True, sharey=True)
    for axes, (kind, key) in zip(row, CONFIDENCES.items(), strict=True):
        for look, result in zip(looks, results.values(), strict=True):
            shares, mean = result["data"][key], result["numbers"][key]["value"]
            if mean is None:
                continue
            percents = [100 * share for share in shares]
            axes.plot([step / (len(shares) - 1) for step in range(len(shares))], percents, **look.stroke)
            # Mark the mean on the curve.
            axes.plot([mean], [percents[round(mean * (len(shares) - 1))]], **look.marks, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 103), xlabel=f"confidence where {kind}")
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.grid()
    row[0].set_ylabel("predictions up to here (%)")
    legend_above(confidences, looks)
    return {"logits": densities, "confidence": confidences}


@styled()
def smoothing_figure(
    gaps: tuple[Sequence[float], Sequence[float]],
    left_over: tuple[Sequence[float], Sequence[float]],
    *,
    plateaus: Mapping[float, float],
    estimate: tuple[float, float, float] | None,
    level: float | None,
    width: float,
) -> Figure:
    """Draw the gap of the top logit of correct predictions, and the distribution of the leftover probability.

    Args:
        gaps: Edges and counts of a histogram.
        left_over: Shares of pairs of classes, and the mean probability of the other class.
        plateaus: The target gap of each strength of smoothing, drawn as guides.
        estimate: The gap of the estimated strength and the ends of its interval.
        level: The probability that the estimated strength gives to each class.
        width: In inches.
    """
    edges, counts = gaps
    total = sum(counts) or 1.0
    figure, [[left, right]] = panels(1, 2, height=2.3, width=width)
    left.stairs([count / total for count in counts], edges, fill=True, color=_DATA, alpha=0.75)
    if estimate is not None:
        gap, low, high = estimate
        left.axvspan(low, high, color=_ESTIMATE, alpha=0.15)
        left.axvline(gap, color=_ESTIMATE, linewidth=1.0)
    names = []
    for alpha, gap in plateaus.items():
        if edges[0] <= gap <= edges[-1]:
            left.axvline(gap, color=GREY, linestyle=":", linewidth=1.0)
            name = left.annotate(
                f"{alpha:g}",
                (gap, 1),
                (0, 0),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=GREY,
            )
            names.append(name)
    left.set(xlabel="gap of the top logit to the mean of the others", ylabel="share of right predictions")
    right.plot(*left_over, color=_DATA)
    if level is not None:
        right.axhline(level, color=_ESTIMATE, linewidth=1.0)
    right.set(yscale="log", xlabel="share of pairs of classes", ylabel="mean probability of the other class")
    right.grid(axis="y")
    spread_labels(figure, names, [(0, 8 * line) for line in range(len(names))])
    return figure
