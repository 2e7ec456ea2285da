"""How images are prepared: as the recipe says, else as the pretrained network was trained, else plainly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.lab.core.config import AUTO, ModelConfig, Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.data import DataBundle
from maxsup.lab.data.pipelines.transforms import INTERPOLATION, scaled_side
from maxsup.lab.models import Preprocessing, published_preprocessing
from maxsup.lab.tasks import task_of_model
from maxsup.lab.training.state.checkpoint import read_trained_on

_PLAIN = {"crop_pct": 1.0, "crop_mode": "center", "interpolation": INTERPOLATION}


def resolve_preprocessing(recipe: Recipe) -> Recipe:
    """Return the recipe with explicit crop and interpolation.

    Images in memory that keep their size are only cropped if the recipe says so.

    Example:
        >>> from maxsup.lab.core.config import parse_recipe
        >>> recipe = parse_recipe({"data": {"image_size": 64}, "model": {"name": "timm:resnet50", "pretrained": True}})
        >>> found = resolve_preprocessing(recipe).augment
        >>> found.crop_pct, found.crop_mode, found.interpolation
        (0.95, 'center', 'bicubic')
    """
    if not task_of_model(recipe.model.name).has_crop_settings:
        return recipe
    wanted = wanted_preprocessing(recipe.model)
    filled = dict(_PLAIN)
    if wanted is not None:
        keys = filled if recipe.data.image_size is not None else ("interpolation",)
        filled |= {key: getattr(wanted, key) for key in keys}
    given = {key: value for key, value in recipe.augment.model_dump().items() if value is not None}
    return recipe.changed(augment=recipe.augment.model_validate({**filled, **given}))


def normalise_data(bundle: DataBundle, recipe: Recipe) -> DataBundle:
    """Return the data with the mean and standard deviation of the recipe, of the pretrained network, or its own."""
    augment = recipe.augment
    if augment.mean is not None and augment.std is not None:
        if len(augment.mean) != len(bundle.mean):
            raise DataError(
                f"augment.mean must have a number for each of {len(bundle.mean)} channels; got {list(augment.mean)}. "
                "Correct mean and std.",
                code="wrong-channels",
            )
        return replace(bundle, mean=augment.mean, std=augment.std)
    wanted = wanted_preprocessing(recipe.model)
    # The normalisation of a network for colour images does not fit grey ones.
    if wanted is None or len(wanted.mean) != len(bundle.mean):
        return bundle
    return replace(bundle, mean=wanted.mean, std=wanted.std)


def wanted_preprocessing(model: ModelConfig) -> Preprocessing | None:
    """Return how the pretrained network of a recipe expects images; None if untrained or unknown."""
    if not model.pretrained or AUTO in (model.name, model.pretrained):
        return None
    of_run = None if model.pretrained is True else _of_run(Path(model.pretrained))
    return of_run or published_preprocessing(task_of_model(model.name).pretrained_network(model), model.pretrained)


def visible_pixels(images: Tensor, bundle: DataBundle) -> Tensor:
    """Return normalised images as the bytes that they were."""
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (bundle.mean, bundle.std))
    return ((images * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)


def describe_transform(recipe: Recipe, bundle: DataBundle) -> str:
    """Return one line that says how evaluation with a resolved recipe prepares an image."""
    augment, size = recipe.augment, recipe.data.image_size
    numbers = [" ".join(f"{value:.4g}" for value in values) for values in (bundle.mean, bundle.std)]
    normalisation = f"mean {numbers[0]}, std {numbers[1]}"
    if size is None:
        return f"images as they are; {normalisation}"
    side = scaled_side(augment, size)
    scaled = f"{side} x {side}" if augment.crop_mode == "squash" else f"shorter side {side}"
    cropped = f", centre crop {size} (ratio {augment.crop_pct:.4g})"
    wanted = wanted_preprocessing(recipe.model)
    source = "" if wanted is None else f"; where the recipe says nothing, as {wanted.source}"
    return f"{scaled}, {augment.interpolation}{cropped}; {normalisation}{source}"


def _of_run(file: Path) -> Preprocessing | None:
    """Return how a run of ours prepared images, if a file of weights is one of its checkpoints."""
    run = RunDir(file.parent.parent.parent)
    if not ((file.parent / "state.json").is_file() and run.config.is_file()):
        return None
    recipe = resolve_preprocessing(run_recipe(run))
    _, mean, std = read_trained_on(file)
    return Preprocessing(
        recipe.data.image_size,
        crop_pct=recipe.augment.crop_pct or 1.0,
        crop_mode=recipe.augment.crop_mode or "center",
        interpolation=recipe.augment.interpolation or INTERPOLATION,
        mean=mean,
        std=std,
        source=f"run {run.path.name}",
    )
