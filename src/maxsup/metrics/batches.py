"""Metrics of predictions from any number of batches: sums in constant memory, or a table of all samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Self

from maxsup.metrics.calibration import (
    NUM_BINS,
    Reliability,
    adaptive_gaps,
    bin_sums,
    binned_gaps,
    calibration_gaps,
    error_of,
    reliability_of,
)
from maxsup.metrics.classes import ClassScores, class_scores_of, class_sums
from maxsup.metrics.predictions import Predictions, Tally, concatenated, predictions_of, tally
from maxsup.metrics.scores import accuracy_of, confidence_of, ratio
from maxsup.metrics.selective import augrc_of, aurc_of, auroc_of, excess_aurc_of, fpr95_of
from maxsup.metrics.smooth_calibration import smooth_error_of

_SCALARS = ("n", "missing", "correct", "correct_top5", "nll", "brier", "confidence_correct", "confidence_wrong")
# Each reads only the counts and columns of a tally, so a bootstrap resample is the same tally with other counts.
SCORES: dict[str, Callable[[Tally], float]] = {
    "accuracy": accuracy_of,
    "accuracy_top5": partial(accuracy_of, k=5),
    "nll": lambda samples: samples.mean(samples.nll),
    "brier": lambda samples: samples.mean(samples.brier),
    "ece": lambda samples: error_of(calibration_gaps(samples)),
    "adaptive_ece": lambda samples: error_of(adaptive_gaps(samples)),
    "confidence_correct": lambda samples: confidence_of(samples).correct,
    "confidence_wrong": lambda samples: confidence_of(samples).wrong,
}
# These depend only on the order of the samples by confidence, so another confidence may replace the top probability.
RANKINGS: dict[str, Callable[[Tally], float]] = {
    "aurc": aurc_of,
    "excess_aurc": excess_aurc_of,
    "augrc": augrc_of,
    "auroc": auroc_of,
    "fpr95": fpr95_of,
}


class PredictionSums:
    """Accumulate prediction metrics over batches and processes in constant memory.

    Metrics that rank all confidences (AURC, AUROC, adaptive bins) need a :class:`PredictionTable`.

    Example:
        >>> sums = PredictionSums()
        >>> sums.update(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 2]))
        >>> {key: round(value, 3) for key, value in sums.compute().items() if key in ("accuracy", "nll", "ece")}
        {'accuracy': 0.5, 'nll': 0.895, 'ece': 0.395}
    """

    def __init__(self) -> None:
        self._scalars = torch.zeros(len(_SCALARS), dtype=torch.float64)
        # One column per bin of confidence: samples, correct ones, confidence.
        self._bins = torch.zeros(3, NUM_BINS, dtype=torch.float64)
        # The sums of each class; widened when the number of classes is known.
        self._classes = torch.zeros(4, 0, dtype=torch.float64)
        # The counts already reduced over all processes.
        self._shared = [torch.zeros_like(counts) for counts in self._counts()]

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add a batch of logits ``(B, K)`` and labels ``(B,)``."""
        rows = predictions_of(logits, labels)
        is_correct = rows.is_correct.double()
        one = torch.ones_like(is_correct)
        hits = (is_correct, (rows.rank < 5).double())
        confidences = (rows.confidence * is_correct, rows.confidence * (1.0 - is_correct))
        self._widen(logits.shape[1])
        columns = (one, torch.zeros_like(one), *hits, rows.nll, rows.brier, *confidences)
        self._scalars += torch.stack(columns).sum(dim=1)
        self._bins += bin_sums(rows.confidence, one, is_correct, NUM_BINS)
        self._classes += class_sums(rows, self._classes.shape[1])

    def add_missing(self, count: int) -> None:
        """Count images that could not be read and so have no prediction."""
        self._scalars[_SCALARS.index("missing")] += count

    def merge(self, other: Self) -> Self:
        """Add the counts of another instance."""
        self._widen(other._classes.shape[1])
        for mine, theirs in zip((*self._counts(), *self._shared), (*other._counts(), *other._shared), strict=True):
            mine[..., : theirs.shape[-1]] += theirs
        return self

    def sync(self, device: torch.device) -> None:
        """All-reduce the counts over all processes, each of which must call this. No count is added twice."""
        width = torch.tensor(self._classes.shape[1], device=device)
        dist.all_reduce(width, op=dist.ReduceOp.MAX)
        self._widen(int(width))
        for mine, shared in zip(self._counts(), self._shared, strict=True):
            # Every device that has a process group supports float64.
            counts = (mine - shared).to(device)
            dist.all_reduce(counts)
            mine.copy_(shared.add_(counts.cpu()))

    def compute(self) -> dict[str, float]:
        """Return the metrics by name, as fractions. A mean over no samples is ``nan``."""
        sums = dict(zip(_SCALARS, self._scalars.tolist(), strict=True))
        total, correct = sums["n"], sums["correct"]
        return {
            "n": int(total),
            "missing": int(sums["missing"]),
            "accuracy": ratio(correct, total),
            "accuracy_top5": ratio(sums["correct_top5"], total),
            "nll": ratio(sums["nll"], total),
            "brier": ratio(sums["brier"], total),
            "ece": error_of(binned_gaps(self._bins)),
            "confidence_correct": ratio(sums["confidence_correct"], correct),
            "confidence_wrong": ratio(sums["confidence_wrong"], total - correct),
        }

    def reliability(self) -> Reliability:
        """Return the reliability diagram in 15 bins."""
        return reliability_of(self._bins)

    def class_scores(self) -> ClassScores:
        """Return accuracy and mean confidence of each class."""
        return class_scores_of(self._classes)

    def group_accuracy(self, groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
        """Return the accuracy of each group of classes: the mean of its per-class accuracies."""
        per_class = self._classes[1] / self._classes[0]
        return {name: float(per_class[list(classes)].mean()) for name, classes in groups.items()}

    def _widen(self, num_classes: int) -> None:
        missing = num_classes - self._classes.shape[1]
        if missing > 0:
            self._classes, shared = (F.pad(counts, (0, missing)) for counts in (self._classes, self._shared[-1]))
            self._shared[-1] = shared

    def _counts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self._scalars, self._bins, self._classes


class PredictionTable:
    """Store a few numbers per sample instead of its logits, and compute every prediction metric from them.

    Example:
        >>> table = PredictionTable()
        >>> table.update(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
        >>> table.update(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([2]))
        >>> table.compute()["aurc"], len(table)
        (0.25, 2)
    """

    def __init__(self) -> None:
        self._parts: list[Predictions] = []

    def __len__(self) -> int:
        return sum(len(part.labels) for part in self._parts)

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Add a batch of logits ``(B, K)`` and labels ``(B,)``."""
        self._parts.append(predictions_of(logits, labels))

    def merge(self, other: Self) -> Self:
        """Add the samples of another table."""
        self._parts.extend(other._parts)
        return self

    @property
    def predictions(self) -> Predictions:
        """The stored columns, in the order in which samples were added."""
        self._parts = [concatenated(self._parts)]
        return self._parts[0]

    def tally(self, confidence: Tensor | None = None) -> Tally:
        """Return the samples sorted by descending confidence."""
        if len(self) == 0:
            raise ValueError("the table holds no sample yet. Call update(logits, labels) first.")
        return tally(self.predictions, confidence)

    def compute(self, confidence: Tensor | None = None) -> dict[str, float]:
        """Return every metric by name. Undefined metrics are ``nan``.

        ``confidence`` ``(N,)`` replaces the top probability in AURC, E-AURC, AUGRC, AUROC and FPR95.
        """
        samples = self.tally()
        ranked = samples if confidence is None else self.tally(confidence)
        found = {name: score(samples) for name, score in SCORES.items()} | {"smooth_ece": smooth_error_of(samples)}
        return found | {name: score(ranked) for name, score in RANKINGS.items()}
