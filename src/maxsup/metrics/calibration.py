"""Calibration errors and reliability diagrams of a whole data set.

The mean of per-batch errors is larger than the error of the whole set, so batches are combined as sums
(:class:`maxsup.metrics.PredictionSums`), never as errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import Self

from maxsup.metrics.predictions import (
    BLOCK_ELEMENTS,
    Tally,
    check_count,
    check_samples,
    exponentials,
    labels_of_logits,
    row_blocks,
    tallied,
)

NUM_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: bin edges, and the count, accuracy and mean confidence of each bin.

    Accuracy and confidence of an empty bin are ``nan``.
    """

    edges: Tensor
    count: Tensor
    accuracy: Tensor
    confidence: Tensor


def expected_calibration_error(logits: Tensor, labels: Tensor, num_bins: int = NUM_BINS) -> float:
    """Return the expected calibration error (ECE): the mean gap between confidence and accuracy in bins of equal width.

    Confidence is the top probability. Bin ``i`` holds ``i / num_bins <= confidence < (i + 1) / num_bins``; the last one
    also holds 1.

    Example:
        >>> logits = torch.tensor([[0.0, 100.0], [100.0, 0.0], [100.0, 0.0], [100.0, 0.0]])
        >>> expected_calibration_error(logits, torch.tensor([1, 0, 0, 1]))
        0.25
    """
    return error_of(calibration_gaps(tallied(logits, labels), num_bins))


def adaptive_calibration_error(logits: Tensor, labels: Tensor, num_bins: int = NUM_BINS) -> float:
    """Return the calibration error over bins with equal numbers of samples.

    Samples are sorted by confidence, and bin ``i`` ends before position ``floor((i + 1) N / num_bins)``. If an edge
    falls between tied samples, both sides get the same share of correct ones, so the order of samples does not matter.

    Example:
        >>> logits = torch.tensor([[0.0, 100.0], [100.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
        >>> adaptive_calibration_error(logits, torch.tensor([1, 1, 0, 1]), num_bins=2)
        0.25
    """
    return error_of(adaptive_gaps(tallied(logits, labels), num_bins))


def classwise_calibration_error(logits: Tensor, labels: Tensor, num_bins: int = NUM_BINS) -> float:
    """Return the mean over classes of the calibration error of each class's probability, in bins of equal width.

    Example:
        >>> classwise_calibration_error(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]))
        0.25
    """
    sums = ClasswiseSums(num_bins)
    sums.update(logits, labels)
    check_samples("logits", logits)
    return sums.compute()


def reliability(logits: Tensor, labels: Tensor, num_bins: int = NUM_BINS) -> Reliability:
    """Return the reliability diagram in the bins of :func:`expected_calibration_error`.

    Example:
        >>> reliability(torch.tensor([[0.0, 100.0], [0.0, 0.0]]), torch.tensor([1, 1]), num_bins=2).count
        tensor([0, 2])
    """
    check_count("num_bins", num_bins, usual=NUM_BINS)
    samples = tallied(logits, labels)
    return reliability_of(bin_sums(samples.confidence, samples.count, samples.is_correct, num_bins))


