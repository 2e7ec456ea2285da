"""Grad-CAM: which parts of an image speak for its class.

Maps come from the grad-cam package, at the layer the model names (``cam_layer``), with class and register tokens left
out and images normalised as in training. The class asked about is the true one unless ``target=top`` asks for the
predicted one. Where masks exist (``object_masks.py``) maps are judged against them, image by image:

- **precision**, **recall** of the region where the map is at least 0.5, and at least Otsu's threshold of that map;
- **pointing game**: whether the highest point lies on the object;
- **energy**: share of the map's sum that lies on the object.

``object_share`` is what a map without knowledge gets as precision, pointing game and energy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.analysis.analyses.object_masks import IGNORED, OBJECT, find_masks
from maxsup.analysis.outputs import RunOutputs, limited_indices
from maxsup.analysis.registry import ANALYSES, Analysis, Result
from maxsup.core.checks import check_choice
from maxsup.data.optional_packages import require
from maxsup.figures.gallery import encoded, gradcam_figures
from maxsup.metrics.facts import numbers
from maxsup.models import Classifier
from maxsup.models.libraries.cut import CutClassifier

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
    """Maps for a gallery, and their overlap with masks where there are any.

    Args:
        run: The run.
        split: Which images.
        num_images: In the gallery, of classes spread over all of them.
        num_scored: Images that are judged against masks, alike of every class.
        target: Speak for the true class (``label``) or the predicted one (``top``).
        masks: A folder of masks or a .csv file of boxes; those of the data set if None.
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
    return {
        "numbers": numbers(found),
        "data": {"target": target, "indices": shown, "cells": [cells[index] for index in shown]},
    }


def overlap(heat: Map, mask: NDArray[np.uint8]) -> dict[str, float]:
    """How well a map covers an object; ``nan`` where something is empty.

    Args:
        heat: From 0 to 1, ``(H, W)``.
        mask: ``OBJECT``, ``BACKGROUND`` or ``IGNORED`` at each place, ``(H, W)``.

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
    """The threshold that splits values from 0 to 1 into two groups that differ most, on a grid of 256 levels.

    Example:
        >>> 0.1 < otsu_threshold(np.array([0.0, 0.1, 0.9, 1.0], dtype=np.float32)) <= 0.9
        True
    """
    levels = np.clip(heat, 0, 1) * (_NUM_LEVELS - 1)
    counts = np.bincount(levels.round().astype(np.int64).ravel(), minlength=_NUM_LEVELS).astype(np.float64)
    below = counts.cumsum()
    sums = (counts * np.arange(_NUM_LEVELS)).cumsum()
    above = below[-1] - below
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = sums / below - (sums[-1] - sums) / above
    between = np.nan_to_num(below * above * gap**2)
    # Values above the best level are the upper group; half a level keeps rounding out of the comparison.
    return (float(between.argmax()) + 0.5) / (_NUM_LEVELS - 1)


def maps_of(model: Classifier, images: Tensor, classes: Sequence[int] | None) -> tuple[Map, Tensor]:
    """Maps from 0 to 1, ``(B, H, W)``, and logits of normalised images; without ``classes``, maps of the predicted."""
    package = require("pytorch_grad_cam")
    target = require("pytorch_grad_cam.utils.model_targets").ClassifierOutputTarget
    device = next(model.parameters()).device
    wanted = None if classes is None else [target(int(number)) for number in classes]
    with torch.enable_grad(), package.GradCAM(model, [model.cam_layer()], reshape_transform=model.to_map) as cam:
        # A gradient at the input, so that a layer whose own weights are frozen has one at its output too.
        maps: Map = cam(images.to(device).requires_grad_(), targets=wanted)
        logits = cam.outputs.detach().float().cpu()
    model.zero_grad(set_to_none=True)
    return maps.astype(np.float32), logits


def _maps(
    run: RunOutputs, images: Any, indices: list[int], target: str
) -> Iterator[tuple[int, Tensor, int, Tensor, Map]]:
    part = images.subset(torch.tensor(indices, dtype=torch.int64))
    pipeline = run.pipeline(part)
    run.progress.start(f"{run.label}: Grad-CAM", pipeline.num_batches)
    for batch in pipeline.epoch(0):
        maps, logits = maps_of(run.model, batch.images, batch.labels.tolist() if target == "label" else None)
        for place in range(len(batch)):
            index = indices[int(batch.indices[place])]
            yield index, batch.images[place], int(batch.labels[place]), logits[place], maps[place]
        run.progress.advance()


def _cell(run: RunOutputs, pixels: Tensor, label: int, logits: Tensor, heat: Map) -> dict[str, Any]:
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (run.bundle.mean, run.bundle.std))
    visible = ((pixels.cpu() * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    confidence, predicted = logits.softmax(dim=0).max(dim=0)
    names = run.bundle.class_names
    return {
        "image": encoded(visible.permute(1, 2, 0).numpy()),
        "map": encoded((heat * 255).round().astype(np.uint8)[..., None]),
        "label": names[label],
        "predicted": names[int(predicted)],
        "confidence": float(confidence),
    }


def _gallery(labels: Tensor, count: int) -> list[int]:
    """The first image of each of ``count`` classes that are spread over all; more of them where classes are few."""
    classes = labels.unique().tolist()
    wanted = [classes[place * len(classes) // count] for place in range(count)]
    taken: list[int] = []
    for label in wanted:
        members = (labels == label).nonzero().flatten().tolist()
        taken.append(next((index for index in members if index not in taken), members[0]))
    return list(dict.fromkeys(taken))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def obstacle(run: RunOutputs, *, split: str, **options: Any) -> str | None:
    """A map takes a layer that keeps positions."""
    if isinstance(run.model, CutClassifier):
        return f"a map needs a layer with positions, and none is known of {type(run.model.body).__name__}"
    return None


ANALYSES.register(
    "gradcam",
    summary="maps of what speaks for the class; precision, recall, pointing game, energy where masks exist",
    paper="fig:gradcam",
)(Analysis(compute, gradcam_figures, obstacle, counts=("num_images", "num_scored")))
