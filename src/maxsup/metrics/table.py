"""All metrics of predictions at once, from batches in any number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor
from typing_extensions import Self

from maxsup.metrics.calibration import adaptive_error_of, calibration_error_of
from maxsup.metrics.predictions import Predictions, Tally, concatenated, predictions_of, tally
from maxsup.metrics.scores import accuracy_of, brier_of, confidence_of, nll_of
from maxsup.metrics.selective import aurc_of, auroc_of, excess_aurc_of, fpr95_of

# What a table reports. Each reads a tally only through its counts and columns, so that a resampled set is the same
# tally with other counts.
SCORES: dict[str, Callable[[Tally], float]] = {
    "accuracy": accuracy_of,
    "accuracy_top5": partial(accuracy_of, k=5),
    "nll": nll_of,
    "brier": brier_of,
    "ece": calibration_error_of,
    "adaptive_ece": adaptive_error_of,
    "confidence_correct": lambda samples: confidence_of(samples).correct,
    "confidence_wrong": lambda samples: confidence_of(samples).wrong,
}
# Those that only ask in which order confidence puts the samples; any other confidence may take its place.
RANKINGS: dict[str, Callable[[Tally], float]] = {
    "aurc": aurc_of,
    "excess_aurc": excess_aurc_of,
    "auroc": auroc_of,
    "fpr95": fpr95_of,
}


class PredictionTable:
    """A few numbers a sample in place of its logits, from which every metric of predictions follows.

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
            raise ValueError("the table must hold at least one sample; got none. Call update(logits, labels) first.")
        return tally(self.predictions, confidence)

    def compute(self, confidence: Tensor | None = None) -> dict[str, float]:
        """Every metric by name; ``nan`` where one is undefined.

        Args:
            confidence: In place of the top probability for AURC, E-AURC, AUROC and FPR95; one a sample, as they came.
        """
        samples = self.tally()
        ranked = samples if confidence is None else self.tally(confidence)
        return {
            **{name: score(samples) for name, score in SCORES.items()},
            **{name: score(ranked) for name, score in RANKINGS.items()},
        }
