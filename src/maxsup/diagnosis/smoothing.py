"""Estimate from logits alone whether a model was trained with label smoothing, and with which alpha.

Label smoothing with strength alpha leaves three marks in the logits ``z`` and probabilities ``q`` of a trained model:

- **Scale.** At the end of training, no rescaling of the logits lowers the loss. That means
  ``E[q.z] = (1 - alpha) E[z_true] + alpha E[mean z]``, so ``alpha = E[z_true - q.z] / E[z_true - mean z]``. Plain
  cross-entropy gives 0 however long it was trained.
- **Gap.** On a learned sample the true logit stays ``log((1 - alpha + alpha/K) / (alpha/K))`` above all others, whereas
  cross-entropy keeps increasing it. The median gap of correct predictions gives alpha again.
- **Evenness.** The leftover probability, ``alpha/K`` per class, is spread evenly over the other classes. After
  cross-entropy it goes to similar classes, even when a temperature makes it as large. So for each predicted class we
  take the mean probability of every other class, and compare the median of these with their 10th percentile.

Scale gives the estimate, the gap has to agree, and evenness tells smoothing from a temperature. MaxSup has the same
minimum as label smoothing on correctly classified samples, which are nearly all that count here, so the two cannot be
told apart. Logits of training images are best; held-out ones work if the model generalises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.core.checks import check_choice

VERDICTS = ("none", "smoothed", "cannot tell")

MIN_SAMPLES = 100
SMALLEST_ALPHA = 0.03
LARGEST_ALPHA = 0.45
NO_GAP = 0.05  # fully trained cross-entropy has a larger gap than smoothing with this alpha
MAX_DISAGREEMENT = 1.7
# Log ratio of the leftover probability of the median pair of classes to that of the 10th percentile.
# Measured (benchmarks/smoothing.py): 0.1 to 0.8 after label smoothing and MaxSup, 1.3 to 4 after cross-entropy, 0.8 to
# 2 for cross-entropy under a temperature of 2 or 3. Stronger smoothing is more even, so the limit falls with alpha.
EVEN, EVEN_TIMES_ALPHA = 0.85, 0.14
UNEVEN = 1.25
SYSTEMATIC_ERROR = 0.15  # distance of models with known alpha from the joint interval of scale and gap

_MIN_PER_CLASS = 5
_MIN_PAIRS = 20  # of five classes
_MAX_CLASSES = 1000
_ROWS = 1024
_NUM_RESAMPLES = 200


@dataclass(frozen=True)
class SmoothingEstimate:
    """An estimate of label smoothing from logits.

    Attributes:
        alpha: Estimated strength in the convention of the paper and of torch (``alpha/K`` to every class): 0 for none,
            None if undecided.
        low: Lower end of the interval, None with ``alpha``.
        high: Upper end of the interval, None with ``alpha``.
        verdict: ``none``, ``smoothed`` or ``cannot tell``.
        reason: The reason, as the end of a sentence.
        by_scale: The estimate from the scale of the logits.
        by_gap: The estimate from the gap of the top logit.
        unevenness: Unevenness of the leftover probability, as a logarithm; ``nan`` below five classes.
        possible: If undecided, the range of strengths that the scale of the logits would mean, None if unknown. It
            holds long before the end of training.
    """

    alpha: float | None
    low: float | None
    high: float | None
    verdict: str
    reason: str
    by_scale: float
    by_gap: float
    unevenness: float
    possible: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_choice("verdict", self.verdict, VERDICTS)


class LogitTraces(NamedTuple):
    """Statistics of logits that show label smoothing, per sample and per pair of classes."""

    num_classes: int
    lead: Tensor  # true logit minus the mean logit under the model's own probabilities
    height: Tensor  # true logit minus the plain mean of all
    gap: Tensor  # top logit minus the mean of the others
    is_correct: Tensor
    left_over: Tensor  # mean probability of a class where another one is predicted, for all pairs, ascending


def plateau_gap(alpha: float, num_classes: int) -> float:
    """Return the gap between the true logit and all others at the minimum of label smoothing and of MaxSup.

    Example:
        >>> round(plateau_gap(0.1, 10), 3), round(plateau_gap(0.1, 1000), 3)
        (4.511, 9.105)
    """
    return math.log((1 - alpha) * num_classes / alpha + 1)


def alpha_of_gap(gap: float, num_classes: int) -> float:
    """Return the alpha whose :func:`plateau_gap` is ``gap``."""
    return num_classes / (math.exp(min(gap, 700.0)) + num_classes - 1)


def estimate_alpha(logits: Tensor, labels: Tensor, *, seed: int = 0) -> SmoothingEstimate:
    """Estimate whether a model was trained with label smoothing (or MaxSup), and with which alpha.

    ``logits`` are raw scores ``(N, K)`` without a temperature, of training images if possible, and ``labels`` their
    classes ``(N,)``. ``seed`` is that of the bootstrap interval.

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
    """Return the statistics that the estimate needs, from one pass over blocks of the logits."""
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"logits must be (N, K) with one label for each row; got {tuple(logits.shape)} and {tuple(labels.shape)}. "
            "Give both for the same samples."
        )
    num_classes = logits.shape[1]
    predicted = torch.cat([part.argmax(dim=1) for part in logits.split(_ROWS)])
    # Keep the most predicted classes, so that all pairs of them fit in memory.
    kept = torch.bincount(predicted, minlength=num_classes).topk(min(num_classes, _MAX_CLASSES)).indices
    place = torch.full((num_classes,), -1).index_put_((kept,), torch.arange(len(kept)))
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
    """Return the estimate from the statistics of :func:`logit_traces`."""
    num_classes, lead, height, gap, is_correct, left_over = traces
    right = gap[is_correct]
    if len(right) == 0 or float(height.sum()) <= 0:
        # Nothing was learned, so the scale is undefined.
        reason = f"0 right predictions are too few, {MIN_SAMPLES} are needed"
        return SmoothingEstimate(None, None, None, "cannot tell", reason, math.nan, math.nan, math.nan)
    generator = torch.Generator().manual_seed(seed)
    scales, gaps = [], []
    for _ in range(_NUM_RESAMPLES):
        drawn = torch.randint(len(gap), (len(gap),), generator=generator)
        scales.append(float(lead[drawn].sum() / height[drawn].sum()))
        drawn = torch.randint(len(right), (len(right),), generator=generator)
        gaps.append(alpha_of_gap(float(right[drawn].median()), num_classes))
    by_scale, by_gap = float(lead.sum() / height.sum()), alpha_of_gap(float(right.median()), num_classes)
    (scale_low, scale_high), (gap_low, gap_high) = _quantiles(scales), _quantiles(gaps)
    logs = left_over.clamp(min=1e-300).log()
    has_pairs = len(logs) >= _MIN_PAIRS
    unevenness = float(logs[len(logs) // 2] - logs[len(logs) // 10]) if has_pairs else math.nan
    scale = by_scale, scale_low, scale_high
    verdict, reason = _verdict_and_reason(num_classes, len(right), scale, by_gap, unevenness)
    alpha, low, high, possible = None, None, None, None
    if verdict == "none":
        alpha, low, high = 0.0, 0.0, max(scale_high, 0.0)
    elif verdict == "smoothed":
        alpha = by_scale
        low, high = (1 - SYSTEMATIC_ERROR) * min(scale_low, gap_low), (1 + SYSTEMATIC_ERROR) * max(scale_high, gap_high)
    elif len(right) >= MIN_SAMPLES and scale_high >= SMALLEST_ALPHA and by_scale <= LARGEST_ALPHA:
        possible = (1 - SYSTEMATIC_ERROR) * max(scale_low, 0.0), (1 + SYSTEMATIC_ERROR) * scale_high
    return SmoothingEstimate(alpha, low, high, verdict, reason, by_scale, by_gap, unevenness, possible)


def _verdict_and_reason(
    num_classes: int, num_right: int, scale: tuple[float, float, float], by_gap: float, unevenness: float
) -> tuple[str, str]:
    """Weigh the three marks. ``scale`` is the estimate by scale with the ends of its interval."""
    by_scale, scale_low, scale_high = scale
    sharing = f"median/10th percentile = {math.exp(unevenness):.1f}"
    plain = f"the scale of the logits is that of plain labels ({by_scale:.3f})"
    said = f"the scale of the logits gives {by_scale:.3f}"
    unknown = "cannot tell"
    if num_right < MIN_SAMPLES:
        return unknown, f"{num_right} right predictions are too few, {MIN_SAMPLES} are needed"
    if scale_high < SMALLEST_ALPHA:
        if by_gap >= NO_GAP:
            return unknown, f"{plain}, but their gap is small ({by_gap:.3f}), so the model is not trained to the end"
        if unevenness >= UNEVEN:
            return "none", f"{plain}, and the leftover probability goes to few classes ({sharing})"
        # No temperature that calibrates a smoothed model explains a gap this large.
        if by_gap < alpha_of_gap(2 * plateau_gap(0.1, num_classes), num_classes):
            return "none", f"{plain}, and their gap is larger than smoothing would leave it"
        known = "" if math.isnan(unevenness) else f" ({sharing})"
        return unknown, (
            f"{plain}, but the leftover probability may be spread evenly over the classes{known}, as after a weak "
            "penalty on the logits or a temperature on a smoothed model"
        )
    if by_scale > LARGEST_ALPHA:
        return unknown, (
            f"the scale of the logits gives {by_scale:.2f}, more than any usual smoothing (up to {LARGEST_ALPHA}), as "
            "after a temperature, with mixed images or without training"
        )
    if scale_low < SMALLEST_ALPHA:
        return unknown, f"{said}, too close to 0 to decide"
    if not 1 / MAX_DISAGREEMENT <= by_gap / by_scale <= MAX_DISAGREEMENT:
        return unknown, (
            f"{said} and their gap {by_gap:.3f}, which differ by more than a factor of {MAX_DISAGREEMENT}, as before "
            "the end of training or after a temperature"
        )
    if math.isnan(unevenness):
        few = f"with {num_classes} classes, or few samples of each"
        return unknown, f"{said}, but {few}, smoothing and a temperature look alike"
    if unevenness > min(EVEN, EVEN_TIMES_ALPHA / by_scale):
        return unknown, (
            f"{said}, but the leftover probability is spread unevenly over the other classes ({sharing}), as after a "
            "temperature, with mixed images or before the end of training"
        )
    return "smoothed", f"{said}, their gap {by_gap:.3f}, and the leftover probability is spread evenly ({sharing})"


def _quantiles(values: list[float]) -> tuple[float, float]:
    low, high = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
    return float(low), float(high)
