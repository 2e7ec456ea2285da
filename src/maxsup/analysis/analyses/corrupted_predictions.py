"""Predictions on corrupted images, every corruption made once for all runs that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxsup.analysis.extraction import Tensors, extracted, keep, read_kept
from maxsup.analysis.outputs import RunOutputs, limited
from maxsup.core.display import Display
from maxsup.core.files.storage import json_text
from maxsup.data import CORRUPTIONS, SEVERITIES, MemorySplit
from maxsup.training.reading import corrupted


@dataclass(frozen=True, eq=False)
class Cells:
    """Predictions on corrupted versions of the same images, one a cell.

    Args:
        names: Kind of corruption of each cell.
        severities: From 1 to 5.
        logits: ``(cells, N, K)``.
        labels: ``(cells, N)``.
    """

    names: list[str]
    severities: list[int]
    logits: Tensor
    labels: Tensor


def fill_cells(runs: Sequence[RunOutputs], split: str, num_images: int | None) -> None:
    """Compute and keep what is missing; runs on the same images share each corrupted version of them."""
    missing: dict[str, list[RunOutputs]] = {}
    for run in runs:
        if read_kept(_path(run, split), _key(run, split, num_images)) is None:
            missing.setdefault(json_text(run.data_key()), []).append(run)
    for group in missing.values():
        _fill(group, split, num_images)


def read_cells(run: RunOutputs, split: str, num_images: int | None = None) -> Cells:
    """Predictions on every corruption at every severity, the same images in each.

    Images of ``cifar10_c`` are corrupted already, others are corrupted here; ``num_images`` of each cell are used,
    alike of every class, or all.
    """
    fill_cells([run], split, num_images)
    kept = read_kept(_path(run, split), _key(run, split, num_images))
    assert kept is not None
    tensors, notes = kept
    return Cells(notes["names"], notes["severities"], tensors["logits"], tensors["labels"])


def _fill(runs: Sequence[RunOutputs], split: str, num_images: int | None) -> None:
    first = runs[0]
    images = getattr(first.bundle, split)
    first.progress.start(f"{', '.join(run.label for run in runs)}: corrupted images", _num_cells(images))
    names, severities = [], []
    found: list[list[Tensors]] = [[] for _ in runs]
    # What is corrupted already is cut cell by cell; the rest before, so that no more is corrupted than is used.
    is_made = "severity" in images.factors
    for name, severity, cell in corrupted(images if is_made else limited(images, num_images), first.recipe):
        part = limited(cell, num_images)
        for run, kept in zip(runs, found, strict=True):
            kept.append(extracted(run.model, run.pipeline(part), precision=run.recipe.precision, progress=Display()))
        names.append(name)
        severities.append(severity)
        first.progress.advance()
    for run, kept in zip(runs, found, strict=True):
        tensors = {key: torch.stack([each[key] for each in kept]) for key in ("logits", "labels")}
        keep(_path(run, split), _key(run, split, num_images), tensors, {"names": names, "severities": severities})


def _num_cells(images: MemorySplit) -> int:
    if "severity" not in images.factors:
        return len(CORRUPTIONS) * len(SEVERITIES)
    return torch.stack([images.factors["corruption"], images.factors["severity"]]).unique(dim=1).shape[1]


def _path(run: RunOutputs, split: str) -> Path:
    return run.output_path(f"{split}-corrupted")


def _key(run: RunOutputs, split: str, num_images: int | None) -> dict[str, Any]:
    return run.output_key(split) | {"num_images": num_images}
