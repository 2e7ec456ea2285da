"""The damage report: what the outputs of any model say about its training, and how far to trust its confidence.

Arrays may come from a run, a checkpoint or files (:mod:`maxsup.diagnosis.array_files`). Logits are read in parts and
reduced to a few numbers a sample, so 50,000 samples of 1,000 classes fit in memory more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from maxsup.core.finding import LEVELS, Finding
from maxsup.diagnosis.array_checks import Array, checked_outputs
from maxsup.diagnosis.figure_data import (
    class_rows,
    confidence_histogram,
    reliability_points,
    risk_curve,
    trace_curves,
)
from maxsup.diagnosis.findings import (
    MIN_A_CLASS,
    MIN_SAMPLES,
    calibration_finding,
    collapse_finding,
    confidence_finding,
    probe_finding,
    selection_finding,
    smoothing_finding,
)
from maxsup.diagnosis.probe import fit_probe, knn_accuracy
from maxsup.diagnosis.rescaling import fit_norm, fit_temperature, normalized_confidence
from maxsup.diagnosis.smoothing import SmoothingEstimate, estimate_from, logit_traces
from maxsup.metrics import Interval, PredictionTable, bootstrap_interval, bootstrap_intervals, neural_collapse
from maxsup.metrics.calibration import NUM_BINS
from maxsup.metrics.facts import numbers as named

PROTOCOL = 1
"""Version of how the numbers are made; it changes when they would."""

_ROWS = 4096
_NUM_RESAMPLES = 200
_FIT_ELEMENTS = 5_000_000  # more logits than these make a temperature no better
_PROBE_SAMPLES = 4000
_PROBE_CLASSES = 100
_PROBE_STRENGTHS = tuple(10.0**power for power in range(-4, 5))


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Numbers, findings, and what figures are drawn from; shows its findings when printed or left in a notebook.

    Attributes:
        numbers: By name, each with ``value``, ``direction``, ``unit`` and, where resampled, ``low`` and ``high``.
        findings: One sentence a topic.
        smoothing: The estimate behind the first finding.
        data: Curves and tables for the page, ready for JSON.
    """

    numbers: dict[str, dict[str, Any]]
    findings: list[Finding]
    smoothing: SmoothingEstimate
    data: dict[str, Any]

    @property
    def headline(self) -> str:
        """Samples, classes and the plainest numbers in one line."""
        value = {name: self.numbers[name]["value"] for name in ("accuracy", "nll", "ece")}
        return (
            f"{self.data['num_samples']:,} samples, {self.data['num_classes']:,} classes, accuracy "
            f"{value['accuracy']:.2%}, nll {value['nll']:.4f}, ece {value['ece']:.4f}"
        )

    def __repr__(self) -> str:
        parts = [
            f"{LEVELS[found.level]}: {found.topic}\n  {found.sentence}\n  Next: {found.advice}"
            for found in self.findings
        ]
        return "\n\n".join([self.headline, *parts])

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{LEVELS[found.level]}</td><td><b>{escape(found.topic)}</b></td>"
            f'<td style="text-align:left">{escape(found.sentence)}<br><i>{escape(found.advice)}</i></td></tr>'
            for found in self.findings
        ]
        return f"<p>{escape(self.headline)}</p><table>{''.join(rows)}</table>"

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {"protocol": PROTOCOL, **asdict(self)}


