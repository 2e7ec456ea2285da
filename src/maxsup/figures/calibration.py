"""Is confidence as high as accuracy, and does it tell right from wrong?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.charts import dumbbells
from maxsup.figures.style import COLUMN, GREY, SOFT, Look, Results, legend_above, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Columns = Mapping[str, Sequence[float]]

# An accuracy of fewer samples than this is drawn hollow: it says little.
_FEW = 10
_AURC = r"AURC $\times 10^3$"
_RIGHT, _WRONG = "#0072B2", "#D55E00"


def calibration_figures(results: Results) -> dict[str, Figure]:
    """Reliability diagram with the distribution of confidence under it; risk against coverage."""
    looks = result_looks(results)
    bins, curves = (
        {label: result["data"][part] for label, result in results.items()} for part in ("reliability", "risk_coverage")
    )
    return {"reliability": reliability_figure(bins, looks), "risk_coverage": risk_figure(curves, looks)}


def reliability_figure(bins: Mapping[str, Columns], looks: Mapping[str, Look], *, width: float = COLUMN) -> Figure:
    """Accuracy of predictions of the same confidence, and below how many there are.

    Args:
        bins: By label: ``edges``, ``count``, ``confidence`` and ``accuracy``.
        looks: By label.
        width: Of the figure in inches.
    """
    dashes: Any = (0, (2, 2))
    with styled():
        figure, [[axes], [below]] = panels(2, 1, height=3.3, width=width, sharex=True, height_ratios=[3, 1])
        [perfect] = axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=dashes, zorder=1, label="perfect")
        for label, found in bins.items():
            look = looks[label]
            rows = [row for row in zip(found["confidence"], found["accuracy"], found["count"], strict=True) if row[2]]
            axes.plot([row[0] for row in rows], [row[1] for row in rows], **look.stroke)
            for confidence, accuracy, count in rows:
                marks = look.marks if count >= _FEW else look.marks | {"markerfacecolor": "white"}
                axes.plot([confidence], [accuracy], **marks, zorder=3)
            total = sum(found["count"])
            below.stairs([100 * count / total for count in found["count"]], found["edges"], **look.stroke)
        note = f"hollow: fewer than {_FEW} samples"
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", color=SOFT, fontsize=6)
        axes.set_ylabel("accuracy")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlim(0, 1.02)
        axes.grid()
        below.set_ylabel("share (%)")
        below.set_xlabel("confidence (top-1 probability)")
        legend_above(figure, list(looks.values()), others=[perfect])
    return figure


def risk_figure(curves: Mapping[str, Columns], looks: Mapping[str, Look], *, width: float = COLUMN) -> Figure:
    """Errors among the predictions that are kept, against the share that is kept.

    Args:
        curves: By label: ``coverage`` and ``risk``.
        looks: By label.
        width: Of the figure in inches.
    """
    with styled():
        figure, [[axes]] = panels(height=2.2, width=width)
        for label, curve in curves.items():
            look, risks = looks[label], [100 * risk for risk in curve["risk"]]
            axes.plot([100 * share for share in curve["coverage"]], risks, **look.stroke)
            axes.plot([100], risks[-1:], **look.marks, clip_on=False)
        axes.set_xlabel("coverage (% of samples, most confident first)")
        axes.set_ylabel("risk (% errors among them)")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.grid()
        legend_above(figure, list(looks.values()))
    return figure


def repair_figures(results: Results) -> dict[str, Figure]:
    """Before and after, a row a run: negative log-likelihood, calibration error, AURC."""
    columns = {"nll": "NLL (nats)", "ece": "ECE", "aurc": _AURC}
    with styled():
        figure = dumbbells(
            results,
            {title: (f"{name}_before", f"{name}_after") for name, title in columns.items()},
            ends=("before", "after"),
            scales={_AURC: 1000.0},
        )
    return {"repair": figure}


def confidence_figure(edges: Sequence[float], shares: Columns, means: Mapping[str, float], *, width: float) -> Figure:
    """How sure right and wrong predictions are, with their means.

    Args:
        edges: Of bins of confidence.
        shares: Of ``right`` and of ``wrong`` predictions in each bin.
        means: Of ``right`` and ``wrong``; ``nan`` where there are none.
        width: Of the figure in inches.
    """
    with styled():
        figure, [[axes]] = panels(height=2.1, width=width)
        for name, color in (("right", _RIGHT), ("wrong", _WRONG)):
            axes.stairs(shares[name], edges, fill=True, color=color, alpha=0.45)
            axes.stairs(shares[name], edges, color=color, label=name, linewidth=1.2)
            if math.isfinite(means[name]):
                axes.axvline(means[name], color=color, linestyle="--", linewidth=1.0)
        axes.set_xlabel("confidence (top probability)")
        axes.set_ylabel("share of predictions")
        axes.set_xlim(0, 1)
        figure.legend(loc="outside upper center", ncols=2)
    return figure
