"""Differences between models on the same samples: paired bootstrap intervals, McNemar's exact test, linear CKA.

Each resample draws samples for all models at once, so what is hard or easy about a sample cancels in a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, repeat
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.metrics.bootstrap import Interval, class_counts, counts, separation_statistic
from maxsup.metrics.calibration import NUM_BINS, bin_of
from maxsup.metrics.predictions import Predictions, check_count, labels_of_features, tally
from maxsup.metrics.selective import aurc_of
from maxsup.metrics.separation import ClassSeparation, class_separation

MIN_PAIRED = 100
"""With fewer samples no intervals are given."""

Differences = dict[str, Interval]

_BLOCK_ELEMENTS = 1 << 22  # entries of the matrix of counts at a time
_BIASED = frozenset({"ece"})  # noise adds to these, and resampling adds it a second time


class McNemar(NamedTuple):
    """McNemar's exact test of two models: samples that only one of them gets right, and the two-sided p-value."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first: Tensor, second: Tensor) -> McNemar:
    """Test whether two models are right equally often; inputs say where each is right, ``(N,)``.

    Example:
        >>> found = mcnemar(torch.tensor([1, 1, 1, 1, 1, 0]).bool(), torch.tensor([1, 0, 0, 0, 0, 0]).bool())
        >>> found.only_first, found.only_second, round(found.p_value, 6)
        (4, 0, 0.125)
    """
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    total, fewer = only_first + only_second, min(only_first, only_second)
    # Chance that as few or fewer of the samples on which they differ fall to one of them.
    index = torch.arange(fewer + 1, dtype=torch.float64)
    whole = torch.tensor(total + 1.0, dtype=torch.float64).lgamma()
    logs = whole - (index + 1).lgamma() - (total - index + 1).lgamma() - total * math.log(2)
    tail = float(logs.logsumexp(0).exp())
    return McNemar(only_first, only_second, min(1.0, 2 * tail))


