"""Was a model trained with label smoothing, and how strongly? An estimate from its logits alone.

Label smoothing of strength alpha leaves three marks in the logits ``z`` and probabilities ``q`` of a trained model:

- **Scale.** Training ends where no other scale of the logits lowers its loss. That means
  ``E[q.z] = (1 - alpha) E[z_true] + alpha E[mean z]``, so ``alpha = E[z_true - q.z] / E[z_true - mean z]``. Plain
  cross-entropy gives 0 however far it was trained.
- **Gap.** On a sample that was learned, the true logit is ``log((1 - alpha + alpha/K) / (alpha/K))`` above all others
  and not more: a plateau, where cross-entropy would go on. The median gap of right predictions says alpha again.
- **Evenness.** The probability that is left over, ``alpha/K`` a class, goes to all other classes alike. After
  cross-entropy it goes to similar classes, also when a temperature makes it as large. So for each predicted class the
  mean probability of every other class is taken, and the median of these is compared with their lowest tenth.

Scale gives the estimate, the gap has to agree, evenness tells smoothing from a temperature. On samples that are
classified right, MaxSup has the same minimum as label smoothing, and these are nearly all that counts here: the two
cannot be told apart. Logits of training images are best; held-out ones do where the model generalises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from maxsup.core.checks import check_choice

VERDICTS = ("none", "smoothed", "cannot tell")

MIN_SAMPLES = 100
SMALLEST_ALPHA = 0.03
LARGEST_ALPHA = 0.45
# Cross-entropy that was trained to the end has a larger gap than this strength.
NO_GAP = 0.05
MAX_DISAGREEMENT = 1.7
# Logarithm of how much more of what is left over the median pair of classes gets than the lowest tenth of pairs.
# Measured (benchmarks/smoothing.py): 0.1 to 0.8 after label smoothing and MaxSup, 1.3 to 4 after cross-entropy, 0.8 to
# 2 for cross-entropy under a temperature of 2 or 3. Stronger smoothing is more even, so the limit falls with alpha.
EVEN, EVEN_TIMES_ALPHA = 0.85, 0.14
UNEVEN = 1.25
# How far models of known strength were from the joint interval of scale and gap.
SYSTEMATIC_ERROR = 0.15

_MIN_PER_CLASS = 5
_MIN_PAIRS = 20  # of five classes
_MAX_CLASSES = 1000
_ROWS = 1024
_NUM_RESAMPLES = 200


@dataclass(frozen=True)
class SmoothingEstimate:
    """What the logits say about label smoothing.

    Attributes:
        alpha: Its strength, in the convention of the paper and of torch (``alpha/K`` to every class); 0 where there is
            none, None where that cannot be told.
        low: Lower end of the interval; None with ``alpha``.
        high: Upper end; None with ``alpha``.
        verdict: ``none``, ``smoothed`` or ``cannot tell``.
        reason: Why, as the end of a sentence.
        by_scale: The estimate from the scale of the logits.
        by_gap: The estimate from the gap of the top logit.
        unevenness: How unevenly the probability that is left over is shared, as a logarithm; ``nan`` for fewer than
            five classes.
    """

    alpha: float | None
    low: float | None
    high: float | None
    verdict: str
    reason: str
    by_scale: float
    by_gap: float
    unevenness: float

    def __post_init__(self) -> None:
        check_choice("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class LogitTraces:
    """What training leaves in the logits: one entry a sample, and one a pair of classes.

    Attributes:
        num_classes: K.
        lead: True logit over the mean logit under the model's own probabilities.
        height: True logit over the plain mean of all.
        gap: Top logit over the mean of the others.
        is_correct: Whether the top one is the true one.
        left_over: Mean probability of a class where another one is predicted, for all pairs, ascending.
    """

    num_classes: int
    lead: Tensor
    height: Tensor
    gap: Tensor
    is_correct: Tensor
    left_over: Tensor


def plateau_gap(alpha: float, num_classes: int) -> float:
    """How far the true logit is above all others at the minimum of label smoothing and of MaxSup.

    Example:
        >>> round(plateau_gap(0.1, 10), 3), round(plateau_gap(0.1, 1000), 3)
        (4.511, 9.105)
    """
    return math.log((1 - alpha) * num_classes / alpha + 1)


def alpha_of_gap(gap: float, num_classes: int) -> float:
    """The strength that a gap between the top logit and the others belongs to.

    Example:
        >>> round(alpha_of_gap(4.511, 10), 3)
        0.1
    """
    return num_classes / (math.exp(min(gap, 700.0)) + num_classes - 1)


def estimate_alpha(logits: Tensor, labels: Tensor, *, seed: int = 0) -> SmoothingEstimate:
    """Whether a model was trained with label smoothing (or MaxSup), and its strength.

    Args:
        logits: Raw scores ``(N, K)``, without a temperature; of training images if they are at hand.
        labels: True classes ``(N,)``.
        seed: Of the bootstrap behind the interval.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(500) % 10
        >>> gap = plateau_gap(0.1, 10) + 0.3 * torch.randn(500, 1, generator=generator)
        >>> logits = torch.nn.functional.one_hot(labels) * gap + 0.2 * torch.randn(500, 10, generator=generator)
        >>> estimate = estimate_alpha(logits, labels)
        >>> estimate.verdict, round(estimate.alpha, 2)
        ('smoothed', 0.1)
    """
    return estimate_from(logit_traces(logits, labels), seed=seed)


@torch.no_grad()
def logit_traces(logits: Tensor, labels: Tensor) -> LogitTraces:
    """All that the estimate needs, from one pass over the logits, some rows at a time."""
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"logits must be (N, K) with one label a row; got {tuple(logits.shape)} and {tuple(labels.shape)}. "
            "Give both for the same samples."
        )
    num_classes = logits.shape[1]
    predicted = torch.cat([part.argmax(dim=1) for part in logits.split(_ROWS)])
    # Of many classes, those that are predicted most: all pairs of them still fit in memory.
    kept = torch.bincount(predicted, minlength=num_classes).topk(min(num_classes, _MAX_CLASSES)).indices
    place = torch.full((num_classes,), -1)
    place[kept] = torch.arange(len(kept))
    rows = place[predicted]
    sums = torch.zeros(len(kept), len(kept), dtype=torch.float64)
    columns = []
    for part, true_class, row in zip(logits.split(_ROWS), labels.split(_ROWS), rows.split(_ROWS), strict=True):
        values = part.double()
        probs = values.softmax(dim=1)
        true = values.gather(1, true_class[:, None]).squeeze(1)
        top, total = values.max(dim=1).values, values.sum(dim=1)
        lead = true - (probs * values).sum(dim=1)
        columns.append(torch.stack([lead, true - total / num_classes, top - (total - top) / (num_classes - 1)]))
        sums.index_add_(0, row[row >= 0], probs[row >= 0][:, kept])
    lead, height, gap = torch.cat(columns, dim=1)
    counts = torch.bincount(rows[rows >= 0], minlength=len(kept))
    is_pair = ~torch.eye(len(kept), dtype=torch.bool) & (counts >= _MIN_PER_CLASS)[:, None]
    left_over = (sums / counts.clamp(min=1)[:, None])[is_pair].sort().values
    return LogitTraces(num_classes, lead, height, gap, predicted == labels, left_over)


def estimate_from(traces: LogitTraces, *, seed: int = 0) -> SmoothingEstimate:
    """The estimate from what :func:`logit_traces` found."""
    evidence = _evidence(traces, seed)
    if evidence.is_plain:
        verdict, reason, alpha = "none", _reason_for_none(evidence), 0.0
        low, high = 0.0, max(evidence.scale[2], 0.0)
    elif objection := _objection(evidence):
        return SmoothingEstimate(None, None, None, "cannot tell", objection, *evidence.facts)
    else:
        verdict, alpha = "smoothed", evidence.scale[0]
        low = (1 - SYSTEMATIC_ERROR) * min(evidence.scale[1], evidence.gap[1])
        high = (1 + SYSTEMATIC_ERROR) * max(evidence.scale[2], evidence.gap[2])
        reason = (
            f"the scale of the logits says {alpha:.3f}, their gap {evidence.gap[0]:.3f}, and what is left over goes to "
            f"all classes alike ({evidence.sharing})"
        )
    return SmoothingEstimate(alpha, low, high, verdict, reason, *evidence.facts)


@dataclass(frozen=True)
class _Evidence:
    """Both estimates of alpha with the ends of their intervals, and how unevenly the rest is shared."""

    num_classes: int
    num_right: int
    scale: tuple[float, float, float]
    gap: tuple[float, float, float]
    unevenness: float

    @property
    def facts(self) -> tuple[float, float, float]:
        return self.scale[0], self.gap[0], self.unevenness

    @property
    def sharing(self) -> str:
        return f"the median pair of classes gets {math.exp(self.unevenness):.1f} times what the lowest tenth gets"

    @property
    def has_plain_scale(self) -> bool:
        return self.scale[2] < SMALLEST_ALPHA

    @property
    def is_plain(self) -> bool:
        # So large that no temperature explains it that would make a smoothed model calibrated.
        has_large_gap = self.gap[0] < alpha_of_gap(2 * plateau_gap(0.1, self.num_classes), self.num_classes)
        is_plain = self.unevenness >= UNEVEN or has_large_gap
        return self.num_right >= MIN_SAMPLES and self.has_plain_scale and self.gap[0] < NO_GAP and is_plain


def _evidence(traces: LogitTraces, seed: int) -> _Evidence:
    right = traces.gap[traces.is_correct]
    if len(right) == 0 or float(traces.height.sum()) <= 0:
        # Nothing was learned, and there is no scale to speak of.
        missing = (math.nan,) * 3
        return _Evidence(traces.num_classes, 0, missing, missing, math.nan)
    generator = torch.Generator().manual_seed(seed)
    scales, gaps = [], []
    for _ in range(_NUM_RESAMPLES):
        drawn = torch.randint(len(traces.gap), (len(traces.gap),), generator=generator)
        scales.append(float(traces.lead[drawn].sum() / traces.height[drawn].sum()))
        drawn = torch.randint(len(right), (len(right),), generator=generator)
        gaps.append(alpha_of_gap(float(right[drawn].median()), traces.num_classes))
    scale = float(traces.lead.sum() / traces.height.sum()), *_quantiles(scales)
    gap = alpha_of_gap(float(right.median()), traces.num_classes), *_quantiles(gaps)
    return _Evidence(traces.num_classes, len(right), scale, gap, _unevenness(traces.left_over))


def _reason_for_none(evidence: _Evidence) -> str:
    reason = f"the scale of the logits is that of plain labels ({evidence.scale[0]:.3f})"
    if evidence.unevenness >= UNEVEN:
        return f"{reason}, and what is left over goes to few classes ({evidence.sharing})"
    return f"{reason}, and their gap is larger than smoothing would leave it"


def _objection(evidence: _Evidence) -> str | None:
    """Why the evidence does not amount to label smoothing; None where it does."""
    by_scale, by_gap, unevenness = evidence.facts
    if evidence.num_right < MIN_SAMPLES:
        return f"{evidence.num_right} right predictions are too few, {MIN_SAMPLES} are needed"
    if evidence.has_plain_scale:
        seen = f"the scale of the logits is that of plain labels ({by_scale:.3f})"
        if by_gap >= NO_GAP:
            return f"{seen}, but their gap is small ({by_gap:.3f}), so the model is not trained to the end"
        sharing = "" if math.isnan(unevenness) else f" ({evidence.sharing})"
        return (
            f"{seen}, but what is left over may go to all classes alike{sharing}, as after a weak penalty on the "
            "logits or a temperature on a smoothed model"
        )
    if by_scale > LARGEST_ALPHA:
        return (
            f"the scale of the logits says {by_scale:.2f}, more than any usual smoothing (up to {LARGEST_ALPHA}), as "
            "after a temperature, with mixed images or without training"
        )
    if evidence.scale[1] < SMALLEST_ALPHA:
        return f"the scale of the logits says {by_scale:.3f}, too near 0 to be told from it"
    if not 1 / MAX_DISAGREEMENT <= by_gap / by_scale <= MAX_DISAGREEMENT:
        return (
            f"the scale of the logits says {by_scale:.3f} and their gap {by_gap:.3f}, which differ more than "
            f"{MAX_DISAGREEMENT} times, as before the end of training or after a temperature"
        )
    if math.isnan(unevenness):
        return (
            f"the scale of the logits says {by_scale:.3f}, but with {evidence.num_classes} classes, or few samples of "
            "each, smoothing and a temperature look alike"
        )
    if unevenness > min(EVEN, EVEN_TIMES_ALPHA / by_scale):
        return (
            f"the scale of the logits says {by_scale:.3f}, but what is left over does not go to all classes alike "
            f"({evidence.sharing}), as after a temperature, with mixed images or before the end of training"
        )
    return None


def _unevenness(left_over: Tensor) -> float:
    """Logarithm of the median over the lowest tenth."""
    if len(left_over) < _MIN_PAIRS:
        return math.nan
    logs = left_over.clamp(min=1e-300).log()
    return float(logs[len(logs) // 2] - logs[len(logs) // 10])


def _quantiles(values: list[float]) -> tuple[float, float]:
    low, high = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    return float(low), float(high)
