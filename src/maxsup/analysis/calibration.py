"""Calibration and selective classification: is confidence as high as accuracy, and does it tell right from wrong?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.figures.charts import thinned
from maxsup.figures.style import GREY, legend_above, panels, run_looks, styled
from maxsup.metrics import (
    Interval,
    PredictionTable,
    bootstrap_intervals,
    classwise_calibration_error,
    reliability,
    risk_at_coverage,
    risk_coverage,
)
from maxsup.metrics.facts import numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maxsup.analysis.outputs import RunOutputs

_COVERAGES = (0.8, 0.9, 0.95)
_NUM_POINTS = 200
# An accuracy of fewer samples than this is drawn faintly: it says little.
_FEW = 10


def compute(run: RunOutputs, *, split: str, num_bins: int = 15, num_resamples: int = 200) -> Result:
    """Every metric of predictions with its interval, a reliability diagram and a risk-coverage curve.

    Args:
        run: The run.
        split: Which images.
        num_bins: Of the reliability diagram; calibration errors always have 15.
        num_resamples: Behind the intervals.
    """
    outputs = run.split(split)
    table = PredictionTable()
    table.update(outputs.logits, outputs.labels)
    found: dict[str, float | Interval] = dict(bootstrap_intervals(table, num_resamples=num_resamples))
    found["classwise_ece"] = classwise_calibration_error(outputs.logits, outputs.labels)
    for coverage in _COVERAGES:
        found[f"risk_at_coverage_{round(100 * coverage)}"] = risk_at_coverage(outputs.logits, outputs.labels, coverage)
    bins = reliability(outputs.logits, outputs.labels, num_bins)
    predictions = table.predictions
    curve = risk_coverage(predictions.confidence, predictions.is_correct)
    kept = thinned(curve.coverage.tolist(), _NUM_POINTS)
    data = {
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": bins.count.tolist(),
            "accuracy": bins.accuracy.tolist(),
            "confidence": bins.confidence.tolist(),
        },
        "risk_coverage": {"coverage": curve.coverage[kept].tolist(), "risk": curve.risk[kept].tolist()},
        "num_samples": len(outputs),
        "num_missing": outputs.num_missing,
    }
    return {"numbers": numbers(found), "data": data}


def draw(results: Mapping[str, Result]) -> dict[str, Figure]:
    """Reliability diagram with the distribution of confidence under it; risk against coverage."""
    return {"reliability": _draw_reliability(results), "risk_coverage": _draw_risk(results)}


def _draw_reliability(results: Mapping[str, Result]) -> Figure:
    looks = run_looks(results)
    with styled():
        figure, [[axes], [below]] = panels(2, 1, height=3.3, sharex=True, height_ratios=[3, 1])
        dashes: Any = (0, (2, 2))
        [perfect] = axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=dashes, zorder=1, label="perfect")
        for label, result in results.items():
            look, bins = looks[label], result["data"]["reliability"]
            rows = [
                (confidence, accuracy, count)
                for confidence, accuracy, count in zip(bins["confidence"], bins["accuracy"], bins["count"], strict=True)
                if count
            ]
            axes.plot([row[0] for row in rows], [row[1] for row in rows], color=look.color, linestyle=look.line)
            for confidence, accuracy, count in rows:
                marks = look.marks if count >= _FEW else look.marks | {"markerfacecolor": "white"}
                axes.plot([confidence], [accuracy], **marks, zorder=3)
            total = sum(bins["count"])
            below.stairs(
                [100 * count / total for count in bins["count"]], bins["edges"], color=look.color, linestyle=look.line
            )
        note = f"hollow: fewer than {_FEW} samples"
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", color=GREY, fontsize=6)
        axes.set_ylabel("accuracy")
        axes.set_ylim(-0.03, 1.03)
        axes.set_xlim(0, 1.02)
        axes.grid()
        below.set_ylabel("share (%)")
        below.set_xlabel("confidence (top-1 probability)")
        legend_above(figure, list(looks.values()), others=[perfect])
    return figure


def _draw_risk(results: Mapping[str, Result]) -> Figure:
    looks = run_looks(results)
    with styled():
        figure, [[axes]] = panels(height=2.2)
        for label, result in results.items():
            curve = result["data"]["risk_coverage"]
            look = looks[label]
            risks = [100 * risk for risk in curve["risk"]]
            axes.plot([100 * share for share in curve["coverage"]], risks, color=look.color, linestyle=look.line)
            axes.plot([100], risks[-1:], **look.marks, clip_on=False)
        axes.set_xlabel("coverage (% of samples, most confident first)")
        axes.set_ylabel("risk (% errors among them)")
        axes.set_xlim(0, 100)
        axes.set_ylim(bottom=0)
        axes.grid()
        legend_above(figure, list(looks.values()))
    return figure


ANALYSES.register(
    "calibration",
    summary="reliability diagram, risk-coverage curve, every metric of predictions with its interval",
    paper="-",
)(Analysis(compute, draw, counts=("num_bins", "num_resamples")))
