"""Selective classification: does confidence separate correct predictions from wrong ones?

Confidence is the top probability by default, or any score ``(N,)``. Samples are accepted in descending order. Top
probabilities that differ only by rounding are tied; given scores are compared exactly. Every metric is the mean over
all orders of tied samples, so shuffling changes nothing. A threshold accepts or rejects tied samples together.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.metrics.predictions import Tally, check_samples, checked_confidence, tallied


class RiskCoverage(NamedTuple):
    """A risk-coverage curve: the error rate (risk) of each share (coverage) of most confident samples."""

    coverage: Tensor
    risk: Tensor


def risk_coverage(confidence: Tensor, is_correct: Tensor) -> RiskCoverage:
    """Return the risk-coverage curve of confidences ``(N,)`` and booleans ``(N,)``, one point per sample.

    Example:
        >>> risk_coverage(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([True, False, True, True])).risk
        tensor([0.0000, 0.5000, 0.3333, 0.2500], dtype=torch.float64)
    """
    if not isinstance(is_correct, Tensor) or is_correct.dtype != torch.bool or is_correct.ndim != 1:
        raise ValueError("is_correct must be a tensor of booleans, one per sample; use predicted == labels.")
    check_samples("is_correct", is_correct)
    confidence, order = checked_confidence(confidence, len(is_correct)).sort(descending=True)
    _, group, size = confidence.unique_consecutive(return_inverse=True, return_counts=True)
    wrong = torch.zeros(len(size), dtype=torch.float64).index_add_(0, group, (~is_correct.cpu()[order]).double())
    position = torch.arange(1, len(order) + 1, dtype=torch.float64)
    return RiskCoverage(position / len(order), (wrong / size)[group].cumsum(0) / position)


def aurc(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> float:
    """Return the area under the risk-coverage curve (AURC), the mean risk over all coverages. Lower is better.

    Samples are ranked by their top probability, or by ``confidence (N,)``.

    Example:
        >>> aurc(torch.tensor([[3.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
        0.25
    """
    return aurc_of(tallied(logits, labels, confidence))


def augrc(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> float:
    """Return the area under the generalised risk-coverage curve (AUGRC; Traub et al. 2024). Lower is better.

    It is the mean, over all coverages, of the share of all samples that are accepted although they are wrong. Samples
    are ranked by their top probability, or by ``confidence (N,)``.

    Example:
        >>> augrc(torch.tensor([[3.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
        0.25
    """
    return augrc_of(tallied(logits, labels, confidence))


def excess_aurc(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> float:
    """Return the excess AURC: :func:`aurc` minus that of a ranking with all correct predictions first.

    Samples are ranked by their top probability, or by ``confidence (N,)``.

    Example:
        >>> excess_aurc(torch.tensor([[3.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
        0.0
    """
    return excess_aurc_of(tallied(logits, labels, confidence))


def risk_at_coverage(logits: Tensor, labels: Tensor, coverage: float, confidence: Tensor | None = None) -> float:
    """Return the error rate of the smallest set of most confident samples that reaches ``coverage``.

    Samples are ranked by their top probability, or by ``confidence (N,)``.

    Example:
        >>> logits = torch.tensor([[4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
        >>> risk_at_coverage(logits, torch.tensor([0, 1, 0, 1]), coverage=0.5)
        0.5
    """
    return risk_at_coverage_of(tallied(logits, labels, confidence), coverage)


def auroc(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> float:
    """Return the probability that a correct prediction is more confident than a wrong one. Higher is better.

    Confidence is the top probability, or ``confidence (N,)``. A tie counts half. The result is ``nan`` if all
    predictions are correct, or all wrong.

    Example:
        >>> auroc(torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1, 0]))
        0.5
    """
    return auroc_of(tallied(logits, labels, confidence))


def fpr95(logits: Tensor, labels: Tensor, confidence: Tensor | None = None) -> float:
    """Return the share of wrong predictions accepted when 95 % of the correct ones are. Lower is better.

    Confidence is the top probability, or ``confidence (N,)``. The result is ``nan`` if all predictions are correct, or
    all wrong.

    Example:
        >>> fpr95(torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1, 0]))
        1.0
    """
    return fpr95_of(tallied(logits, labels, confidence))


def aurc_of(samples: Tally) -> float:
    """See :func:`aurc`."""
    count, wrong = samples.accepted
    total = samples.total
    before, wrong_before = count.cumsum(0) - count, wrong.cumsum(0) - wrong
    # B samples, W of them wrong, come before a level of n with w wrong. After its j-th sample the risk is
    # (W + j w / n) / (B + j), and the sum over j is w + (W - B w / n) (H(B + n) - H(B)), H being harmonic numbers.
    harmonic = _harmonic_numbers(round(total))
    sums = harmonic[(before + count).long()] - harmonic[before.long()]
    share = wrong / count.clamp(min=1.0)
    return float((wrong + (wrong_before - before * share) * sums).sum()) / total


def augrc_of(samples: Tally) -> float:
    """See :func:`augrc`."""
    count, wrong = samples.accepted
    wrong_before = wrong.cumsum(0) - wrong
    # After the j-th of n tied samples, w of them wrong, W + j w / n wrong ones are accepted.
    return float((count * wrong_before + wrong * (count + 1.0) / 2).sum()) / samples.total**2


def excess_aurc_of(samples: Tally) -> float:
    """See :func:`excess_aurc`."""
    wrong = samples.accepted[1]
    total, num_wrong = samples.total, float(wrong.sum())
    num_right = total - num_wrong
    # The mean of (j - R) / j over the positions j that follow R right predictions.
    harmonic = _harmonic_numbers(round(total))
    best = (num_wrong - num_right * float(harmonic[-1] - harmonic[round(num_right)])) / total
    # For the best order the two differ only by rounding.
    excess = aurc_of(samples) - best
    return excess if excess > 1e-14 else 0.0


def risk_at_coverage_of(samples: Tally, coverage: float) -> float:
    """See :func:`risk_at_coverage`."""
    if isinstance(coverage, bool) or not isinstance(coverage, float | int) or not 0.0 < coverage <= 1.0:
        raise ValueError(f"coverage must be a share above 0 and at most 1; got {coverage!r}. Use 0.8 for 80 %.")
    count, wrong = samples.accepted
    num_accepted = max(1.0, math.ceil(coverage * samples.total - 1e-9))
    end = count.cumsum(0)
    level = int(torch.searchsorted(end, torch.tensor(num_accepted, dtype=torch.float64)))
    part = (num_accepted - float(end[level] - count[level])) / float(count[level])
    return float(wrong[:level].sum() + part * wrong[level]) / num_accepted


def auroc_of(samples: Tally) -> float:
    """See :func:`auroc`."""
    count, wrong = samples.accepted
    right = count - wrong
    num_right, num_wrong = float(right.sum()), float(wrong.sum())
    if not num_right or not num_wrong:
        return math.nan
    above = right.cumsum(0) - right / 2
    return float(wrong @ above) / (num_right * num_wrong)


def fpr95_of(samples: Tally) -> float:
    """See :func:`fpr95`."""
    count, wrong = samples.accepted
    right, num_wrong = (count - wrong).cumsum(0), float(wrong.sum())
    if not right[-1] or not num_wrong:
        return math.nan
    level = torch.searchsorted(right, torch.ceil(0.95 * right[-1] - 1e-9))
    return float(wrong.cumsum(0)[level]) / num_wrong


@lru_cache(maxsize=2)
def _harmonic_numbers(count: int) -> Tensor:
    """Return the harmonic numbers from 0 to ``count``."""
    terms = torch.arange(1, count + 1, dtype=torch.float64).reciprocal_()
    return torch.cat([terms.new_zeros(1), terms]).cumsum(0)
