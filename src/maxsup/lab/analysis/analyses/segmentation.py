"""Semantic segmentation by a segmenter, or by a classifier whose backbone is fine-tuned first.

A run trained on masks is evaluated as it is. A classifier is fine-tuned first, as in the paper's segmentation table:
``recipe`` names a recipe for data with masks, which is trained with the run's backbone and seed in
``RUN/segmentation/`` and resumes there after an interruption. Numbers come from one confusion matrix over the split:

- **miou**: mean intersection over union of the classes, at scale 1;
- **miou_multiscale**: mIoU from several scales or with mirrored images, if ``scales`` or ``flip`` ask for it;
- **accuracy**, **class_accuracy**: accuracy of pixels, and its mean over classes;
- **majority_miou**: mIoU of predicting the most frequent class everywhere.

Pictures and the intersection over union of each class are from all requested views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.core.checks import check_count
from maxsup.core.errors import DataError
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.analysis.registry import ANALYSES, Analysis, Result
from maxsup.lab.core.config import Recipe, recipe_digest
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.figures.gallery import MAX_SIDE, encoded
from maxsup.lab.figures.masks import segmentation_figures
from maxsup.lab.segmentation.evaluation import MULTI_SCALES, Views, evaluate_masks, recipe_views
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.pipeline import MaskPipeline
from maxsup.metrics.facts import numbers

_NAMED_SCALES = {"single": (1.0,), "multi": MULTI_SCALES}


def compute(
    run: RunOutputs,
    *,
    split: str,
    recipe: str | None = None,
    overrides: Sequence[str] = (),
    target: str | None = None,
    scales: str | Sequence[float] = "single",
    flip: bool = False,
    num_images: int = 4,
) -> Result:
    """Evaluate predicted masks on a split, and keep pictures of a few of them.

    Options:
        recipe: Recipe to fine-tune a classifier with; its backbone is replaced by that of the run.
        overrides: Changes ``key.sub=value`` of that recipe.
        target: Data with masks, instead of the recipe's.
        scales: ``single``, ``multi`` (0.5 to 1.75), or your own factors.
        flip: Also evaluate each scale mirrored.
        num_images: Number of pictures to keep, evenly spread over the split.
    """
    factors = _scale_factors(scales)
    check_count("num_images", num_images, least=0, fix="Usual: 4.")
    asked = [*([f"data.name={target}"] if target else []), *overrides]
    segmented = run if _is_segmenter(run) else _fine_tuned(run, str(recipe), asked)
    bundle, images = segmented.bundle, getattr(segmented.bundle, split)
    if len(images) == 0:
        raise DataError(
            f"{split} split of {bundle.name!r} must have at least one image; got none. Choose another.",
            code="empty-split",
        )
    num_shown = min(num_images, len(images))
    shown = [place * len(images) // num_shown for place in range(num_shown)]
    predicted: dict[int, Tensor] = {}

    def keep(index: int, mask: Tensor) -> None:
        if index in shown:
            predicted[index] = mask

    def evaluate(views: Views) -> tuple[dict[str, Any], list[float]]:
        pipeline = segmented.pipeline(images)
        assert isinstance(pipeline, MaskPipeline)
        words = f"{len(views)} views" if len(views) > 1 else "one view"
        what = f"{segmented.label}: masks of {bundle.name}, {split} split, {words} per image"
        segmented.progress.start(what, pipeline.num_batches)
        measured, sums = evaluate_masks(
            segmented.network,
            pipeline,
            num_classes=bundle.num_classes,
            views=views,
            split=split,
            precision=segmented.recipe.precision,
            on_batch=segmented.progress.advance,
            on_prediction=keep,
        )
        return measured, sums.class_iou().tolist()

    plain, views = recipe_views(segmented.recipe), recipe_views(segmented.recipe, factors, flip)
    measured, class_iou = evaluate(plain)
    entries = {name: measured[name] for name in ("miou", "accuracy", "class_accuracy", "nll", "majority_miou")}
    if views != plain:
        # Pictures and classes are from the last evaluation, with all views.
        several, class_iou = evaluate(views)
        entries["miou_multiscale"] = several["miou"]
    data = {
        "images": bundle.name,
        "trained_with": segmented.recipe.loss.name,
        "num_views": len(views),
        "scales": list(views.scales),
        "class_names": list(bundle.class_names),
        "class_iou": class_iou,
        "indices": shown,
        "cells": [_cell(images, index, predicted[index]) for index in shown],
    }
    return {"numbers": numbers(entries), "data": data}


def obstacle(run: RunOutputs, *, split: str, recipe: str | None = None, **options: Any) -> str | None:
    """Refuse classifiers without a recipe to fine-tune them. Raise for fine-tuning options of a segmenter."""
    for option, value in (("recipe", recipe), *options.items()):
        if _is_segmenter(run) and value and option in ("recipe", "overrides", "target"):
            raise ValueError(
                f"segmentation.{option} must be given for a classifier only; got {value!r} for {run.run.path}, which "
                "was trained on masks already. Leave it out."
            )
    if not _is_segmenter(run) and recipe is None:
        return "its data has no masks; give segmentation.recipe=ade20k_upernet_deit_small or another to fine-tune it"
    return None


def _fine_tuned(run: RunOutputs, name: str, overrides: Sequence[str]) -> RunOutputs:
    """Fine-tune the backbone of a classifier, and return the segmenter's run."""
    plan = fine_tuning(run, name, overrides)
    # The name does not depend on the path of the backbone: the folder of a run may move.
    digest = recipe_digest(plan.changed(model={"pretrained": False}))
    folder = run.run.path / "segmentation" / f"{Path(name).stem}-{run.weights}-{digest}"
    return run.trained(plan, folder, name=Path(name).stem, what=f"fine-tuning on {plan.data.name}")


