"""The metrics as loops over Python floats, each written from its definition.

Predictions come as lists of logits, one a sample; features as lists of numbers, one a sample.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, permutations

from tests.reference.losses import argmax, softmax

Rows = Sequence[Sequence[float]]


def average(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def accuracy(rows: Rows, labels: Sequence[int], k: int = 1) -> float:
    """A class comes before another if its logit is larger, or equal and its index lower."""

    def is_within(z: Sequence[float], label: int) -> bool:
        order = sorted(range(len(z)), key=lambda index: (-z[index], index))
        return label in order[:k]

    return average(float(is_within(z, label)) for z, label in zip(rows, labels, strict=True))


def negative_log_likelihood(rows: Rows, labels: Sequence[int]) -> float:
    return average(-math.log(softmax(z)[label]) for z, label in zip(rows, labels, strict=True))


def brier_score(rows: Rows, labels: Sequence[int]) -> float:
    return average(
        math.fsum((q - float(k == label)) ** 2 for k, q in enumerate(softmax(z)))
        for z, label in zip(rows, labels, strict=True)
    )


def confidences(rows: Rows) -> list[float]:
    return [max(softmax(z)) for z in rows]


def corrects(rows: Rows, labels: Sequence[int]) -> list[bool]:
    return [argmax(z) == label for z, label in zip(rows, labels, strict=True)]


def binned(values: Sequence[float], num_bins: int) -> list[list[int]]:
    """Indices of the samples of each bin: closed below, open above, the last one closed."""
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    for sample, value in enumerate(values):
        for index in range(num_bins):
            is_last = index == num_bins - 1
            if index / num_bins <= value and (is_last or value < (index + 1) / num_bins):
                bins[index].append(sample)
    return bins


def gap(values: Sequence[float], hits: Sequence[float], bins: Iterable[Sequence[int]]) -> float:
    """Calibration error over given bins: gaps of the bins, weighted by their samples."""
    return math.fsum(
        len(members) / len(values) * abs(average(values[i] for i in members) - average(hits[i] for i in members))
        for members in bins
        if members
    )


def expected_calibration_error(rows: Rows, labels: Sequence[int], num_bins: int = 15) -> float:
    values = confidences(rows)
    return gap(values, [float(hit) for hit in corrects(rows, labels)], binned(values, num_bins))


def tied_means(values: Sequence[float], hits: Sequence[float]) -> list[float]:
    """The mean of ``hits`` among all samples of the same value."""
    return [average(hit for other, hit in zip(values, hits, strict=True) if other == value) for value in values]


def adaptive_calibration_error(rows: Rows, labels: Sequence[int], num_bins: int = 15) -> float:
    values = confidences(rows)
    hits = tied_means(values, [float(hit) for hit in corrects(rows, labels)])
    order = sorted(range(len(values)), key=lambda sample: values[sample])
    edges = [index * len(values) // num_bins for index in range(num_bins + 1)]
    return gap(values, hits, [order[low:high] for low, high in pairwise(edges)])


def classwise_calibration_error(rows: Rows, labels: Sequence[int], num_bins: int = 15) -> float:
    probs = [softmax(z) for z in rows]

    def of_class(k: int) -> float:
        values = [q[k] for q in probs]
        return gap(values, [float(label == k) for label in labels], binned(values, num_bins))

    return average(of_class(k) for k in range(len(rows[0])))


def risks(values: Sequence[float], hits: Sequence[bool]) -> list[float]:
    """Risk after 1, 2, ... accepted samples, the mean over all orders in which no value follows a lower one."""
    sums = [0.0] * len(values)
    num_orders = 0
    for order in permutations(range(len(values))):
        if any(values[a] < values[b] for a, b in pairwise(order)):
            continue
        num_orders += 1
        wrong = 0
        for position, sample in enumerate(order):
            wrong += not hits[sample]
            sums[position] += wrong / (position + 1)
    return [total / num_orders for total in sums]


def untied_risks(values: Sequence[float], hits: Sequence[bool]) -> list[float]:
    """The same where all values differ, without the permutations."""
    order = sorted(range(len(values)), key=lambda sample: -values[sample])
    return [average(float(not hits[sample]) for sample in order[: n + 1]) for n in range(len(order))]


def auroc(values: Sequence[float], hits: Sequence[bool]) -> float:
    """Over all pairs of a right and a wrong sample."""
    right = [value for value, hit in zip(values, hits, strict=True) if hit]
    wrong = [value for value, hit in zip(values, hits, strict=True) if not hit]
    return average(1.0 if a > b else 0.5 if a == b else 0.0 for a in right for b in wrong)


def fpr95(values: Sequence[float], hits: Sequence[bool]) -> float:
    """The highest threshold that takes 95 % of the right ones."""
    right = [value for value, hit in zip(values, hits, strict=True) if hit]
    wrong = [value for value, hit in zip(values, hits, strict=True) if not hit]
    for threshold in sorted(right, reverse=True):
        if 100 * sum(value >= threshold for value in right) >= 95 * len(right):
            return average(float(value >= threshold) for value in wrong)
    return math.nan


def cosine_distance(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in b))
    return 1.0 - (math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0)


def class_separation(rows: Rows, labels: Sequence[int], *, has_self_pairs: bool = True) -> tuple[float, float, float]:
    """All pairs: the mean of a pair of classes first, then over (pairs of) classes that have any."""

    def pairs(one: int, other: int) -> float:
        return average(
            cosine_distance(rows[i], rows[j])
            for i in range(len(rows))
            for j in range(len(rows))
            if (labels[i], labels[j]) == (one, other) and (has_self_pairs or i != j)
        )

    classes = sorted(set(labels))
    table = {(one, other): pairs(one, other) for one in classes for other in classes}
    within = average(table[k, k] for k in classes if not math.isnan(table[k, k]))
    total = average(value for value in table.values() if not math.isnan(value))
    return within, total, 1.0 - within / total if total else math.nan
