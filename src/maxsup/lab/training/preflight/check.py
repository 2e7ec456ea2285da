"""Checks of a recipe and its data before training."""

from __future__ import annotations

from typing import Any

import torch

from maxsup.core.errors import DataError
from maxsup.lab.core.config import AUTO, Recipe
from maxsup.lab.data import DATASETS, DataBundle, LabelledSplit, Split
from maxsup.lab.data.registry import missing_places
from maxsup.lab.data.survey import survey
from maxsup.lab.tasks import check_model, check_unused, task_of_model
from maxsup.lab.training.builders import build_loss
from maxsup.lab.training.loss_inputs import Needs, check_teacher
from maxsup.lab.training.preflight.defaults import MAX_SIDE, network_for


def check_recipe(recipe: Recipe, *, num_classes: int = 10) -> dict[str, Any]:
    """Return facts of a recipe; raise if a name or option does not exist. Neither data nor weights are read.

    ``data_missing_at`` lists the places that lack its data, and is empty if the data is found or generated.
    ``num_classes`` only matters for the number of parameters.

    Example:
        >>> check_recipe(Recipe())["loss"]
        "MaxSupLoss(alpha=0.1, ignore_index=-100, reduction='mean')"
    """
    criterion = build_loss(recipe.loss)
    Needs(criterion.needs)
    check_teacher(recipe.teacher, recipe.loss.name, criterion.needs)
    kind = recipe.data.name.partition(":")[0]
    DATASETS.check_options(kind, recipe.data.options)
    for unit in ("iterations", "epochs"):
        total, warmup = getattr(recipe, unit), getattr(recipe.schedule, f"warmup_{unit}")
        if total is not None and warmup > total:
            raise ValueError(
                f"schedule.warmup_{unit} must be at most {unit}={total}; got {warmup:g}. The learning rate would never "
                "reach its peak."
            )
    task = task_of_model(recipe.model.name)
    if kind != "folder":  # which may hold images of any task
        check_model(recipe.model, DATASETS.facts(kind).get("task", "classification"))
    check_unused(recipe, task.name)
    task.check_settings(recipe)
    task.prepare(criterion)
    # Without the data its choice is not known; the network for photographs stands for all.
    name = network_for(recipe.data.image_size or MAX_SIDE, 0) if recipe.model.name == AUTO else recipe.model.name
    with torch.device("meta"):
        # The data decides the number of channels; any number shows that the model can be built.
        settings = recipe.model.model_copy(update={"name": name})
        model = task.create_network(settings, num_classes, image_size=recipe.data.image_size)
    is_generated = bool(recipe.data.options.get("is_generated"))
    missing = missing_places(recipe.data.name, recipe.data.root, is_generated=is_generated)
    return {
        "loss": repr(criterion),
        "data": recipe.data.name,
        "data_source": DATASETS.facts(kind)["source"],
        "data_missing_at": [str(path) for path in missing],
        "model": name,
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def check_data(recipe: Recipe, bundle: DataBundle) -> dict[str, Any]:
    """Count images of each split and class and look at the files; raise if too many are unreadable."""
    splits = {"train": bundle.train, "val": bundle.val, "test": bundle.test}
    found = survey(bundle)
    num_bad, tolerance = len(found.unreadable), recipe.data.tolerance
    if num_bad > tolerance * found.num_opened:
        path, reason = next(iter(found.unreadable.items()))
        raise DataError(
            f"{num_bad} of {found.num_opened:,} files cannot be read, the first {path} ({reason}), and "
            f"data.tolerance={tolerance:g} allows {int(tolerance * found.num_opened)}. Repair or remove them, or raise "
            "data.tolerance.",
            code="unreadable-file",
        )
    return {
        "num_classes": bundle.num_classes,
        "splits": {name: _counts(split, bundle.class_names) for name, split in splits.items()},
        "notes": list(bundle.notes),
        "image_size": recipe.data.image_size,
        "num_files": found.num_files,
        "num_opened": found.num_opened,
        "sizes": {f"{width}x{height}": count for (width, height), count in found.sizes.most_common()},
        "modes": dict(found.modes.most_common()),
        "oddities": dict(found.oddities.most_common()),
        "unreadable": found.unreadable,
        "duplicates": [list(pair) for pair in found.duplicates],
    }


def _counts(split: Split, class_names: tuple[str, ...]) -> dict[str, Any]:
    """Count the images, and those of the classes with the fewest and the most."""
    if not isinstance(split, LabelledSplit) or not len(split):
        return {"images": len(split)}
    counts = torch.bincount(split.labels, minlength=len(class_names))
    extremes = {"fewest": int(counts.argmin()), "most": int(counts.argmax())}
    classes = {key: {"class": class_names[at], "images": int(counts[at])} for key, at in extremes.items()}
    return {"images": len(split), **classes}
