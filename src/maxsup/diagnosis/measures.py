"""The numbers of a diagnosis, each measured from the outputs of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from maxsup.diagnosis.findings import MIN_A_CLASS, MIN_SAMPLES
from maxsup.diagnosis.outputs import Outputs
from maxsup.diagnosis.probe import fit_probe, knn_accuracy
from maxsup.diagnosis.rescaling import fit_norm, fit_temperature, normalized_confidence
from maxsup.diagnosis.smoothing import SmoothingEstimate
from maxsup.metrics import Interval, PredictionTable, bootstrap_interval, bootstrap_intervals, neural_collapse
from maxsup.metrics.calibration import NUM_BINS

Numbers = dict[str, float | Interval]

_ROWS = 4096
_NUM_RESAMPLES = 200
_FIT_ELEMENTS = 5_000_000  # more logits than these make a temperature no better
_PROBE_SAMPLES = 4000
_PROBE_CLASSES = 100
_PROBE_STRENGTHS = tuple(10.0**power for power in range(-4, 5))


@dataclass(frozen=True, eq=False)
class Rescaled:
    """Predictions before and after a temperature, and their order after a norm.

    Attributes:
        temperature: The fitted one.
        power: Of the fitted norm; None where the softmax ranks as well.
        before: Predictions of the judged samples.
        after: The same with the temperature.
        ranked: Confidence of the judged samples by the norm; None with ``power``.
        everything: Predictions of all samples.
        num_fitted: Samples that were fitted on.
        how_fitted: Which those are, for the reader.
    """

    temperature: float
    power: int | None
    before: PredictionTable
    after: PredictionTable
    ranked: Tensor | None
    everything: PredictionTable
    num_fitted: int
    how_fitted: str


def rescale(outputs: Outputs, validation: Outputs | None, seed: int) -> Rescaled:
    """Fit temperature and norm on validation samples, or on one half of the samples, and judge them on the others."""
    order = _shuffled(len(outputs), seed)
    if validation is None:
        source, fitted, judged = outputs, order[: len(order) // 2], order[len(order) // 2 :].sort().values
        how_fitted = "fitted on one half and judged on the other"
    else:
        source, fitted, judged = validation, _shuffled(len(validation), seed), order.sort().values
        how_fitted = "fitted on the validation split"
    fitted = fitted[: max(1000, _FIT_ELEMENTS // outputs.num_classes)].sort().values
    temperature = fit_temperature(source.logits[fitted], source.labels[fitted])
    power = fit_norm(source.logits[fitted], source.labels[fitted])
    before, ranked = _table(outputs, judged), None
    if power is not None:
        ranked = torch.cat([normalized_confidence(outputs.logits[part], power) for part in judged.split(_ROWS)])
    others = torch.ones(len(outputs), dtype=torch.bool).index_fill_(0, judged, False).nonzero().squeeze(1)
    return Rescaled(
        temperature,
        power,
        before,
        _table(outputs, judged, temperature),
        ranked,
        PredictionTable().merge(before).merge(_table(outputs, others)),
        len(fitted),
        how_fitted,
    )


def prediction_numbers(table: PredictionTable, seed: int) -> Numbers:
    """Accuracy, calibration and confidence of all samples, and what chance alone would give."""
    confidence = table.predictions.confidence
    doubt = 1.0 - confidence
    # If confidences were chances, a sample would be among the errors with chance 1 - confidence.
    usual = float((confidence * doubt).sum() / doubt.sum()) if float(doubt.sum()) > 0 else float("nan")
    return {
        **bootstrap_intervals(table, num_resamples=_NUM_RESAMPLES, seed=seed),
        "mean_confidence": float(confidence.mean()),
        "confidence_wrong_if_calibrated": usual,
        "ece_if_calibrated": _chance_error(confidence, seed),
    }


def _chance_error(confidence: Tensor, seed: int) -> float:
    """Calibration error that a calibrated model with these confidences stays below in 95 of 100 such samples."""
    generator = torch.Generator().manual_seed(seed)
    bins = (confidence * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    errors = []
    for _ in range(_NUM_RESAMPLES):
        is_right = torch.rand(len(confidence), generator=generator, dtype=confidence.dtype) < confidence
        gaps = torch.zeros(NUM_BINS, dtype=confidence.dtype).index_add_(0, bins, confidence - is_right.double())
        errors.append(float(gaps.abs().sum()) / len(confidence))
    return sorted(errors)[round(0.95 * _NUM_RESAMPLES) - 1]


def rescaling_numbers(rescaled: Rescaled, seed: int) -> Numbers:
    """Calibration before and after the temperature, ranking before and after the norm, of the judged samples."""
    power = float("nan") if rescaled.power is None else float(rescaled.power)
    numbers: Numbers = {"temperature": rescaled.temperature, "norm_power": power}
    settings: dict[str, Any] = {"num_resamples": _NUM_RESAMPLES, "seed": seed}
    for when, table in (("before", rescaled.before), ("after", rescaled.after)):
        for name, found in bootstrap_intervals(table, ["ece", "nll"], **settings).items():
            numbers[f"{name}_{when}"] = found
    rankings = ["aurc", "excess_aurc", "auroc", "fpr95"]
    for when, confidence in (("before", None), ("after", rescaled.ranked)):
        for name, found in bootstrap_intervals(rescaled.before, rankings, confidence=confidence, **settings).items():
            numbers[f"{name}_{when}"] = found
    return numbers


def smoothing_numbers(found: SmoothingEstimate) -> Numbers:
    """The estimate and the three marks behind it."""
    alpha = float("nan") if found.alpha is None else found.alpha
    return {
        "alpha": alpha if found.low is None or found.high is None else Interval(alpha, found.low, found.high),
        "alpha_by_scale": found.by_scale,
        "alpha_by_gap": found.by_gap,
        "unevenness": found.unevenness,
    }


def feature_numbers(outputs: Outputs, weight: Tensor | None, bias: Tensor | None, seed: int) -> Numbers:
    """Collapse and probes, as far as there are features of enough samples."""
    if outputs.features is None or len(outputs) < MIN_SAMPLES:
        return {}
    features, labels = outputs.features, outputs.labels
    numbers: Numbers = {}
    if outputs.num_a_class >= MIN_A_CLASS:
        found = bootstrap_interval("class_separation", features, labels, num_resamples=_NUM_RESAMPLES, seed=seed)
        numbers |= {**found._asdict(), **neural_collapse(features, labels, weight, bias)._asdict()}
    return numbers | _probe_numbers(features, labels, outputs.logits, _shuffled(len(outputs), seed))


def _probe_numbers(features: Tensor, labels: Tensor, logits: Tensor, order: Tensor) -> Numbers:
    """A fresh classifier on some of the features, judged on others; half of the first part chooses its strength.

    Only classes with enough samples to learn from take part, and of many the most frequent ones; the model itself then
    chooses among these too. Without two such classes there are no numbers.
    """
    counts = torch.bincount(labels)
    frequent = counts.topk(min(len(counts), _PROBE_CLASSES)).indices.sort().values
    classes = frequent[counts[frequent] >= MIN_A_CLASS]
    if len(classes) < 2:
        return {}
    place = torch.full((int(labels.max()) + 1,), -1).index_put_((classes,), torch.arange(len(classes)))
    chosen = order[place[labels[order]] >= 0]
    half = min(len(chosen) // 2, _PROBE_SAMPLES)
    fitted, judged = chosen[:half], chosen[-half:]
    train, val = fitted[: half // 2], fitted[half // 2 :]
    targets = place[labels]
    probe = fit_probe(features[train], targets[train], features[val], targets[val], strengths=_PROBE_STRENGTHS)
    own = logits[judged][:, classes].argmax(dim=1) == targets[judged]
    neighbours = knn_accuracy(features[fitted], targets[fitted], features[judged], targets[judged])
    return {
        "probe_accuracy": probe.accuracy(features[judged], targets[judged]),
        "knn_accuracy": neighbours,
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


def _shuffled(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
