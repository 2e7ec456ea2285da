"""Conformal prediction sets (:mod:`maxsup.metrics.conformal`): size and coverage, fitted on the validation split."""

from __future__ import annotations

from maxsup import metrics
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.calibration import conformal_figures
from maxsup.metrics.conformal import METHODS, least_samples
from maxsup.metrics.facts import numbers

LEVELS = (0.9, 0.95)


def obstacle(run: RunOutputs, *, split: str) -> str | None:
    """Refuse runs without enough validation images to choose a threshold, and the validation split for evaluation."""
    if not run.has_val:
        return "it fits on a validation split, and this run held none out (data.val_share=0)"
    if split == "val":
        return "it fits on the validation split and must be evaluated on another one"
    needed, given = least_samples(max(LEVELS)), len(run.bundle.val)
    return f"{needed} validation images are needed, and there are {given}" if given < needed else None


def compute(run: RunOutputs, *, split: str) -> Result:
    """Compute mean size and coverage of LAC, APS and RAPS sets at 90 and 95 %, and those of each class."""
    val, judged = run.split("val"), run.split(split)
    found, classes = dict[str, float](), dict[str, dict[str, list[float]]]()
    for method in METHODS:
        for level in LEVELS:
            name = f"{method}_{round(100 * level)}"
            sets = metrics.prediction_sets(
                judged.logits, judged.labels, fitted_on=(val.logits, val.labels), method=method, level=level
            )
            coverage = sets.class_coverage
            found[f"set_size_{name}"] = sets.size
            found[f"set_coverage_{name}"] = sets.coverage
            found[f"worst_class_coverage_{name}"] = float(coverage[~coverage.isnan()].min())
            classes[name] = {"size": sets.class_size.tolist(), "coverage": coverage.tolist()}
    data = {
        "class_names": list(judged.class_names),
        "classes": classes,
        "num_fitted": len(val),
        "num_judged": len(judged),
    }
    return {"numbers": numbers(found), "data": data}


ANALYSES.register(
    "conformal",
    summary="prediction sets (LAC, APS, RAPS) fitted on validation: size and coverage at 90 and 95 %, by class",
    paper="-",
)(Analysis(compute, conformal_figures, obstacle))
