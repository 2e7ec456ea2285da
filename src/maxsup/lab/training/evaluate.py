"""Evaluation: the same plain numbers for every method, so no loss is among the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from maxsup.core.errors import NonFiniteError
from maxsup.lab.core.config import Recipe
from maxsup.lab.data import Pipeline
from maxsup.lab.models.inference import autocast, evaluation_mode
from maxsup.lab.segmentation.evaluation import evaluate_masks, recipe_views
from maxsup.lab.segmentation.pipeline import MaskPipeline
from maxsup.metrics import PredictionSums


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
        model: Gives logits; its mode is restored.
        pipeline: The split, in evaluation form.
        split: Its name, for the result.
        precision: Of the model's computations.
        is_sharded: Whether each process has its own part of the split, so that the parts must be added up.
        groups: Classes by name of the group, to get the accuracy of each group.
        on_batch: Called after each batch.

    Returns:
        ``split``, ``n``, ``missing`` (images that could not be read), ``accuracy``, ``accuracy_top5``, ``nll``,
        ``brier``, ``ece`` (15 equally wide bins), ``confidence_correct``, ``confidence_wrong``, and ``groups`` if
        given; shares lie in [0, 1].
    """
    device = next(model.parameters()).device
    sums = PredictionSums()
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        for batch in pipeline.epoch(0):
            logits = model(batch.images.to(device, non_blocking=True))
            if not logits.amax(dim=-1).isfinite().all():
                raise NonFiniteError(
                    f"logits must be finite; got nan or inf on split {split!r}. Evaluate earlier weights, or "
                    "train with a lower learning rate."
                )
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


def evaluate_split(
    recipe: Recipe,
    model: nn.Module,
    pipeline: Pipeline,
    *,
    num_classes: int,
    groups: Mapping[str, Sequence[int]] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """The numbers of a split with labels or masks; ``settings`` are those that both evaluations share."""
    settings["precision"] = recipe.precision
    if isinstance(pipeline, MaskPipeline):
        return evaluate_masks(model, pipeline, num_classes=num_classes, views=recipe_views(recipe), **settings)[0]
    return evaluate(model, pipeline, groups=groups, **settings)
