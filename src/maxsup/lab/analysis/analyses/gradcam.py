"""Grad-CAM: show which parts of an image support its class.

A map sums the activations of the model's ``cam_layer``, each channel weighted by its mean gradient. Class and register
tokens are left out, and images are normalised as in training. Maps are of the true class, or of the predicted one with
``target=top``. They are scored against masks if there are any (``object_masks.py``):

- **precision**, **recall** of the region where the map is at least 0.5, or at least Otsu's threshold of that map;
- **pointing game**: 1 if the maximum lies on the object;
- **energy**: share of the map's sum that lies on the object.

``object_share`` is the precision, pointing game and energy of an uninformative map.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.checks import check_choice
from maxsup.lab.analysis.extraction import limited_indices
from maxsup.lab.analysis.object_masks import IGNORED, OBJECT, find_masks
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.figures.gallery import encoded, gradcam_figures
from maxsup.lab.models import Classifier
from maxsup.lab.models.libraries.cut import CutClassifier
from maxsup.lab.training.preprocessing import visible_pixels
from maxsup.metrics.facts import numbers

TARGETS = ("label", "top")

Map = NDArray[np.float32]

_HALF = 0.5
_NUM_LEVELS = 256


def compute(
    run: RunOutputs,
    *,
    split: str,
    num_images: int = 6,
    num_scored: int = 200,
    target: str = "label",
    masks: str | None = None,
) -> Result:
    """Compute maps for a gallery, and their overlap with masks if there are any.

    Options:
        num_images: Number of images in the gallery, with classes spread evenly.
        num_scored: Largest number of images to score against masks, the same share of every class.
        target: Map the true class (``label``) or the predicted one (``top``).
        masks: A folder of masks or a .csv file of boxes; by default those of the data set.
    """
    check_choice("target", target, TARGETS)
    images = getattr(run.bundle, split)
    find = find_masks(run, split, masks)
    shown = _gallery(images.labels, num_images)
    scored = limited_indices(images, num_scored).tolist() if find else []
    cells: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, float]] = []
    areas = []
    for index, pixels, label, logits, heat in _maps(run, images, sorted({*shown, *scored}), target):
        if index in shown:
            cells[index] = _cell(run, pixels, label, logits, heat)
            areas.append(float((heat >= _HALF).mean()))
        if find and index in scored:
            rows.append(overlap(heat, find(index).numpy()))
    found: dict[str, float] = {"active_share": _mean(areas)}
    if rows:
        found |= {name: _mean([row[name] for row in rows]) for name in rows[0]}
        found["num_scored"] = len(rows)
        found["num_empty_maps"] = sum(math.isnan(row["energy"]) for row in rows)
    data = {"target": target, "indices": shown, "cells": [cells[index] for index in shown]}
    return {"numbers": numbers(found), "data": data}


def overlap(heat: Map, mask: NDArray[np.uint8]) -> dict[str, float]:
    """Score how well a map from 0 to 1 covers the object of a mask of the same size. Empty parts give ``nan``.

    Example:
        >>> heat = np.array([[1.0, 0.6], [0.0, 0.0]], dtype=np.float32)
        >>> found = overlap(heat, np.array([[1, 0], [1, 0]], dtype=np.uint8))
        >>> {name: round(value, 3) for name, value in found.items()}  # doctest: +NORMALIZE_WHITESPACE
        {'precision_half': 0.5, 'recall_half': 0.5, 'precision_otsu': 0.5, 'recall_otsu': 0.5,
         'pointing_game': 1.0, 'energy': 0.625, 'object_share': 0.5}
    """
    is_judged, is_object = mask != IGNORED, mask == OBJECT
    found = {}
    for name, threshold in (("half", _HALF), ("otsu", otsu_threshold(heat))):
        is_active = (heat >= threshold) & is_judged & (heat > 0)
        both = float((is_active & is_object).sum())
        found[f"precision_{name}"] = _ratio(both, float(is_active.sum()))
        found[f"recall_{name}"] = _ratio(both, float(is_object.sum()))
    peak = np.unravel_index(int(heat.argmax()), heat.shape)
    is_undecided = heat.max() <= 0 or not is_object.any() or not is_judged[peak]
    found["pointing_game"] = math.nan if is_undecided else float(is_object[peak])
    inside, everywhere = (float(heat[part].sum(dtype=np.float64)) for part in (is_object, is_judged))
    found["energy"] = _ratio(inside, everywhere) if is_object.any() else math.nan
    found["object_share"] = _ratio(float(is_object.sum()), float(is_judged.sum()))
    return found


def otsu_threshold(heat: Map) -> float:
    """Return Otsu's threshold of values from 0 to 1, on a grid of 256 levels.

    Example:
        >>> 0.1 < otsu_threshold(np.array([0.0, 0.1, 0.9, 1.0], dtype=np.float32)) <= 0.9
        True
    """
    levels = (np.clip(heat, 0, 1) * (_NUM_LEVELS - 1)).round().astype(np.int64)
    counts = np.bincount(levels.ravel(), minlength=_NUM_LEVELS).astype(np.float64)
    below, sums = counts.cumsum(), (counts * np.arange(_NUM_LEVELS)).cumsum()
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = sums / below - (sums[-1] - sums) / above
    between = np.nan_to_num(below * above * gap**2)
    # Values above the best level are the upper group; half a level avoids rounding errors in the comparison.
    return (float(between.argmax()) + 0.5) / (_NUM_LEVELS - 1)


def maps_of(model: Classifier, images: Tensor, classes: Sequence[int] | None) -> tuple[Map, Tensor]:
    """Return maps from 0 to 1, ``(B, H, W)``, and logits of normalised images. Default: the predicted classes."""
    kept: list[Tensor] = []
    hook = model.cam_layer().register_forward_hook(lambda module, inputs, output: kept.append(output))
    try:
        with torch.enable_grad():
            # The input requires a gradient, so that the output of a layer with frozen weights has one too.
            logits = model(images.to(next(model.parameters()).device).requires_grad_())
            wanted = logits.argmax(1) if classes is None else torch.as_tensor(classes, device=logits.device)
            (gradient,) = torch.autograd.grad(logits.gather(1, wanted[:, None]).sum(), kept[0])
    finally:
        hook.remove()
    activations, gradient = (model.to_map(value.detach()).float() for value in (kept[0], gradient))
    heat = (gradient.mean((2, 3), keepdim=True) * activations).sum(1, keepdim=True).relu()
    heat = F.interpolate(_scale(heat), images.shape[-2:], mode="bilinear", align_corners=False)
    return _scale(heat)[:, 0].cpu().numpy(), logits.detach().float().cpu()


def _scale(heat: Tensor) -> Tensor:
    """Scale each map to 0 to 1. A map of zeros stays 0."""
    heat = heat - heat.amin((2, 3), keepdim=True)
    return heat / (heat.amax((2, 3), keepdim=True) + 1e-7)


def _maps(
    run: RunOutputs, images: Any, indices: list[int], target: str
) -> Iterator[tuple[int, Tensor, int, Tensor, Map]]:
    pipeline = run.pipeline(images.subset(torch.tensor(indices, dtype=torch.int64)))
    run.progress.start(f"{run.label}: Grad-CAM", pipeline.num_batches)
    for batch in pipeline.epoch(0):
        labels = batch.labels.tolist()
        maps, logits = maps_of(run.model, batch.images, labels if target == "label" else None)
        chosen = [indices[place] for place in batch.indices.tolist()]
        yield from zip(chosen, batch.images, labels, logits, maps, strict=True)
        run.progress.advance()


def _cell(run: RunOutputs, pixels: Tensor, label: int, logits: Tensor, heat: Map) -> dict[str, Any]:
    confidence, predicted = logits.softmax(dim=0).max(dim=0)
    names = run.bundle.class_names
    return {
        "image": encoded(visible_pixels(pixels.cpu(), run.bundle).permute(1, 2, 0).numpy()),
        "map": encoded((heat * 255).round().astype(np.uint8)[..., None]),
        "label": names[label],
        "predicted": names[int(predicted)],
        "confidence": float(confidence),
    }


def _gallery(labels: Tensor, count: int) -> list[int]:
    """Pick the first image of each of ``count`` evenly spread classes, or more images of each if classes are few."""
    classes = labels.unique().tolist()
    taken: list[int] = []
    for place in range(count):
        members = (labels == classes[place * len(classes) // count]).nonzero().flatten().tolist()
        taken.append(next((index for index in members if index not in taken), members[0]))
    return list(dict.fromkeys(taken))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """Refuse networks without a known layer that keeps positions."""
    if isinstance(run.model, CutClassifier):
        return f"a map needs a layer with positions, and none is known of {type(run.model.body).__name__}"
    return None


ANALYSES.register(
    "gradcam",
    summary="maps of the evidence for a class; precision, recall, pointing game and energy if there are masks",
    paper="fig:gradcam",
)(Analysis(compute, gradcam_figures, obstacle, counts=("num_images", "num_scored")))
