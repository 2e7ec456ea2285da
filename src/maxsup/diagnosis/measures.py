"""Measure the numbers of a diagnosis, and the curves and tables of its page."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.diagnosis.findings import MIN_A_CLASS, MIN_SAMPLES
from maxsup.diagnosis.outputs import Outputs
from maxsup.diagnosis.probe import fit_probe, knn_accuracy
from maxsup.diagnosis.rescaling import fit_norm, fit_temperature, normalized_confidence
from maxsup.diagnosis.smoothing import LogitTraces, SmoothingEstimate
from maxsup.metrics import (
    Interval,
    PredictionTable,
    bootstrap_interval,
    bootstrap_intervals,
    feature_rank,
    neural_collapse,
    prediction_sets,
    risk_coverage,
)
from maxsup.metrics.calibration import NUM_BINS, bin_sums, reliability_of
from maxsup.metrics.classes import class_scores_of, class_sums
from maxsup.metrics.conformal import least_samples
from maxsup.metrics.predictions import Predictions
from maxsup.metrics.temperature import recalibration_of

Numbers = dict[str, float | Interval]

_ROWS = 4096
_NUM_RESAMPLES = 200
_NUM_POINTS = 200
_FIT_ELEMENTS = 5_000_000  # more logits do not improve a temperature
_PROBE_SAMPLES = 4000
_PROBE_CLASSES = 100
_PROBE_STEPS = 400  # features of networks need fewer, and those of a damaged file would take minutes
_PROBE_STRENGTHS = tuple(10.0**power for power in range(-4, 5))


class Rescaled(NamedTuple):
    """Predictions before and after a temperature, and their confidence by a logit norm."""

    temperature: float
    power: int | None  # of the fitted norm, None if the softmax ranks as well
    before: PredictionTable  # of the evaluated samples
    after: PredictionTable  # of the evaluated samples, with the temperature
    ranked: Tensor | None  # confidence of the evaluated samples by the norm, None with ``power``
    everything: PredictionTable  # of all samples
    num_fitted: int
    how_fitted: str  # on which samples, for the reader
    sets: dict[str, float]  # sizes and coverage of prediction sets of the evaluated samples


def rescale(outputs: Outputs, validation: Outputs | None, seed: int) -> Rescaled:
    """Fit temperature and norm on validation samples, or on one half of the samples, and evaluate on the others."""
    order = _random_order(len(outputs), seed)
    if validation is None:
        source, fitted, judged = outputs, order[: len(order) // 2], order[len(order) // 2 :].sort().values
        how_fitted = "fitted on one half and evaluated on the other"
    else:
        source, fitted, judged = validation, _random_order(len(validation), seed), order.sort().values
        how_fitted = "fitted on the validation split"
    fitted = fitted[: max(1000, _FIT_ELEMENTS // outputs.num_classes)].sort().values
    samples = source.logits[fitted], source.labels[fitted]
    temperature, power = fit_temperature(*samples), fit_norm(*samples)
    before, after, ranked = _table(outputs, judged), _table(outputs, judged, temperature), None
    if power is not None:
        ranked = torch.cat([normalized_confidence(outputs.logits[part], power) for part in judged.split(_ROWS)])
    others = torch.ones(len(outputs), dtype=torch.bool).index_fill_(0, judged, False).nonzero().squeeze(1)
    everything = PredictionTable().merge(before).merge(_table(outputs, others))
    sets = _set_numbers((outputs.logits[judged], outputs.labels[judged]), samples)
    return Rescaled(temperature, power, before, after, ranked, everything, len(fitted), how_fitted, sets)


def _set_numbers(judged: tuple[Tensor, Tensor], fitted: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Return size and coverage of LAC sets, for levels that the fitted samples are enough for."""
    numbers = dict[str, float]()
    for level in (0.9, 0.95):
        if len(fitted[1]) >= least_samples(level):
            sets, percent = prediction_sets(*judged, fitted_on=fitted, level=level), round(100 * level)
            worst = sets.class_coverage[~sets.class_coverage.isnan()].min()
            numbers[f"set_size_lac_{percent}"] = sets.size
            numbers[f"set_coverage_lac_{percent}"] = sets.coverage
            numbers[f"worst_class_coverage_lac_{percent}"] = float(worst)
    return numbers


