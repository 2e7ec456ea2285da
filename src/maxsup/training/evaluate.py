"""Evaluation: the same plain numbers for every method, so there is no loss among the arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.data import Pipeline

NUM_BINS = 15
PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}

_SCALARS = ("n", "missing", "correct", "correct_top5", "nll", "confidence_correct", "confidence_wrong")


class PredictionSums:
    """Sums over predictions from which all reported numbers follow, whatever the batches or processes.

    Example:
        >>> sums = PredictionSums()
        >>> sums.update(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 2]))
        >>> {key: round(value, 3) for key, value in sums.compute().items() if key in ("accuracy", "nll", "ece")}
        {'accuracy': 0.5, 'nll': 0.895, 'ece': 0.395}
    """

    def __init__(self) -> None:
        self._scalars = torch.zeros(len(_SCALARS), dtype=torch.float64)
        # One column a bin of confidence: samples, correct ones, confidence.
        self._bins = torch.zeros(3, NUM_BINS, dtype=torch.float64)
        # One column a class: samples, correct ones; made when the number of classes is known.
        self._classes = torch.zeros(2, 0, dtype=torch.float64)

    @torch.no_grad()
    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Count a batch."""
        logits, labels = logits.float().cpu(), labels.cpu()
        log_probs = F.log_softmax(logits, dim=-1).double()
        confidence, predicted = log_probs.max(dim=-1)
        confidence = confidence.exp()
        is_correct = (predicted == labels).double()
        top = logits.topk(min(5, logits.shape[-1]), dim=-1).indices
        columns = torch.stack(
            [
                torch.ones_like(confidence),
                torch.zeros_like(confidence),
                is_correct,
                (top == labels.unsqueeze(-1)).any(dim=-1).double(),
                -log_probs.gather(1, labels.unsqueeze(-1)).squeeze(-1),
                confidence * is_correct,
                confidence * (1.0 - is_correct),
            ]
        )
        self._scalars += columns.sum(dim=1)
        bins = (confidence * NUM_BINS).long().clamp(max=NUM_BINS - 1)
        self._bins.index_add_(1, bins, torch.stack([torch.ones_like(confidence), is_correct, confidence]))
        if self._classes.shape[1] == 0:
            self._classes = torch.zeros(2, logits.shape[-1], dtype=torch.float64)
        self._classes.index_add_(1, labels, torch.stack([torch.ones_like(confidence), is_correct]))

    def add_missing(self, count: int) -> None:
        """Count images that could not be read; no prediction is made up for them."""
        self._scalars[_SCALARS.index("missing")] += count

    def sync(self, device: torch.device) -> None:
        """Add up the counts of all processes."""
        for name in ("_scalars", "_bins", "_classes"):
            # float64 travels on every device that has a process group; the sums are small.
            counts = getattr(self, name).to(device)
            dist.all_reduce(counts)
            setattr(self, name, counts.cpu())

    def compute(self) -> dict[str, float]:
        """The numbers, as fractions; ``nan`` where there is nothing to average."""
        sums = dict(zip(_SCALARS, self._scalars.tolist(), strict=True))
        total, correct = sums["n"], sums["correct"]
        _, bin_correct, bin_confidence = self._bins
        gap = float((bin_confidence - bin_correct).abs().sum())
        return {
            "n": int(total),
            "missing": int(sums["missing"]),
            "accuracy": _ratio(correct, total),
            "accuracy_top5": _ratio(sums["correct_top5"], total),
            "nll": _ratio(sums["nll"], total),
            "ece": _ratio(gap, total),
            "confidence_correct": _ratio(sums["confidence_correct"], correct),
            "confidence_wrong": _ratio(sums["confidence_wrong"], total - correct),
        }

    def group_accuracy(self, groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
        """Accuracy of each group of classes, every class of a group counting the same."""
        per_class = self._classes[1] / self._classes[0]
        return {name: float(per_class[list(classes)].mean()) for name, classes in groups.items()}


def evaluate(
    model: nn.Module,
    pipeline: Pipeline,
    *,
    split: str = "val",
    precision: str = "float32",
    is_sharded: bool = False,
    groups: Mapping[str, Sequence[int]] | None = None,
    on_batch: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Accuracy, plain negative log-likelihood, calibration and confidence over a whole split.

    Args:
        model: Gives logits; left in the mode it came in.
        pipeline: The split, in evaluation form.
        split: Its name, which the result repeats.
        precision: What the model computes in.
        is_sharded: The pipeline gives each process its own part, to be added up here.
        groups: Classes by name, for an accuracy of each group.
        on_batch: Called after each batch.

    Returns:
        ``split``, ``n``, ``missing`` (images that could not be read), ``accuracy``, ``accuracy_top5``, ``nll``, ``ece``
        (15 equally wide bins), ``confidence_correct`` and ``confidence_wrong``; shares lie in [0, 1]. With ``groups``,
        their accuracies under that name.
    """
    device = next(model.parameters()).device
    sums = PredictionSums()
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        for batch in pipeline.epoch(0):
            logits = model(batch.images.to(device, non_blocking=True))
            sums.update(logits, batch.labels)
            if on_batch is not None:
                on_batch()
    sums.add_missing(pipeline.num_missing)
    if is_sharded:
        sums.sync(device)
    result: dict[str, Any] = {"split": split, **sums.compute()}
    if groups:
        result["groups"] = sums.group_accuracy(groups)
    return result


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """``eval()`` inside, and every module back in the mode it had afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision on a device, or none."""
    dtype = PRECISIONS.get(precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def _ratio(value: float, count: float) -> float:
    return value / count if count else math.nan