def diagnose(
    logits: Array,
    labels: Array,
    features: Array | None = None,
    class_names: Sequence[str] | None = None,
    *,
    validation: tuple[Array, Array] | None = None,
    train: tuple[Array, Array] | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    recipe: str = "",
    seed: int = 0,
) -> Diagnosis:
    """What the outputs of a model say about it, from NumPy arrays or tensors.

    Args:
        logits: Scores before the softmax for held-out samples, ``(N, K)``.
        labels: Their true classes, ``(N,)``.
        features: What the last layer saw, ``(N, D)``, for collapse and probe.
        class_names: One a column of the logits.
        validation: Logits and labels of other held-out samples, on which temperature and norm are fitted; without
            them one half of the samples is fitted on and the other judged.
        train: Logits and labels of training images, which show label smoothing best; the samples if not given.
        weight: Of the last layer, ``(K, D)``, for neural collapse.
        bias: Of the last layer, ``(K,)``.
        recipe: What is known of the training, to stand beside the estimate.
        seed: Of halves and resamples.

    Raises:
        DataError: The first thing that does not fit together, in one sentence.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(600) % 3
        >>> logits = 4.0 * torch.nn.functional.one_hot(labels) + 2.0 * torch.randn(600, 3, generator=generator)
        >>> diagnosis = diagnose(logits, labels)
        >>> [finding.topic for finding in diagnosis.findings]
        ['Label smoothing', 'Confidence on errors', 'Calibration', 'Selective classification']
        >>> diagnosis.headline
        '600 samples, 3 classes, accuracy 84.17%, nll 0.3900, ece 0.0440'
    """
    outputs = checked_outputs(logits, labels, features, class_names)
    logits, labels, features = outputs.logits, outputs.labels, outputs.features
    num_classes = logits.shape[1]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    if validation is None:
        fitted, judged = order[: len(order) // 2], order[len(order) // 2 :].sort().values
        source, source_labels = logits, labels
        how_fitted = "fitted on one half and judged on the other"
    else:
        held_out = checked_outputs(*validation)
        source, source_labels = held_out.logits, held_out.labels
        fitted, judged = (
            torch.randperm(len(source_labels), generator=torch.Generator().manual_seed(seed)),
            order.sort().values,
        )
        how_fitted = "fitted on the validation split"
    fitted = fitted[: max(1000, _FIT_ELEMENTS // num_classes)].sort().values

    traced = outputs if train is None else checked_outputs(*train)
    traces = logit_traces(traced.logits, traced.labels)
    smoothing = estimate_from(traces, seed=seed)

    rest = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, judged, False).nonzero().squeeze(1)
    before, others = _table(logits, labels, judged), _table(logits, labels, rest)
    everything = PredictionTable().merge(before).merge(others)
    temperature = fit_temperature(source[fitted], source_labels[fitted])
    power = fit_norm(source[fitted], source_labels[fitted])
    after = _table(logits, labels, judged, temperature)
    ranked = None if power is None else _ranked(logits, judged, power)

    predictions = everything.predictions
    num_wrong = int((~predictions.is_correct).sum())
    numbers = named(
        {
            **_prediction_numbers(everything, seed),
            **_repair_numbers(before, after, ranked, seed),
            "temperature": temperature,
            "norm_power": float("nan") if power is None else power,
            **_smoothing_numbers(smoothing),
        }
    )
    findings = [
        smoothing_finding(smoothing, num_classes, recipe),
        confidence_finding(numbers, num_wrong),
        calibration_finding(numbers, how_fitted, len(labels)),
        selection_finding(numbers, power, int((~before.predictions.is_correct).sum()), how_fitted),
    ]
    data: dict[str, Any] = {
        "num_samples": len(labels),
        "num_classes": num_classes,
        "num_wrong": num_wrong,
        "num_fitted": len(fitted),
        "num_judged": len(judged),
        "how_fitted": how_fitted,
        "judged": "the judged half" if validation is None else "all samples",
        "traced": "training images" if train is not None else "the given samples",
        "traces": trace_curves(traces),
        "confidence": confidence_histogram(predictions),
        "reliability": {
            "before": reliability_points(before.predictions),
            "after": reliability_points(after.predictions),
        },
        "risk": {
            "softmax": risk_curve(before.predictions, before.predictions.confidence),
            **({"norm": risk_curve(before.predictions, ranked)} if ranked is not None else {}),
        },
        "classes": class_rows(predictions, outputs.class_names, num_classes),
    }
    if features is not None:
        counts = torch.bincount(labels)
        num_a_class = int(counts[counts > 0].median())
        if len(labels) >= MIN_SAMPLES:
            if num_a_class >= MIN_A_CLASS:
                numbers |= named(_collapse_numbers(features, labels, weight, bias, seed))
            numbers |= named(_probe_numbers(features, labels, logits, order))
        findings += [
            collapse_finding(numbers, num_classes, num_a_class),
            probe_finding(numbers, num_classes, num_a_class),
        ]
    return Diagnosis(numbers, findings, smoothing, data)


def _table(logits: Tensor, labels: Tensor, rows: Tensor, temperature: float = 1.0) -> PredictionTable:
    table = PredictionTable()
    for part in rows.split(_ROWS):
        chosen = logits[part]
        table.update(chosen if temperature == 1.0 else chosen.double() / temperature, labels[part])
    return table


def _ranked(logits: Tensor, rows: Tensor, power: int) -> Tensor:
    return torch.cat([normalized_confidence(logits[part], power) for part in rows.split(_ROWS)])


def _prediction_numbers(table: PredictionTable, seed: int) -> dict[str, float | Interval]:
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


def _repair_numbers(
    before: PredictionTable, after: PredictionTable, ranked: Tensor | None, seed: int
) -> dict[str, float | Interval]:
    numbers: dict[str, float | Interval] = {}
    settings: dict[str, Any] = {"num_resamples": _NUM_RESAMPLES, "seed": seed}
    for when, table in (("before", before), ("after", after)):
        for name, found in bootstrap_intervals(table, ["ece", "nll"], **settings).items():
            numbers[f"{name}_{when}"] = found
    rankings = ["aurc", "excess_aurc", "auroc", "fpr95"]
    for when, confidence in (("before", None), ("after", ranked)):
        for name, found in bootstrap_intervals(before, rankings, confidence=confidence, **settings).items():
            numbers[f"{name}_{when}"] = found
    return numbers


def _smoothing_numbers(found: SmoothingEstimate) -> dict[str, float | Interval]:
    alpha = float("nan") if found.alpha is None else found.alpha
    return {
        "alpha": alpha if found.low is None or found.high is None else Interval(alpha, found.low, found.high),
        "alpha_by_scale": found.by_scale,
        "alpha_by_gap": found.by_gap,
        "unevenness": found.unevenness,
    }


def _collapse_numbers(
    features: Tensor, labels: Tensor, weight: Tensor | None, bias: Tensor | None, seed: int
) -> dict[str, float | Interval]:
    found = bootstrap_interval("class_separation", features, labels, num_resamples=_NUM_RESAMPLES, seed=seed)
    return {**found._asdict(), **neural_collapse(features, labels, weight, bias)._asdict()}


def _probe_numbers(features: Tensor, labels: Tensor, logits: Tensor, order: Tensor) -> dict[str, float]:
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