def paired_differences(
    models: Sequence[Predictions],
    *,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
    with_ranking: bool = True,
) -> dict[tuple[int, int], Differences]:
    """Return, for each pair of models, the second's numbers minus the first's, with paired bootstrap intervals.

    Numbers are those of ``maxsup.metrics.facts``. ``confidence_gap`` is the mean confidence where right minus that
    where wrong. A number that a model lacks, such as confidence on errors without any error, is ``nan``.

    Args:
        models: Predictions of at least two models for the same samples, in the same order.
        level: Confidence level of each interval.
        num_resamples: Number of resamples.
        seed: Seed of the resampling.
        with_ranking: Also compute AURC, which takes most of the time.

    Raises:
        DataError: If there are fewer than 100 samples, or the labels differ.
    """
    check_count("num_resamples", num_resamples, usual=1000, least=2)
    num_samples = len(models[0].labels)
    if num_samples < MIN_PAIRED:
        raise DataError(
            f"samples must be at least {MIN_PAIRED} for intervals of differences; got {num_samples}. Give more.",
            code="too-few-samples",
        )
    for model in models[1:]:
        if not torch.equal(model.labels, models[0].labels):
            raise DataError(
                "models must be judged on the same samples; got other labels. Give them in one order.",
                code="other-samples",
            )
    functions = [_statistic(model, with_ranking) for model in models]
    whole = torch.ones(1, num_samples, dtype=torch.float64)
    estimates = [numbers_of(whole) for numbers_of in functions]
    num_rows = max(1, _BLOCK_ELEMENTS // num_samples)
    parts: list[list[dict[str, Tensor]]] = [[] for _ in models]
    drawn = counts(num_samples, num_resamples, seed)
    while rows := list(islice(drawn, num_rows)):
        block = torch.stack(rows)
        for own, numbers_of in zip(parts, functions, strict=True):
            own.append(numbers_of(block))
    resampled = [{name: torch.cat([part[name] for part in own]) for name in own[0]} for own in parts]
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    return {
        (first, second): {
            name: _interval(
                float(estimates[second][name] - estimates[first][name]),
                resampled[second][name] - resampled[first][name],
                tails,
                biases=[float(resampled[each][name].mean() - estimates[each][name]) for each in (first, second)]
                if name in _BIASED
                else None,
            )
            for name in estimates[0]
        }
        for first, second in combinations(range(len(models)), 2)
    }


def paired_separations(
    features: Sequence[Tensor], labels: Tensor, *, level: float = 0.95, num_resamples: int = 200, seed: int = 0
) -> dict[tuple[int, int], Differences]:
    """Return the differences of ``within``, ``total`` and ``r_squared`` for each pair, the second minus the first.

    Samples are drawn within each class, and the same ones for all models; see :func:`maxsup.metrics.class_separation`.

    Args:
        features: Those of each model for the same samples, ``(N, D)``; widths may differ.
        labels: Class indices, ``(N,)``.
        level: Confidence level of each interval.
        num_resamples: Number of resamples.
        seed: Seed of the resampling.
    """
    estimates = [class_separation(each, labels) for each in features]
    functions = [separation_statistic(*each) for each in zip(features, repeat(labels), estimates, strict=False)]
    drawn = [[numbers_of(row) for numbers_of in functions] for row in class_counts(labels, num_resamples, seed)]
    resampled = torch.tensor(drawn, dtype=torch.float64)  # resamples, models, numbers
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    return {
        (first, second): {
            name: _interval(
                estimates[second][column] - estimates[first][column],
                resampled[:, second, column] - resampled[:, first, column],
                tails,
            )
            for column, name in enumerate(ClassSeparation._fields)
        }
        for first, second in combinations(range(len(features)), 2)
    }


def paired_detections(
    models: Sequence[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]],
    *,
    level: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> dict[tuple[int, int], Differences]:
    """Return the differences of AUROC and FPR95 (:func:`maxsup.metrics.detection`) for each pair, second minus first.

    Both kinds of samples are resampled, each by itself, and the same ones for all models and scores.

    Args:
        models: For each model its scores by name: those of known samples ``(N,)``, and those of others ``(M,)``.
        level: Confidence level of each interval.
        num_resamples: Number of resamples.
        seed: Seed of the resampling.
    """
    functions = [
        {name: _detection_statistic(score, others[name]) for name, score in known.items()} for known, others in models
    ]
    num_known, num_others = (len(next(iter(scores.values()))) for scores in models[0])
    draws = zip(counts(num_known, num_resamples, seed), counts(num_others, num_resamples, seed + 1), strict=True)

    def row(of_known: Tensor, of_others: Tensor) -> list[list[float]]:
        return [[value for f in own.values() for value in f(of_known, of_others)] for own in functions]

    whole = (torch.ones(size, dtype=torch.float64) for size in (num_known, num_others))
    estimates = row(*whole)
    resampled = torch.tensor([row(*drawn) for drawn in draws], dtype=torch.float64)  # resamples, models, numbers
    tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    names = [f"ood_{number}_{score}" for score in functions[0] for number in ("auroc", "fpr95")]
    return {
        (first, second): {
            name: _interval(
                estimates[second][column] - estimates[first][column],
                resampled[:, second, column] - resampled[:, first, column],
                tails,
            )
            for column, name in enumerate(names)
        }
        for first, second in combinations(range(len(models)), 2)
    }


def _detection_statistic(known: Tensor, others: Tensor) -> Callable[[Tensor, Tensor], tuple[float, float]]:
    """Return a function from counts of known samples ``(N,)`` and of others ``(M,)`` to AUROC and FPR95."""
    ordered, order = others.double().sort()
    known, known_order = known.double().sort()
    at_most, below = torch.searchsorted(ordered, known, right=True), torch.searchsorted(ordered, known)
    rejected = torch.searchsorted(known, ordered, right=True)  # known samples up to each possible threshold

    def numbers_of(of_known: Tensor, of_others: Tensor) -> tuple[float, float]:
        zero, ranked = torch.zeros(1, dtype=torch.float64), of_known[known_order]
        cumulative = torch.cat([zero, of_others[order].cumsum(0)])
        auroc = float(ranked @ (cumulative[below] + cumulative[at_most])) / (2 * len(known) * len(ordered))
        threshold = int(torch.searchsorted(cumulative[1:], 0.95 * len(ordered) - 1e-9))
        return auroc, float(ranked[: int(rejected[threshold])].sum()) / len(known)

    return numbers_of


def linear_cka(first: Tensor, second: Tensor) -> float:
    """Return the linear centred kernel alignment of two models' features of the same samples (Kornblith et al. 2019).

    ``first`` is ``(N, D)`` and ``second`` ``(N, E)``. 1 means equal up to rotation, reflection and scale. With fewer
    samples than dimensions it is high for any two models.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
        >>> round(linear_cka(features, 2.0 * features.flip(1)), 6)
        1.0
    """
    rows = torch.zeros(len(first), dtype=torch.int64)
    labels_of_features("first", first, rows)
    labels_of_features("second", second, rows)
    x, y = (each.detach().cpu().double() for each in (first, second))
    x, y = x - x.mean(dim=0), y - y.mean(dim=0)
    norms = float(torch.linalg.matrix_norm(x.T @ x) * torch.linalg.matrix_norm(y.T @ y))
    return float((y.T @ x).square().sum()) / norms if norms > 0 else math.nan


def _statistic(model: Predictions, with_ranking: bool) -> Callable[[Tensor], dict[str, Tensor]]:
    """Return a function from counts of samples ``(R, N)`` to the numbers of each row."""
    columns = _columns(model)
    if not with_ranking:
        return lambda drawn: _numbers(drawn @ columns)
    samples, order = tally(model), model.confidence.sort(descending=True, stable=True).indices

    def numbers_of(drawn: Tensor) -> dict[str, Tensor]:
        ranked = [aurc_of(replace(samples, count=row[order])) for row in drawn]
        return {**_numbers(drawn @ columns), "aurc": torch.tensor(ranked, dtype=torch.float64)}

    return numbers_of


def _columns(model: Predictions) -> Tensor:
    """Return what is summed over samples, ``(N, columns)``: the last columns are gaps, one for each bin."""
    right, confidence = model.is_correct.double(), model.confidence
    gaps = torch.zeros(len(right), NUM_BINS, dtype=torch.float64)
    gaps.scatter_(1, bin_of(confidence, NUM_BINS).unsqueeze(1), (confidence - right).unsqueeze(1))
    sums = torch.stack([torch.ones_like(right), right, model.nll, model.brier, confidence, confidence * right], dim=1)
    return torch.cat([sums, gaps], dim=1)


def _numbers(sums: Tensor) -> dict[str, Tensor]:
    """Return the numbers of rows of sums of :func:`_columns`."""
    count, right, nll, brier, confidence, of_right = sums[:, :6].unbind(dim=1)
    correct, wrong = of_right / right, (confidence - of_right) / (count - right)
    return {
        "accuracy": right / count,
        "nll": nll / count,
        "brier": brier / count,
        "ece": sums[:, 6:].abs().sum(dim=1) / count,
        "mean_confidence": confidence / count,
        "confidence_correct": correct,
        "confidence_wrong": wrong,
        "confidence_gap": correct - wrong,
    }


def _interval(estimate: float, resampled: Tensor, tails: Tensor, *, biases: Sequence[float] | None = None) -> Interval:
    """Return quantiles; ``biases`` are what resampling adds to the first and the second of two calibration errors.

    Noise of size s adds sqrt(2 / pi) s to an error whose gap is 0, and resampling it adds sqrt(2) - 1 times that: the
    error itself may be too high by sqrt(2) times what resampling adds, beyond what mirroring removes. Which it is
    cannot be told, so the bounds leave room for it.
    """
    resampled = resampled[resampled.isfinite()]
    if not math.isfinite(estimate) or len(resampled) == 0:
        return Interval(math.nan, math.nan, math.nan)
    low, high = resampled.quantile(tails).tolist()
    if biases is not None:
        first, second = (math.sqrt(2) * max(0.0, bias) for bias in biases)
        low, high = 2 * estimate - high - second, 2 * estimate - low + first
    return Interval(estimate, min(low, estimate), max(high, estimate))
