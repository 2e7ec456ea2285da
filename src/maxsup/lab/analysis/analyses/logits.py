"""Distribution of logits, raw and mean-centred, and confidence of correct and wrong predictions.

Most losses are invariant to a constant added to all logits of a sample, so that constant is arbitrary; others (logit
penalty) fix it. Compare the logits of different losses only after subtracting the mean of each sample.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.core.checks import check_number
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.logits import logit_figures
from maxsup.metrics import mean_confidence
from maxsup.metrics.facts import numbers

_NUM_BINS = 80
_NUM_POINTS = 201
# Share of all logits outside the drawn range, on each side.
_TAIL = 0.0005
# Enough for a quantile; torch.quantile takes no more values.
_MAX_SORTED = 1 << 23


def compute(run: RunOutputs, *, split: str, near_zero: float = 0.01) -> Result:
    """Compute histograms of logits, shares near zero, and gaps and confidence of correct and wrong predictions.

    Options:
        near_zero: Absolute value below which a logit counts as near zero.
    """
    check_number("logits.near_zero", near_zero, above=True)
    outputs = run.split(split)
    logits = outputs.logits.double()
    centred = logits - logits.mean(dim=1, keepdim=True)
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    is_right = predicted == outputs.labels
    gap = centred.max(dim=1).values
    means = mean_confidence(outputs.logits, outputs.labels)
    found = {
        "mean_logit": float(logits.mean()),
        "std": float(logits.std()),
        "std_centred": float(centred.std()),
        "near_zero_share": float((logits.abs() < near_zero).double().mean()),
        "near_zero_share_centred": float((centred.abs() < near_zero).double().mean()),
        "top_gap_right": float(gap[is_right].mean()),  # nan without any
        "top_gap_wrong": float(gap[~is_right].mean()),
        "confidence_correct": means.correct,
        "confidence_wrong": means.wrong,
    }
    data = {
        "near_zero": near_zero,
        "num_right": int(is_right.sum()),
        "num_wrong": int((~is_right).sum()),
        "raw": _histogram(logits),
        "centred": _histogram(centred),
        "confidence_correct": _cumulative(confidence[is_right]),
        "confidence_wrong": _cumulative(confidence[~is_right]),
    }
    return {"numbers": numbers(found), "data": data}


def _histogram(values: Tensor) -> dict[str, Any]:
    """Return the density over the range of nearly all values."""
    flat = values.flatten()
    sampled = flat[:: len(flat) // _MAX_SORTED + 1]
    low, high = sampled.quantile(torch.tensor([_TAIL, 1 - _TAIL], dtype=flat.dtype)).tolist()
    if high <= low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / _NUM_BINS
    density = torch.histc(flat, _NUM_BINS, low, high) / (len(flat) * width)
    return {"edges": [low + step * width for step in range(_NUM_BINS + 1)], "density": density.tolist()}


def _cumulative(confidence: Tensor) -> list[float]:
    """Return the share of values up to each point of an even grid from 0 to 1."""
    grid = torch.linspace(0, 1, _NUM_POINTS, dtype=confidence.dtype)
    places = torch.searchsorted(confidence.sort().values, grid, right=True)
    return (places / max(1, len(confidence))).tolist()


ANALYSES.register(
    "logits",
    summary="histograms of raw and mean-centred logits, share near zero, confidence of correct and wrong predictions",
    paper="fig:logit-analysis",
)(Analysis(compute, logit_figures))
