"""Bootstrap confidence intervals of metrics.

Samples are drawn with replacement without copying logits: predictions are first reduced to a few numbers per sample,
and a resample is a vector of counts. 50,000 samples of 1,000 classes take milliseconds per resample.

Bounds are quantiles of the resampled values. Noise biases calibration errors and neural collapse upwards, and
resampling adds that bias a second time. Mirroring their quantiles at the estimate removes it. The lower bound of a
calibration error is 0 if noise alone would explain the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.core.errors import hint
from maxsup.metrics import calibration, scores, selective
from maxsup.metrics.batches import RANKINGS, SCORES, PredictionTable
from maxsup.metrics.collapse import neural_collapse
from maxsup.metrics.predictions import Tally, check_count, check_samples, checked_labels, tallied
from maxsup.metrics.separation import MIN_TOTAL, ClassSeparation, SeparationSums, class_separation, unit_blocks

# Public function -> its form on a tally; a calibration error is given as the tensor of its gaps.
_FROM_TALLY: dict[str, Callable[..., Any]] = {
    "accuracy": scores.accuracy_of,
    "negative_log_likelihood": SCORES["nll"],
    "brier_score": SCORES["brier"],
    "mean_confidence": scores.confidence_of,
    "expected_calibration_error": calibration.calibration_gaps,
    "adaptive_calibration_error": calibration.adaptive_gaps,
    "risk_at_coverage": selective.risk_at_coverage_of,
    **RANKINGS,
}
_FROM_TABLE = SCORES | RANKINGS | {"ece": calibration.calibration_gaps, "adaptive_ece": calibration.adaptive_gaps}
_NAMES = (*_FROM_TALLY, "classwise_calibration_error", "class_separation", "neural_collapse")


class Interval(NamedTuple):
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float


def bootstrap_interval(
    metric: str | Callable[..., Any],
    inputs: Tensor,
    labels: Tensor,
    *,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Any:
    """Return the bootstrap interval of one metric.

    A metric with several numbers gives a tuple of :class:`Interval`, with the metric's own field names. Feature metrics
    are resampled within each class: ``class_separation`` to first order (each sample's part in its pairs),
    ``neural_collapse`` by recomputing it. Bounds are ``nan`` if the estimate is, and resamples in which the metric is
    undefined are skipped.

    Args:
        metric: Name or function of a metric of this package, or any ``f(inputs, labels, **options)`` that returns a
            number or a tuple of numbers. Such a function is called for every resample.
        inputs: Logits ``(N, K)`` or features ``(N, D)``, as the metric takes them.
        labels: Class indices, ``(N,)``.
        level: Confidence level of the interval.
        num_resamples: Number of resamples.
        seed: Seed of the resampling.
        options: Passed on to the metric.

    Example:
        >>> top = torch.arange(100) % 2
        >>> labels = torch.where(torch.arange(100) % 5 == 0, 1 - top, top)
        >>> bootstrap_interval("accuracy", torch.eye(2)[top], labels, seed=0).estimate
        0.8
    """
    _check(level, num_resamples)
    name = metric if isinstance(metric, str) else _name_of(metric)
    check_samples("inputs", inputs)
    if name in _FROM_TALLY:
        samples = tallied(inputs, labels, options.pop("confidence", None))
        statistic = partial(_FROM_TALLY[name], **options)
        drawn = counts(len(inputs), num_resamples, seed)
        return _interval(statistic(samples), (statistic(replace(samples, count=count)) for count in drawn), level)
    if name == "class_separation":
        separation = class_separation(inputs, labels, **options)
        from_counts = separation_statistic(inputs, labels, separation, **options)
        return _interval(separation, map(from_counts, class_counts(labels, num_resamples, seed)), level)
    if name == "neural_collapse":
        metric, drawn = neural_collapse, class_counts(labels, num_resamples, seed)
    elif name == "classwise_calibration_error":
        metric, drawn = _classwise_gaps, counts(len(inputs), num_resamples, seed)
    elif isinstance(metric, str):
        raise ValueError(f"metric must be a known name, or a function; got {metric!r}. {hint(metric, _NAMES)}")
    else:
        drawn = counts(len(inputs), num_resamples, seed)
    rows = (torch.arange(len(inputs)).repeat_interleave(count.long()) for count in drawn)
    values = (metric(inputs[some.to(inputs.device)], labels[some.to(labels.device)], **options) for some in rows)
    return _interval(metric(inputs, labels, **options), values, level, is_mirrored=name == "neural_collapse")


def bootstrap_intervals(
    table: PredictionTable,
    names: Sequence[str] | None = None,
    *,
    confidence: Tensor | None = None,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return bootstrap intervals of the metrics of a :class:`PredictionTable`, by name.

    Args:
        table: The predictions.
        names: Metrics of :meth:`PredictionTable.compute`; all of them by default.
        confidence: Scores ``(N,)`` to rank by, as in :meth:`PredictionTable.compute`.
        level: Confidence level of the intervals.
        num_resamples: Number of resamples.
        seed: Seed of the resampling.

    Example:
        >>> table = PredictionTable()
        >>> table.update(torch.eye(4), torch.tensor([0, 1, 2, 2]))
        >>> bootstrap_intervals(table, ["accuracy"])["accuracy"].estimate
        0.75
    """
    _check(level, num_resamples)
    for name in names or ():
        if name not in _FROM_TABLE:
            raise ValueError(f"name must be one that a table computes; got {name!r}. {hint(str(name), _FROM_TABLE)}")
    found: dict[str, Interval] = {}
    groups: list[tuple[Mapping[str, Callable[..., Any]], Tally]] = [(_FROM_TABLE, table.tally())]
    if confidence is not None:
        groups = [(SCORES, table.tally()), (RANKINGS, table.tally(confidence))]
    for group, samples in groups:
        chosen = [name for name in group if names is None or name in names]
        if chosen:
            # Every metric reads the same resample, so the counts are drawn once.
            drawn = (replace(samples, count=count) for count in counts(len(table), num_resamples, seed))
            statistic = partial(_compute, chosen)
            found |= zip(chosen, _interval(statistic(samples), map(statistic, drawn), level), strict=True)
    return {name: found[name] for name in names or _FROM_TABLE}


def _compute(names: Sequence[str], samples: Tally) -> tuple[Any, ...]:
    return tuple(_FROM_TABLE[name](samples) for name in names)


def _interval(estimate: Any, values: Iterable[Any], level: float, *, is_mirrored: bool = False) -> Any:
    """Return the interval of a number, of each field of a tuple, or of the error of a vector of calibration gaps."""
    if isinstance(estimate, tuple):
        columns = zip(*values, strict=True)
        parts = [
            _interval(own, column, level, is_mirrored=is_mirrored)
            for own, column in zip(estimate, columns, strict=True)
        ]
        return type(estimate)(*parts) if hasattr(estimate, "_fields") else tuple(parts)
    tail = (1.0 - level) / 2
    noise = None
    if isinstance(estimate, Tensor) and estimate.ndim:
        errors = [(calibration.error_of(gaps), calibration.error_of(gaps - estimate)) for gaps in values]
        resampled, noise = torch.tensor(errors, dtype=torch.float64).unbind(dim=1)
        estimate = calibration.error_of(estimate)
    else:
        estimate, resampled = float(estimate), torch.tensor([float(value) for value in values], dtype=torch.float64)
    resampled = resampled[~resampled.isnan()]
    if math.isnan(estimate) or len(resampled) == 0:
        return Interval(estimate, math.nan, math.nan)
    low, high = resampled.quantile(torch.tensor([tail, 1.0 - tail], dtype=torch.float64)).tolist()
    if is_mirrored or noise is not None:
        low, high = max(0.0, 2 * estimate - high), max(0.0, 2 * estimate - low)
    if noise is not None and estimate <= float(noise.quantile(1.0 - tail)):
        low = 0.0
    return Interval(estimate, min(low, estimate), max(high, estimate))


def _classwise_gaps(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    sums = calibration.ClasswiseSums(**options)
    sums.update(logits, labels)
    return sums.gaps


def _name_of(metric: Callable[..., Any]) -> str | None:
    """Return the name of a metric of this package, or None for any other function."""
    name = getattr(metric, "__name__", "")
    return name if str(getattr(metric, "__module__", "")).startswith("maxsup.metrics.") and name in _NAMES else None


def _check(level: float, num_resamples: int) -> None:
    if isinstance(level, bool) or not isinstance(level, float) or not 0.0 < level < 1.0:
        raise ValueError(f"level must be a probability between 0 and 1; got {level!r}. 0.95 is usual.")
    check_count("num_resamples", num_resamples, usual=1000, least=2)


def counts(num_samples: int, num_resamples: int, seed: int) -> Iterator[Tensor]:
    """Yield how often each sample is drawn, one vector per resample."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_resamples):
        rows = torch.randint(num_samples, (num_samples,), generator=generator)
        yield rows.bincount(minlength=num_samples).double()


def class_counts(labels: Tensor, num_resamples: int, seed: int) -> Iterator[Tensor]:
    """Yield how often each sample is drawn when each class is resampled by itself, one vector per resample."""
    generator = torch.Generator().manual_seed(seed)
    ordered, order = labels.cpu().sort(stable=True)
    _, place, size = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    first, size = (size.cumsum(0) - size)[place], size[place]
    for _ in range(num_resamples):
        share = torch.rand(len(order), generator=generator, dtype=torch.float64)
        drawn = (first + (share * size).long()).bincount(minlength=len(order)).double()
        yield torch.zeros_like(drawn).index_copy_(0, order, drawn)


@torch.no_grad()
def separation_statistic(
    features: Tensor, labels: Tensor, estimate: ClassSeparation, *, has_self_pairs: bool = True
) -> Callable[[Tensor], ClassSeparation]:
    """Return a function that maps the counts of a resample to its class separation, to first order.

    A resample repeats samples, and a repeated one is at distance 0 from itself, so pairs within a resample are not like
    pairs of new samples. The two means therefore change by each sample's mean cosine with the others of its class and
    with all other classes. A pair has two samples, hence the factor 2.
    """
    labels = checked_labels(labels, len(features))
    sums = SeparationSums()
    sums.update(features, labels)
    classes, place, size = labels.unique(return_inverse=True, return_counts=True)
    per_class = sums.vectors[classes]
    means = per_class / size.unsqueeze(1)
    everything = means.sum(dim=0)
    own, cross = torch.zeros(2, len(labels), dtype=torch.float64)
    for rows, block in unit_blocks(features):
        part = place[rows]
        with_own = torch.einsum("ij,ij->i", block, per_class[part])
        own[rows] = with_own - block.square().sum(dim=1)
        cross[rows] = block @ everything - with_own / size[part]
    size = size[place].double()
    own *= 2.0 / size / (size if has_self_pairs else size - 1).clamp(min=1.0)
    own[size < 2] = 0.0
    cross *= 2.0 / size
    num_paired = len(classes) if has_self_pairs else int((labels.bincount() > 1).sum())
    num_pairs = len(classes) ** 2 - (len(classes) - num_paired)

    def statistic(drawn: Tensor) -> ClassSeparation:
        change = drawn - 1.0
        of_own = float(change @ own)
        within = estimate.within - of_own / max(1, num_paired)
        total = estimate.total - (of_own + float(change @ cross)) / max(1, num_pairs)
        return ClassSeparation(within, total, 1.0 - within / total if total > MIN_TOTAL else float("nan"))

    return statistic