def fine_tuning(run: RunOutputs, name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe that fine-tunes a run, with its backbone, weights, seed and data root."""
    own, asked = run.recipe, load_recipe(name, list(overrides))
    options = dict(asked.model.options)
    backbone_options = dict(own.model.options)
    if options.get("backbone") == own.model.name:
        # Options of the recipe for the same backbone are meant for fine-tuning, for instance another drop path.
        backbone_options |= options.get("backbone_options", {})
    else:
        options.pop("out_indices", None)
    options |= {"backbone": own.model.name, "backbone_options": backbone_options}
    weights = str(run.run.weights(run.weights).resolve())
    return asked.changed(
        data={"root": asked.data.root or own.data.root},
        model={"options": options, "pretrained": weights},
        seed=own.seed,
        threads=own.threads,
    )


def _is_segmenter(run: RunOutputs) -> bool:
    return run.task == "segmentation"


def _scale_factors(scales: str | Sequence[float]) -> tuple[float, ...]:
    if isinstance(scales, str) and scales in _NAMED_SCALES:
        return _NAMED_SCALES[scales]
    factors = [] if isinstance(scales, str) or not isinstance(scales, Sequence) else scales
    if not factors or not all(isinstance(each, int | float) and 0 < each < math.inf for each in factors):
        raise ValueError(
            f"scales must be single, multi or factors such as [0.75, 1.0, 1.25]; got {scales!r}. Correct it."
        )
    return tuple(float(each) for each in factors)


def _cell(images: MaskSplit, index: int, prediction: Tensor) -> dict[str, str]:
    """Encode an image, its mask and the prediction as text, small enough for a page."""
    image, mask, _ = images.reader(images.samples[index])
    return {
        "image": encoded(np.asarray(image)),
        "truth": encoded(_small(mask)),
        "predicted": encoded(_small(prediction.to(torch.uint8).numpy())),
    }


def _small(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Subsample a mask to the size of its stored picture. Class indices are never averaged."""
    height, width = mask.shape
    factor = max(1.0, max(height, width) / MAX_SIDE)
    rows, columns = (
        np.minimum(((np.arange(round(side / factor)) + 0.5) * factor).astype(int), side - 1) for side in (height, width)
    )
    return mask[np.ix_(rows, columns)][..., None]


ANALYSES.register(
    "segmentation",
    summary="mIoU of masks, single- and multi-scale, and pictures; of a classifier, after fine-tuning its backbone",
    paper="tab:miou",
)(Analysis(compute, segmentation_figures, obstacle=obstacle, tasks=("classification", "segmentation"), trains=True))
