"""Figures of calibration, selective classification and confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maxsup.lab.figures.charts import draw_runs, name_rows, widen
from maxsup.lab.figures.style import COLUMN, GREY, SOFT, Look, Results, legend_above, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Columns = Mapping[str, Sequence[float]]

_FEW = 10  # bins with fewer samples are drawn hollow
# Title and factor of each number that a repair changes.
_REPAIRED = {"nll": ("NLL (nats)", 1.0), "ece": ("ECE", 1.0), "aurc": (r"AURC $\times 10^3$", 1000.0)}
_RIGHT, _WRONG = "#0072B2", "#D55E00"


def calibration_figures(results: Results) -> dict[str, Figure]:
    """Draw the reliability diagram with a histogram of confidence, and the risk-coverage curve."""
    looks = result_looks(results)
    bins, curves = (
        {label: result["data"][part] for label, result in results.items()} for part in ("reliability", "risk_coverage")
    )
    return {"reliability": reliability_figure(bins, looks), "risk_coverage": risk_figure(curves, looks)}


@styled()
def reliability_figure(bins: Mapping[str, Columns], looks: Mapping[str, Look], *, width: float = COLUMN) -> Figure:
    """Draw accuracy by confidence, and below it the share of predictions in each bin.

    ``bins`` hold ``edges``, ``count``, ``confidence`` and ``accuracy`` by label.
    """
    figure, [[axes], [below]] = panels(2, 1, height=3.3, width=width, sharex=True, height_ratios=[3, 1])
    [perfect] = axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, dashes=(2, 2), zorder=1, label="perfect")
    for label, found in bins.items():
        look = looks[label]
        rows = [row for row in zip(found["confidence"], found["accuracy"], found["count"], strict=True) if row[2]]
        axes.plot([row[0] for row in rows], [row[1] for row in rows], **look.stroke)
        for confidence, accuracy, count in rows:
            marks = look.marks if count >= _FEW else look.hollow_marks
            axes.plot([confidence], [accuracy], **marks, zorder=3)
        total = sum(found["count"])
        below.stairs([100 * count / total for count in found["count"]], found["edges"], **look.stroke)
    note = f"hollow: fewer than {_FEW} samples"
    axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", color=SOFT, fontsize=6)
    axes.set(ylabel="accuracy", ylim=(-0.03, 1.03), xlim=(0, 1.02))
    axes.grid()
    below.set(ylabel="share (%)", xlabel="confidence (top-1 probability)")
    legend_above(figure, looks.values(), others=[perfect])
    return figure


@styled()
def risk_figure(curves: Mapping[str, Columns], looks: Mapping[str, Look], *, width: float = COLUMN) -> Figure:
    """Draw the error rate of accepted predictions (``risk``) against their share (``coverage``)."""
    figure, [[axes]] = panels(height=2.2, width=width)
    for label, curve in curves.items():
        look, risks = looks[label], [100 * risk for risk in curve["risk"]]
        axes.plot([100 * share for share in curve["coverage"]], risks, **look.stroke)
        axes.plot([100], risks[-1:], **look.marks, clip_on=False)
    axes.set(xlabel="coverage (% of samples, most confident first)", ylabel="risk (% errors among them)")
    axes.set(xlim=(0, 100), ylim=(0, None))
    axes.grid()
    legend_above(figure, looks.values())
    return figure


@styled()
def repair_figures(results: Results) -> dict[str, Figure]:
    """Draw NLL, ECE and AURC before and after the repair, one row per run."""
    figure, [row] = panels(1, len(_REPAIRED), height=0.78 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, (name, (title, factor)) in zip(row, _REPAIRED.items(), strict=True):
        draw_runs(axes, results, (f"{name}_before", f"{name}_after"), factor)
        axes.set_xlabel(title)
        axes.margins(x=0.15)
        widen(axes)
    name_rows(row, list(results))
    figure.legend(handles=_two_marks("before", "after"), loc="outside upper center", ncols=2)
    return {"repair": figure}


@styled()
def conformal_figures(results: Results) -> dict[str, Figure]:
    """Draw the mean size of prediction sets at 90 and 95 %, one panel per method and one row per run."""
    figure, [row] = panels(1, 3, height=0.78 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, method in zip(row, ("lac", "aps", "raps"), strict=True):
        draw_runs(axes, results, (f"set_size_{method}_90", f"set_size_{method}_95"), 1.0)
        axes.set_xlabel(f"{method.upper()} (classes)")
        axes.margins(x=0.15)
        widen(axes)
    name_rows(row, list(results))
    figure.legend(handles=_two_marks("90 %", "95 %"), loc="outside upper center", ncols=2)
    return {"conformal": figure}


@styled()
def confidence_figure(edges: Sequence[float], shares: Columns, means: Mapping[str, float], *, width: float) -> Figure:
    """Draw histograms of the confidence of ``right`` and ``wrong`` predictions, with finite means as lines."""
    figure, [[axes]] = panels(height=2.1, width=width)
    for name, color in (("right", _RIGHT), ("wrong", _WRONG)):
        axes.stairs(shares[name], edges, fill=True, color=color, alpha=0.45)
        axes.stairs(shares[name], edges, color=color, label=name, linewidth=1.2)
        if math.isfinite(means[name]):
            axes.axvline(means[name], color=color, linestyle="--", linewidth=1.0)
    axes.set(xlabel="confidence (top probability)", ylabel="share of predictions", xlim=(0, 1))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _two_marks(full: str, hollow: str) -> list[Line2D]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=GREY, marker="o", linestyle="none", markerfacecolor=face, label=label)
        for label, face in ((full, GREY), (hollow, "white"))
    ]