class ClasswiseSums:
    """Accumulate :func:`classwise_calibration_error` over batches.

    Example:
        >>> sums, others = ClasswiseSums(), ClasswiseSums()
        >>> sums.update(torch.zeros(3, 2), torch.tensor([0, 0, 0]))
        >>> others.update(torch.zeros(1, 2), torch.tensor([1]))
        >>> sums.merge(others).compute()
        0.25
    """

    def __init__(self, num_bins: int = NUM_BINS) -> None:
        check_count("num_bins", num_bins, usual=NUM_BINS)
        self.num_bins = num_bins
        self._num_samples = 0
        # For each class and bin: samples of the class, minus the class's probability in all samples.
        self._gaps: Tensor | None = None

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add a batch of logits ``(B, K)`` and labels ``(B,)``."""
        total = self._total(logits.shape[1])
        for cells, gaps, num_rows in class_gaps(logits, labels, self.num_bins):
            total.view(-1).index_add_(0, cells, gaps)
            self._num_samples += num_rows

    def merge(self, other: Self) -> Self:
        """Add the counts of another instance."""
        if other.num_bins != self.num_bins:
            raise ValueError(f"num_bins must be the same in both; got {self.num_bins} and {other.num_bins}. Use one.")
        if other._gaps is not None:
            self._total(len(other._gaps)).add_(other._gaps)
            self._num_samples += other._num_samples
        return self

    @property
    def gaps(self) -> Tensor:
        """The signed contribution of each class and bin to the error."""
        if self._gaps is None or not self._num_samples:
            return torch.full((1,), torch.nan, dtype=torch.float64)
        return self._gaps.view(-1) / (self._num_samples * len(self._gaps))

    def compute(self) -> float:
        """Return the error, or ``nan`` before any sample."""
        return error_of(self.gaps)

    def _total(self, num_classes: int) -> Tensor:
        """Return the accumulated gaps, to be updated in place."""
        if self._gaps is None:
            self._gaps = torch.zeros(num_classes, self.num_bins, dtype=torch.float64)
        known = len(self._gaps)
        if num_classes != known:
            raise ValueError(f"logits must keep their {known} classes; got {num_classes}. Count models apart.")
        return self._gaps


@torch.no_grad()
def class_gaps(logits: Tensor, labels: Tensor, num_bins: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield, for a block of rows, cells ``class * num_bins + bin``, the amounts to add there, and the row count."""
    labels = labels_of_logits(logits, labels)
    num_classes = logits.shape[1]
    first = torch.arange(num_classes) * num_bins
    for start, block, part in row_blocks(logits, labels, BLOCK_ELEMENTS // num_classes):
        probs, _ = exponentials(block, start)
        probs /= probs.sum(dim=1, keepdim=True)
        # Almost all probabilities are in the lowest bin: sum these by column, and add only the others one by one.
        row, column = (probs >= 1.0 / num_bins).nonzero(as_tuple=True)
        higher = probs[row, column]
        probs[row, column] = 0.0
        cells = first[column] + bin_of(higher, num_bins)
        own = probs.gather(1, part.unsqueeze(1)).squeeze(1)
        is_true = column == part[row]
        own[row[is_true]] = higher[is_true]
        true = part * num_bins + bin_of(own, num_bins)
        gained = torch.cat([-probs.sum(dim=0), -higher, torch.ones(len(part), dtype=torch.float64)])
        yield torch.cat([first, cells, true]), gained, len(part)


def bin_of(confidence: Tensor, num_bins: int) -> Tensor:
    """Return the index of the bin of equal width. An edge belongs to the bin above it, and 1 to the last."""
    return torch.bucketize(confidence, bin_edges(num_bins)[1:-1], right=True)


def bin_edges(num_bins: int) -> Tensor:
    """Return the edges ``i / num_bins``, each rounded to the nearest float64."""
    return torch.arange(num_bins + 1, dtype=torch.float64) / num_bins


def bin_sums(confidence: Tensor, count: Tensor, is_correct: Tensor, num_bins: int) -> Tensor:
    """Return the count, the correct count and the summed confidence of each bin, ``(3, num_bins)``."""
    weighted = torch.stack([count, count * is_correct, count * confidence])
    sums = torch.zeros(3, num_bins, dtype=torch.float64)
    return sums.index_add_(1, bin_of(confidence, num_bins), weighted)


def binned_gaps(sums: Tensor) -> Tensor:
    """Return confidence minus accuracy of each bin, times its share of the samples."""
    count, right, confidence = sums
    return (confidence - right) / count.sum()


def error_of(gaps: Tensor) -> float:
    """Return the calibration error, the sum of the absolute gaps."""
    return float(gaps.abs().sum())


def reliability_of(sums: Tensor) -> Reliability:
    """Return the reliability diagram of the sums of :func:`bin_sums`."""
    count, right, confidence = sums
    return Reliability(bin_edges(sums.shape[1]), count.long(), right / count, confidence / count)


def calibration_gaps(samples: Tally, num_bins: int = NUM_BINS) -> Tensor:
    """Return the gaps that :func:`expected_calibration_error` sums."""
    check_count("num_bins", num_bins, usual=NUM_BINS)
    return binned_gaps(bin_sums(samples.confidence, samples.count, samples.is_correct, num_bins))


def adaptive_gaps(samples: Tally, num_bins: int = NUM_BINS) -> Tensor:
    """Return the gaps that :func:`adaptive_calibration_error` sums."""
    check_count("num_bins", num_bins, usual=NUM_BINS)
    # Ascending confidence.
    count = samples.by_level(samples.count).flip(0)
    gap = count * samples.levels.flip(0) - samples.by_level(samples.count * samples.is_correct).flip(0)
    below, gap_below = count.cumsum(0), gap.cumsum(0)
    total = below[-1]
    edges = (torch.arange(1, num_bins, dtype=torch.float64) * total / num_bins + 1e-9).floor()
    # A level that contains an edge gives the part of its gap that lies below the edge.
    level = torch.searchsorted(below, edges)
    part = (edges - (below - count)[level]) / count[level].clamp(min=1.0)
    inner = (gap_below - gap)[level] + part * gap[level]
    return torch.cat([gap.new_zeros(1), inner, gap_below[-1:]]).diff() / total