def prediction_numbers(table: PredictionTable, seed: int) -> Numbers:
    """Return accuracy, calibration and confidence of all samples, with their values for a calibrated model."""
    confidence = table.predictions.confidence
    doubt = 1.0 - confidence
    # A calibrated model is wrong with probability 1 - confidence.
    usual = float((confidence * doubt).sum() / doubt.sum()) if float(doubt.sum()) > 0 else float("nan")
    return {
        **bootstrap_intervals(table, num_resamples=_NUM_RESAMPLES, seed=seed),
        "mean_confidence": float(confidence.mean()),
        "confidence_wrong_if_calibrated": usual,
        "ece_if_calibrated": _chance_error(confidence, seed),
    }


def _chance_error(confidence: Tensor, seed: int) -> float:
    """Return the 95 % quantile of the calibration errors that a calibrated model has by chance."""
    generator = torch.Generator().manual_seed(seed)
    bins = (confidence * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    errors = []
    for _ in range(_NUM_RESAMPLES):
        is_right = torch.rand(len(confidence), generator=generator, dtype=confidence.dtype) < confidence
        gaps = torch.zeros(NUM_BINS, dtype=confidence.dtype).index_add_(0, bins, confidence - is_right.double())
        errors.append(float(gaps.abs().sum()) / len(confidence))
    return sorted(errors)[round(0.95 * _NUM_RESAMPLES) - 1]


def rescaling_numbers(rescaled: Rescaled, seed: int) -> Numbers:
    """Return calibration before and after the temperature with its parts, and ranking before and after the norm."""
    power = float("nan") if rescaled.power is None else float(rescaled.power)
    numbers: Numbers = {"temperature": rescaled.temperature, "norm_power": power}
    errors, rankings = ["ece", "nll", "brier"], ["aurc", "excess_aurc", "auroc", "fpr95"]
    for when, table, names, confidence in (
        ("before", rescaled.before, errors, None),
        ("after", rescaled.after, errors, None),
        ("before", rescaled.before, rankings, None),
        ("after", rescaled.before, rankings, rescaled.ranked),
    ):
        found = bootstrap_intervals(table, names, confidence=confidence, num_resamples=_NUM_RESAMPLES, seed=seed)
        numbers |= {f"{name}_{when}": interval for name, interval in found.items()}
    parts = recalibration_of(rescaled.before.predictions, rescaled.after.predictions, rescaled.temperature)
    numbers |= rescaled.sets
    return {**numbers, "nll_calibration": parts.nll_calibration, "brier_calibration": parts.brier_calibration}


def smoothing_numbers(found: SmoothingEstimate) -> Numbers:
    """Return the estimate of label smoothing and its three marks."""
    alpha = float("nan") if found.alpha is None else found.alpha
    return {
        "alpha": alpha if found.low is None or found.high is None else Interval(alpha, found.low, found.high),
        "alpha_by_scale": found.by_scale,
        "alpha_by_gap": found.by_gap,
        "unevenness": found.unevenness,
    }


def feature_numbers(outputs: Outputs, weight: Tensor | None, bias: Tensor | None, seed: int) -> Numbers:
    """Return collapse and probe numbers if there are features of enough samples."""
    if outputs.features is None or len(outputs) < MIN_SAMPLES:
        return {}
    features, labels = outputs.features, outputs.labels
    numbers: Numbers = {}
    if outputs.num_a_class >= MIN_A_CLASS:
        found = bootstrap_interval("class_separation", features, labels, num_resamples=_NUM_RESAMPLES, seed=seed)
        numbers |= {**found._asdict(), **neural_collapse(features, labels, weight, bias)._asdict()}
        numbers |= feature_rank(features, labels)._asdict()
    return numbers | _probe_numbers(features, labels, outputs.logits, _random_order(len(outputs), seed))


def _probe_numbers(features: Tensor, labels: Tensor, logits: Tensor, order: Tensor) -> Numbers:
    """Fit a classifier on one half of the features and evaluate it on the other.

    The first half is split again to choose the strength. Only classes with enough samples take part, at most the
    ``_PROBE_CLASSES`` most frequent ones, and the model is compared on these classes alone. With fewer than two such
    classes there are no numbers.
    """
    counts = torch.bincount(labels)
    frequent = counts.topk(min(len(counts), _PROBE_CLASSES)).indices.sort().values
    classes = frequent[counts[frequent] >= MIN_A_CLASS]
    if len(classes) < 2:
        return {}
    place = torch.full((int(labels.max()) + 1,), -1).index_put_((classes,), torch.arange(len(classes)))
    targets = place[labels]
    chosen = order[targets[order] >= 0]
    half = min(len(chosen) // 2, _PROBE_SAMPLES)
    fitted, judged = chosen[:half], chosen[-half:]
    train, val = fitted[: half // 2], fitted[half // 2 :]
    samples = features[train], targets[train], features[val], targets[val]
    probe = fit_probe(*samples, strengths=_PROBE_STRENGTHS, max_steps=_PROBE_STEPS)
    own = logits[judged][:, classes].argmax(dim=1) == targets[judged]
    return {
        "probe_accuracy": probe.accuracy(features[judged], targets[judged]),
        "knn_accuracy": knn_accuracy(features[fitted], targets[fitted], features[judged], targets[judged]),
        "accuracy_judged": float(own.double().mean()),
        "num_probe_judged": half,
        "num_probe_classes": len(classes),
    }


def _table(outputs: Outputs, rows: Tensor, temperature: float = 1.0) -> PredictionTable:
    table = PredictionTable()
    for part in rows.split(_ROWS):
        chosen = outputs.logits[part]
        table.update(chosen if temperature == 1.0 else chosen.double() / temperature, outputs.labels[part])
    return table


def _random_order(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def trace_curves(traces: LogitTraces) -> dict[str, Any]:
    """Return a histogram of the gap of correct predictions, and quantiles of the leftover probability."""
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
    """Return histograms of the confidence of correct and of wrong predictions."""
    edges = torch.linspace(0, 1, 41, dtype=torch.float64)
    shares = {}
    for name, chosen in (("right", predictions.is_correct), ("wrong", ~predictions.is_correct)):
        count = torch.histogram(predictions.confidence[chosen], edges).hist
        shares[name] = (count / count.sum().clamp(min=1)).tolist()
    return {"edges": edges.tolist(), **shares}


def rescaling_curves(rescaled: Rescaled) -> dict[str, Any]:
    """Return reliability before and after the temperature, and risk-coverage curves of the softmax and the norm."""
    before, after = rescaled.before.predictions, rescaled.after.predictions
    rankings = {"softmax": before.confidence, "norm": rescaled.ranked}
    risk = {name: _risk_curve(before, score) for name, score in rankings.items() if score is not None}
    return {"reliability": {"before": _reliability_points(before), "after": _reliability_points(after)}, "risk": risk}


def _reliability_points(predictions: Predictions) -> dict[str, Any]:
    ones = torch.ones_like(predictions.confidence)
    found = reliability_of(bin_sums(predictions.confidence, ones, predictions.is_correct.double(), NUM_BINS))
    return {name: getattr(found, name).tolist() for name in ("edges", "count", "accuracy", "confidence")}


def _risk_curve(predictions: Predictions, confidence: Tensor) -> dict[str, Any]:
    """Return points of the risk-coverage curve, including its end."""
    curve = risk_coverage(confidence, predictions.is_correct)
    positions = torch.linspace(0, len(curve.risk) - 1, _NUM_POINTS, dtype=torch.float64).round().long().unique()
    return {"coverage": curve.coverage[positions].tolist(), "risk": curve.risk[positions].tolist()}


def class_rows(predictions: Predictions, names: tuple[str, ...], num_classes: int) -> list[dict[str, Any]]:
    """Return one row for each class that occurs, in class order."""
    scores = class_scores_of(class_sums(predictions, num_classes))
    mistaken = predictions.predicted[~predictions.is_correct].bincount(minlength=num_classes)
    columns = (scores.size, scores.accuracy, scores.low, scores.high, scores.confidence, scores.confidence_wrong)
    rows = zip(*(column.tolist() for column in (*columns, mistaken)), strict=True)
    return [
        {
            "name": names[index] if names else f"class {index}",
            "count": count,
            "accuracy": accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "confidence": confidence,
            "confidence_wrong": None if math.isnan(wrong) else wrong,
            "mistaken_for": mistaken_for,
        }
        for index, (count, accuracy, low, high, confidence, wrong, mistaken_for) in enumerate(rows)
        if count
    ]
