"""Calibration and selective classification: does confidence match accuracy, and does it rank errors?"""

from __future__ import annotations

from maxsup import metrics
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.calibration import calibration_figures
from maxsup.lab.figures.charts import thinned
from maxsup.metrics.facts import numbers
from maxsup.metrics.smooth_calibration import smooth_error_of

_COVERAGES = (0.8, 0.9, 0.95)
_NUM_POINTS = 200


def compute(run: RunOutputs, *, split: str, num_bins: int = 15, num_resamples: int = 200) -> Result:
    """Compute every prediction metric with its interval, a reliability diagram and a risk-coverage curve.

    Options:
        num_bins: Number of bins of the reliability diagram; calibration errors always use 15.
        num_resamples: Number of bootstrap resamples for the intervals.
    """
    outputs = run.split(split)
    samples = outputs.logits, outputs.labels
    table = metrics.PredictionTable()
    table.update(*samples)
    found: dict[str, float | metrics.Interval] = dict(metrics.bootstrap_intervals(table, num_resamples=num_resamples))
    found["smooth_ece"] = smooth_error_of(table.tally())
    found["classwise_ece"] = metrics.classwise_calibration_error(*samples)
    for coverage in _COVERAGES:
        found[f"risk_at_coverage_{round(100 * coverage)}"] = metrics.risk_at_coverage(*samples, coverage)
    bins = metrics.reliability(*samples, num_bins)
    curve = metrics.risk_coverage(table.predictions.confidence, table.predictions.is_correct)
    kept = thinned(curve.coverage.tolist(), _NUM_POINTS)
    data = {
        "reliability": {name: getattr(bins, name).tolist() for name in ("edges", "count", "accuracy", "confidence")},
        "risk_coverage": {name: getattr(curve, name)[kept].tolist() for name in ("coverage", "risk")},
        "num_samples": len(outputs),
        "num_missing": outputs.num_missing,
    }
    return {"numbers": numbers(found), "data": data}


ANALYSES.register(
    "calibration",
    summary="reliability diagram, risk-coverage curve, every metric of predictions with its interval",
    paper="-",
)(Analysis(compute, calibration_figures, counts=("num_bins", "num_resamples")))
