"""All metrics of predictions at once, from any number of batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor
from typing_extensions import Self

from maxsup.metrics.calibration import adaptive_gaps, calibration_gaps, error_of
from maxsup.metrics.predictions import Predictions, Tally, concatenated, predictions_of, tally
from maxsup.metrics.scores import accuracy_of, confidence_of
from maxsup.metrics.selective import aurc_of, auroc_of, excess_aurc_of, fpr95_of

# Each reads only the counts and columns of a tally, so that a resampled set is the same tally with other counts.
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
    "auroc": auroc_of,
    "fpr95": fpr95_of,
}


class PredictionTable:
    """A few numbers per sample in place of its logits, from which every metric of predictions follows.

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
        """Read a batch."""
        self._parts.append(predictions_of(logits, labels))

    def merge(self, other: Self) -> Self:
        """Add the samples of another table."""
        self._parts.extend(other._parts)
        return self

    @property
    def predictions(self) -> Predictions:
        """The columns, in the order in which samples came."""
        self._parts = [concatenated(self._parts)]
        return self._parts[0]

    def tally(self, confidence: Tensor | None = None) -> Tally:
        """The samples by falling confidence."""
        if len(self) == 0:
            raise ValueError("the table holds no sample yet. Call update(logits, labels) first.")
        return tally(self.predictions, confidence)

    def compute(self, confidence: Tensor | None = None) -> dict[str, float]:
        """Every metric by name; ``nan`` where one is undefined.

        ``confidence``, one number per sample in their order, replaces the top probability in AURC, E-AURC, AUROC and
        FPR95.
        """
        samples = self.tally()
        ranked = samples if confidence is None else self.tally(confidence)
        return {name: score(samples) for name, score in SCORES.items()} | {
            name: score(ranked) for name, score in RANKINGS.items()
        }
