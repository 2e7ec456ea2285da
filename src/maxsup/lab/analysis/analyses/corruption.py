"""Corrupted images: error, likelihood and calibration by kind and severity, and their mean over all cells.

A test split that is already corrupted (``cifar10_c``) is used as it is; other images in memory are corrupted here.

Numbers named ``published...`` are computed as in the paper's table, so that they can be compared with it: the
calibration error is the mean over batches of 100 images (a perfectly calibrated model scores about 0.1 this way), and
"NLL" is each method's own training objective at its final strength, which cannot be compared across methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.lab.analysis.extraction import Tensors, extracted, keep, limited, read_kept
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.display import Display
from maxsup.lab.core.files.storage import json_text
from maxsup.lab.data import CORRUPTIONS, SEVERITIES, MemorySplit, corrupted_split
from maxsup.lab.figures.corruption import corruption_figures
from maxsup.lab.training.builders import build_loss
from maxsup.losses import RegularizedLoss
from maxsup.metrics import PredictionSums, expected_calibration_error
from maxsup.metrics.facts import numbers

PUBLISHED_BATCH = 100

_NUM_IMAGES = 2000
_AVERAGED = ("error", "nll", "ece", "confidence_wrong", "published_ece", "published_nll")


class Cells(NamedTuple):
    """Predictions on corrupted versions of the same images, one cell for each kind of corruption and severity."""

    names: list[str]
    severities: list[int]
    logits: Tensor  # (cells, N, K)
    labels: Tensor  # (cells, N)


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """Refuse images that are not in memory, or neither grey nor RGB."""
    images = getattr(run.bundle, split)
    if not isinstance(images, MemorySplit):
        return "images must be in memory to be corrupted, and these are in files"
    return None if images.images.shape[1] in (1, 3) else "only grey and RGB images can be corrupted"


def share(runs: Sequence[RunOutputs], *, split: str, num_images: int | None = _NUM_IMAGES) -> None:
    """Compute and cache missing predictions. Runs on the same images share each corrupted version."""
    missing: dict[str, list[RunOutputs]] = {}
    for run in runs:
        if read_kept(*_file_and_key(run, split, num_images)) is None:
            missing.setdefault(json_text(run.data_key()), []).append(run)
    for group in missing.values():
        _fill(group, split, num_images)


def compute(run: RunOutputs, *, split: str, num_images: int | None = _NUM_IMAGES) -> Result:
    """Compute the metrics of every cell and their means over cells, also computed as in the paper.

    Options:
        num_images: Largest number of images of each cell, the same share of every class; None (``null``) for all.
    """
    cells = read_cells(run, split, num_images)
    objective = final_objective(run)
    table: list[dict[str, Any]] = []
    for name, severity, logits, labels in zip(*cells, strict=True):
        sums = PredictionSums()
        sums.update(logits, labels)
        found = sums.compute()
        table.append(
            {
                "corruption": name,
                "severity": severity,
                "error": 1 - found["accuracy"],
                **{key: found[key] for key in ("nll", "ece", "confidence_wrong")},
                "published_ece": batch_calibration_error(logits, labels),
                "published_nll": math.nan if objective is None else float(objective(logits, labels)),
            }
        )
    means = {}
    for name in _AVERAGED:
        defined = [cell[name] for cell in table if not math.isnan(cell[name])]
        means[name] = sum(defined) / len(defined) if defined else math.nan
    data = {"cells": table, "num_images": cells.labels.shape[1], "num_cells": len(table)}
    return {"numbers": numbers(means), "data": data}


def batch_calibration_error(logits: Tensor, labels: Tensor) -> float:
    """Return the mean of the calibration errors of batches, as published. It exceeds the error of the whole set.

    Example:
        >>> logits, labels = torch.zeros(200, 2), torch.arange(200) // 100
        >>> batch_calibration_error(logits, labels), expected_calibration_error(logits, labels)
        (0.5, 0.0)
    """
    parts = list(zip(logits.split(PUBLISHED_BATCH), labels.split(PUBLISHED_BATCH), strict=True))
    return sum(expected_calibration_error(*part) for part in parts) / len(parts)


def final_objective(run: RunOutputs) -> RegularizedLoss | None:
    """Return the training objective at its last strength, or None if it needs more than logits and labels."""
    criterion = build_loss(run.recipe.loss).train()
    if criterion.needs or run.loss == "ols":
        # Teachers, positions and running averages of the training set are not available here.
        return None
    criterion.set_progress(1.0)
    return criterion


def read_cells(run: RunOutputs, split: str, num_images: int | None = None) -> Cells:
    """Return predictions on every corruption at every severity, on the same ``num_images`` images (None for all)."""
    share([run], split=split, num_images=num_images)
    kept = read_kept(*_file_and_key(run, split, num_images))
    assert kept is not None
    tensors, notes = kept
    return Cells(notes["names"], notes["severities"], tensors["logits"], tensors["labels"])


def _fill(runs: Sequence[RunOutputs], split: str, num_images: int | None) -> None:
    first = runs[0]
    images = getattr(first.bundle, split)
    num_cells = len(CORRUPTIONS) * len(SEVERITIES)
    if "severity" in images.factors:
        num_cells = torch.stack([images.factors["corruption"], images.factors["severity"]]).unique(dim=1).shape[1]
    else:
        # Limit first, so that no image is corrupted in vain. Splits that come corrupted are limited cell by cell.
        images = limited(images, num_images)
    first.progress.start(f"{', '.join(run.label for run in runs)}: corrupted images", num_cells)
    names, severities = [], []
    found: list[list[Tensors]] = [[] for _ in runs]
    for name, severity, cell in corrupted_versions(images, first.recipe):
        part = limited(cell, num_images)
        for run, kept in zip(runs, found, strict=True):
            kept.append(extracted(run.model, run.pipeline(part), precision=run.recipe.precision, progress=Display()))
        names.append(name)
        severities.append(severity)
        first.progress.advance()
    for run, kept in zip(runs, found, strict=True):
        tensors = {key: torch.stack([each[key] for each in kept]) for key in ("logits", "labels")}
        keep(*_file_and_key(run, split, num_images), tensors, {"names": names, "severities": severities})


def corrupted_versions(images: MemorySplit, recipe: Recipe) -> Iterator[tuple[str, int, MemorySplit]]:
    """Yield name, severity and images of every corrupted version, one at a time; corrupted data is split into its own.

    Data whose options name ``corruptions`` has these, in that order.
    """
    if {"corruption", "severity"} <= set(images.factors):
        names = recipe.data.options.get("corruptions", CORRUPTIONS)
        kinds, severities = images.factors["corruption"], images.factors["severity"]
        for number, severity in dict.fromkeys(zip(kinds.tolist(), severities.tolist(), strict=True)):
            is_cell = (kinds == number) & (severities == severity)
            yield names[number], severity, images.subset(is_cell.nonzero().flatten())
        return
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            yield name, severity, corrupted_split(images, name, severity)


def _file_and_key(run: RunOutputs, split: str, num_images: int | None) -> tuple[Any, dict[str, Any]]:
    return run.output_path(f"{split}-corrupted"), run.output_key(split) | {"num_images": num_images}


ANALYSES.register(
    "corruption",
    summary="error, NLL and ECE by corruption and severity, and their mean; also computed as in the paper",
    paper="tab:corrupted",
)(Analysis(compute, corruption_figures, obstacle, share=share, counts=("num_images",)))
