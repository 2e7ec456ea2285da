"""What the figures and tables of a damage report are made of, thinned and ready for JSON."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from maxsup.diagnosis.measures import Rescaled
from maxsup.diagnosis.smoothing import LogitTraces
from maxsup.metrics import risk_coverage
from maxsup.metrics.calibration import NUM_BINS, bin_sums, reliability_of
from maxsup.metrics.predictions import Predictions

_NUM_POINTS = 200


def trace_curves(traces: LogitTraces) -> dict[str, Any]:
    """Histogram of the gap of right predictions, and quantiles of the probability that is left over."""
    right = traces.gap[traces.is_correct]
    curves: dict[str, Any] = {"num_right": len(right)}
    if len(right):
        ordered = right.sort().values
        low, high = (float(ordered[round(share * (len(ordered) - 1))]) for share in (0.002, 0.998))
        edges = torch.linspace(min(low, 0.0) if low < 2 else low, max(high, low + 1e-3), 61, dtype=torch.float64)
        counts = torch.histogram(right, edges).hist
        curves["gap"] = {"edges": edges.tolist(), "count": counts.tolist()}
    if len(traces.left_over):
        shares = torch.linspace(0, 1, _NUM_POINTS, dtype=torch.float64)
        positions = (shares * (len(traces.left_over) - 1)).round().long()
        curves["left_over"] = {"share": shares.tolist(), "probability": traces.left_over[positions].tolist()}
    return curves


def confidence_histogram(predictions: Predictions) -> dict[str, Any]:
    """Shares of right and of wrong predictions by confidence."""
    edges = torch.linspace(0, 1, 41, dtype=torch.float64)
    parts = {"right": predictions.is_correct, "wrong": ~predictions.is_correct}
    counts = {name: torch.histogram(predictions.confidence[chosen], edges).hist for name, chosen in parts.items()}
    shares = {name: (count / count.sum().clamp(min=1)).tolist() for name, count in counts.items()}
    return {"edges": edges.tolist(), **shares}


def _reliability_points(predictions: Predictions) -> dict[str, Any]:
    """The reliability diagram, bin by bin."""
    ones = torch.ones_like(predictions.confidence)
    found = reliability_of(bin_sums(predictions.confidence, ones, predictions.is_correct.double(), NUM_BINS))
    return {name: getattr(found, name).tolist() for name in ("edges", "count", "accuracy", "confidence")}


def rescaling_curves(rescaled: Rescaled) -> dict[str, Any]:
    """Reliability before and after the temperature, risk by the softmax and by the norm."""
    before = rescaled.before.predictions
    risk = {"softmax": _risk_curve(before, before.confidence)}
    if rescaled.ranked is not None:
        risk["norm"] = _risk_curve(before, rescaled.ranked)
    after = _reliability_points(rescaled.after.predictions)
    return {"reliability": {"before": _reliability_points(before), "after": after}, "risk": risk}


def _risk_curve(predictions: Predictions, confidence: Tensor) -> dict[str, Any]:
    """Some points of the risk-coverage curve, its end among them."""
    curve = risk_coverage(confidence, predictions.is_correct)
    positions = torch.linspace(0, len(curve.risk) - 1, _NUM_POINTS, dtype=torch.float64).round().long().unique()
    return {"coverage": curve.coverage[positions].tolist(), "risk": curve.risk[positions].tolist()}


def class_rows(predictions: Predictions, names: tuple[str, ...], num_classes: int) -> list[dict[str, Any]]:
    """One row a class that occurs, in the order of the classes."""
    labels = predictions.labels
    is_wrong = ~predictions.is_correct

    def sums(values: Tensor, where: Tensor) -> Tensor:
        return torch.zeros(num_classes, dtype=torch.float64).index_add_(0, where, values)

    ones = torch.ones_like(predictions.confidence)
    count, wrong = sums(ones, labels), sums(is_wrong.double(), labels)
    confidence = sums(predictions.confidence, labels)
    sure = sums(predictions.confidence * is_wrong, labels)
    taken_for = sums(is_wrong.double(), predictions.predicted)
    return [
        {
            "name": names[index] if names else f"class {index}",
            "count": int(count[index]),
            "accuracy": 1.0 - float(wrong[index] / count[index]),
            "confidence": float(confidence[index] / count[index]),
            "confidence_wrong": float(sure[index] / wrong[index]) if wrong[index] else None,
            "mistaken_for": int(taken_for[index]),
        }
        for index in range(num_classes)
        if count[index]
    ]
