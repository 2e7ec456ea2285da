"""Calibration and selective classification: is confidence as high as accuracy, and does it tell right from wrong?"""

from __future__ import annotations

from maxsup.analysis.outputs import RunOutputs
from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.figures.calibration import calibration_figures
from maxsup.figures.charts import thinned
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

_COVERAGES = (0.8, 0.9, 0.95)
_NUM_POINTS = 200


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


ANALYSES.register(
    "calibration",
    summary="reliability diagram, risk-coverage curve, every metric of predictions with its interval",
    paper="-",
)(Analysis(compute, calibration_figures, counts=("num_bins", "num_resamples")))
