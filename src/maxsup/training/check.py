"""Looking a recipe over before anything is spent on it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from maxsup.core.config import Recipe
from maxsup.core.errors import hint
from maxsup.data import DATASETS, dataset_options
from maxsup.data.mask_transforms import check_dense, check_not_dense
from maxsup.data.places import missing_places
from maxsup.models import SEGMENTERS, create_model, create_segmenter
from maxsup.training.needs import Needs
from maxsup.training.parts import build_loss, check_task, prepare_for_masks


def check_recipe(recipe: Recipe) -> dict[str, Any]:
    """Facts of a recipe whose names and options all exist; raises otherwise. No data is read, no weights are fetched.

    ``data_missing_at`` is where its data was looked for in vain, and empty where it is found or drawn.

    Example:
        >>> check_recipe(Recipe())["loss"]
        "MaxSupLoss(alpha=0.1, ignore_index=-100, reduction='mean')"
    """
    criterion = build_loss(recipe.loss)
    Needs(criterion.needs)
    kind = recipe.data.name.partition(":")[0]
    known = dataset_options(kind)
    for option in recipe.data.options:
        if option not in known:
            fix = hint(option, known) if known else "It has none."
            raise ValueError(f"option of data set {kind!r} must be one it has; got {option!r}. {fix}")
    if recipe.iterations is not None and recipe.schedule.warmup_iterations > recipe.iterations:
        raise ValueError(
            f"schedule.warmup_iterations must be at most iterations={recipe.iterations}; got "
            f"{recipe.schedule.warmup_iterations}. The learning rate would never reach its peak."
        )
    if recipe.schedule.warmup_epochs > recipe.epochs:
        raise ValueError(
            f"schedule.warmup_epochs must be at most epochs={recipe.epochs}; got {recipe.schedule.warmup_epochs:g}. "
            "The learning rate would never reach its peak."
        )
    is_dense = DATASETS.facts(kind).get("task") == "masks"
    if kind != "folder":  # either
        check_task(recipe.model, is_dense=is_dense)
    if recipe.model.name in SEGMENTERS:
        check_dense(recipe.augment, recipe.data.image_size, is_training=True)
    else:
        check_not_dense(recipe.dense)
    with torch.device("meta"):
        # The number of classes and channels comes from the data; any will do to see that the model can be built.
        if recipe.model.name in SEGMENTERS:
            prepare_for_masks(criterion)
            size = recipe.data.image_size
            model: nn.Module = create_segmenter(recipe.model.name, 10, image_size=size, **recipe.model.options)
        else:
            model = create_model(
                recipe.model.name,
                10,
                image_size=recipe.data.image_size,
                classifier=recipe.model.classifier,
                **recipe.model.options,
            )
    is_generated = bool(recipe.data.options.get("is_generated"))
    missing = missing_places(recipe.data.name, recipe.data.root, is_generated=is_generated)
    return {
        "loss": repr(criterion),
        "data": recipe.data.name,
        "data_source": DATASETS.facts(kind)["source"],
        "data_missing_at": [str(path) for path in missing],
        "model": recipe.model.name,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
