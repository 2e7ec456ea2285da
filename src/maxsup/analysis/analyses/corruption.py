"""Corrupted images: error, likelihood and calibration by kind and severity, and their mean over all cells.

Data whose test split is corrupted (``cifar10_c``) is taken as it is; other images in memory are corrupted here.

The paper's table was computed in another way, which is reproduced under names that begin with ``published``, so that
its numbers can be matched: calibration error is the mean over batches of 100 images (a perfectly calibrated model
scores about 0.1 this way), and "NLL" is each method's own training objective at its final strength, which cannot be
compared across methods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from maxsup.analysis.analyses.corrupted_predictions import fill_cells, read_cells
from maxsup.analysis.outputs import RunOutputs
from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.data import MemorySplit
from maxsup.figures.corruption import corruption_figures
from maxsup.losses import RegularizedLoss
from maxsup.metrics import PredictionSums, expected_calibration_error
from maxsup.metrics.facts import numbers
from maxsup.training.builders import build_loss

PUBLISHED_BATCH = 100

_NUM_IMAGES = 2000
_DRAWN = ("error", "nll", "ece")
_AVERAGED = (*_DRAWN, "confidence_wrong", "published_ece", "published_nll")


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """Corruptions are made of images in memory."""
    if not isinstance(getattr(run.bundle, split), MemorySplit):
        return "images must be in memory to be corrupted, and these are in files"
    if getattr(run.bundle, split).images.shape[1] not in (1, 3):
        return "only grey and RGB images can be corrupted"
    return None


def share(runs: Sequence[RunOutputs], *, split: str, num_images: int | None = _NUM_IMAGES) -> None:
    """Images are corrupted once for all runs."""
    fill_cells(runs, split, num_images)


def compute(run: RunOutputs, *, split: str, num_images: int | None = _NUM_IMAGES) -> Result:
    """Every metric of every cell, means over cells, and the same in the published way.

    Args:
        run: The run.
        split: Which images.
        num_images: Of each cell, alike of every class; all where None (``null``).
    """
    cells = read_cells(run, split, num_images)
    objective = final_objective(run)
    table = []
    for name, severity, logits, labels in zip(cells.names, cells.severities, cells.logits, cells.labels, strict=True):
        sums = PredictionSums()
        sums.update(logits, labels)
        found = sums.compute()
        table.append(
            {
                "corruption": name,
                "severity": severity,
                "error": 1 - found["accuracy"],
                "nll": found["nll"],
                "ece": found["ece"],
                "confidence_wrong": found["confidence_wrong"],
                "published_ece": batch_calibration_error(logits, labels),
                "published_nll": math.nan if objective is None else float(objective(logits, labels)),
            }
        )
    means = numbers({name: _mean(table, name) for name in _AVERAGED})
    num_used = cells.labels.shape[1]
    return {"numbers": means, "data": {"cells": table, "num_images": num_used, "num_cells": len(table)}}


def batch_calibration_error(logits: Tensor, labels: Tensor, batch_size: int = PUBLISHED_BATCH) -> float:
    """Mean of the calibration errors of batches: not a calibration error of the set, but what was published.

    Example:
        >>> logits, labels = torch.zeros(200, 2), torch.arange(200) // 100
        >>> batch_calibration_error(logits, labels), expected_calibration_error(logits, labels)
        (0.5, 0.0)
    """
    parts = list(zip(logits.split(batch_size), labels.split(batch_size), strict=True))
    return sum(expected_calibration_error(*part) for part in parts) / len(parts)


def final_objective(run: RunOutputs) -> RegularizedLoss | None:
    """The training objective at the strength of the last epoch; None where it is no function of logits and labels."""
    criterion = build_loss(run.recipe.loss).train()
    if criterion.needs or run.loss == "ols":
        # Teachers, positions and running averages of the training set are not to be had here.
        return None
    criterion.set_progress(1.0)
    return criterion


def _mean(cells: Sequence[Mapping[str, Any]], name: str) -> float:
    """Mean over the cells in which the number is defined."""
    values = [cell[name] for cell in cells if not math.isnan(cell[name])]
    return sum(values) / len(values) if values else math.nan


ANALYSES.register(
    "corruption",
    summary="error, NLL and ECE by corruption and severity, mean of all cells; also in the published way",
    paper="tab:corrupted",
)(Analysis(compute, corruption_figures, obstacle, share=share, counts=("num_images",)))
