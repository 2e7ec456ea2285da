"""Repair without training (:mod:`maxsup.diagnosis.rescaling`): temperature and norm, fitted on the validation split."""

from __future__ import annotations

from maxsup import metrics
from maxsup.diagnosis.rescaling import fit_norm, normalized_confidence
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.calibration import repair_figures
from maxsup.metrics.batches import RANKINGS
from maxsup.metrics.facts import numbers
from maxsup.metrics.predictions import tallied


def obstacle(run: RunOutputs, *, split: str) -> str | None:
    """Refuse runs without a validation split to fit on, and the validation split for evaluation."""
    if not run.has_val:
        return "it fits on a validation split, and this run held none out (data.val_share=0)"
    return "it fits on the validation split and must be evaluated on another one" if split == "val" else None


def compute(run: RunOutputs, *, split: str) -> Result:
    """Compute calibration before and after a temperature, and selective classification before and after a norm."""
    val, judged = run.split("val"), run.split(split)
    found = metrics.recalibration(judged.logits, judged.labels, fitted_on=(val.logits, val.labels))._asdict()
    power = fit_norm(val.logits, val.labels)
    ranked = None if power is None else normalized_confidence(judged.logits, power)
    found["norm_power"] = float("nan") if power is None else power
    samples, repaired = (tallied(judged.logits, judged.labels, each) for each in (None, ranked))
    for name, rank in RANKINGS.items():
        found |= {f"{name}_before": rank(samples), f"{name}_after": rank(repaired)}
    data = {
        "num_fitted": len(val),
        "num_fitted_errors": int((val.logits.argmax(dim=1) != val.labels).sum()),
        "num_judged": len(judged),
        "norm_power": power,
    }
    return {"numbers": numbers(found), "data": data}


ANALYSES.register(
    "repair",
    summary="temperature and logit norm, fitted on validation: calibration and selection before and after",
    paper="-",
)(Analysis(compute, repair_figures, obstacle))
