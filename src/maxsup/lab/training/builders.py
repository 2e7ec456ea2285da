"""Data, batches, network and loss of a recipe."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maxsup.core import schedules
from maxsup.core.errors import hint
from maxsup.core.schedules import PAPER_SCHEDULES, Schedule
from maxsup.lab.core.config import LossConfig, Recipe
from maxsup.lab.core.interrupt import raise_if_noted
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data import BatchPlan, DataBundle, Pipeline, Split, load_data
from maxsup.lab.tasks import TASKS, check_model, check_unused
from maxsup.lab.training.preprocessing import normalise_data
from maxsup.losses import LOSSES, RegularizedLoss, create_loss

SCHEDULES: dict[str, type[Schedule]] = {
    "constant": schedules.Constant,
    "linear": schedules.Linear,
    "cosine": schedules.Cosine,
    "piecewise": schedules.Piecewise,
}


def build_data(recipe: Recipe) -> DataBundle:
    """Load the data set with its three splits, normalised as the network expects."""
    raise_if_noted()  # before a download
    data = recipe.data
    bundle = load_data(
        data.name,
        root=Path(data.root) if data.root else None,
        download=data.download,
        val_share=data.val_share,
        split_seed=data.split_seed,
        **data.options,
    )
    return normalise_data(bundle, recipe)


def split_pipeline(
    recipe: Recipe,
    bundle: DataBundle,
    split: Split,
    *,
    is_training: bool = False,
    rank: int = 0,
    world_size: int = 1,
    bad_files: Path | None = None,
) -> Pipeline:
    """Make the batches of a split with the classes and normalisation of ``bundle``, for training or evaluation.

    The preprocessing of ``recipe`` must be resolved (:func:`resolve_preprocessing`).
    """
    plan = BatchPlan(
        num_samples=len(split),
        batch_size=recipe.batch_size,
        mean=bundle.mean,
        std=bundle.std,
        seed=recipe.seed,
        is_training=is_training,
        augment=recipe.augment,
        image_size=recipe.data.image_size,
        num_classes=bundle.num_classes,
        num_workers=recipe.data.num_workers,
        drop_last=recipe.data.drop_last,
        num_steps=recipe.steps_per_epoch,
        rank=rank,
        world_size=world_size,
        channels_last=recipe.channels_last,
    )
    check_unused(recipe, split.task)
    return TASKS[split.task].create_pipeline(recipe, split, plan, bad_files)


def build_model(recipe: Recipe, bundle: DataBundle, *, is_trained: bool = False) -> nn.Module:
    """Build the network, with initial weights that depend only on the seed.

    With ``is_trained`` no published weights are fetched, because the caller loads others.
    """
    raise_if_noted()  # before weights are fetched
    size = recipe.data.image_size or (bundle.image_shape[1] if bundle.image_shape else None)
    torch.manual_seed(mixed_seed(recipe.seed, "init"))
    check_model(recipe.model, bundle.task)
    model = TASKS[bundle.task].create_network(
        recipe.model,
        bundle.num_classes,
        in_channels=len(bundle.mean),
        image_size=size,
        pretrained=False if is_trained else recipe.model.pretrained,
    )
    return model.to(memory_format=torch.channels_last) if recipe.channels_last else model


def build_loss(config: LossConfig) -> RegularizedLoss:
    """Build the loss, with schedules and class weights from the values of YAML.

    Example:
        >>> build_loss(LossConfig(name="maxsup", alpha={"schedule": "linear", "start": 0.1, "end": 0.2}))
        MaxSupLoss(alpha=Linear(start=0.1, end=0.2), ignore_index=-100, reduction='mean')
    """
    options = config.options
    strength = LOSSES[config.name].strength
    if strength in options:
        options[strength] = _strength(strength, options[strength])
    if options.get("weight") is not None:
        options["weight"] = torch.tensor(options["weight"], dtype=torch.float32)
    return create_loss(config.name, **options)


def loss_config(loss: RegularizedLoss | LossConfig | Mapping[str, Any]) -> LossConfig:
    """Return the section of a recipe for a loss object, or for a mapping with its ``name`` and options.

    Example:
        >>> loss_config({"name": "maxsup", "alpha": 0.2}).options
        {'alpha': 0.2}
        >>> from maxsup.losses import MaxSupLoss
        >>> loss_config(MaxSupLoss(schedules.Linear(0.1, 0.2))).options["alpha"]
        {'schedule': 'linear', 'start': 0.1, 'end': 0.2}
    """
    if isinstance(loss, LossConfig):
        return loss
    if isinstance(loss, Mapping):
        if "name" not in loss:
            raise ValueError(f"a loss must have a name; got {dict(loss)!r}. Write for instance {{'name': 'maxsup'}}.")
        return LossConfig(**loss)
    names = [name for name in LOSSES if LOSSES[name] is type(loss)]
    if not names:
        raise TypeError(
            f"loss must be one of a registered class; got {type(loss).__name__}. Decorate the class with "
            "@maxsup.losses.LOSSES.register('name')."
        )
    options: dict[str, Any] = {}
    known = {**inspect.signature(RegularizedLoss).parameters, **inspect.signature(type(loss)).parameters}
    for key, parameter in known.items():
        is_strength = key == loss.strength
        value = loss.schedule if is_strength and loss.schedule is not None else getattr(loss, key, parameter.default)
        if isinstance(value, Schedule):
            value = {"schedule": next(kind for kind in SCHEDULES if SCHEDULES[kind] is type(value)), **asdict(value)}
        elif isinstance(value, torch.Tensor):
            value = value.tolist()
        if is_strength or (key != "strength" and value != parameter.default):
            options[key] = value
    return LossConfig(name=names[0], **options)


def check_last_batch(recipe: Recipe, bundle: DataBundle, num_processes: int) -> None:
    """Raise if the last batch of an epoch would leave a process with fewer images than the task needs."""
    left = len(bundle.train) % recipe.batch_size if recipe.iterations is None else 0
    least = TASKS[bundle.task].least_images(recipe)
    if 0 < left < least * num_processes and not recipe.data.drop_last:
        images = "an image" if least == 1 else f"{least} images"
        raise ValueError(
            f"the last batch must have {images} for each of {num_processes} processes; got {left}. "
            "Set data.drop_last=true or another batch_size."
        )


def synchronise_norms(model: nn.Module, recipe: Recipe, device: torch.device, num_processes: int) -> nn.Module:
    """Return the model; its batch norms see the batches of all processes if the recipe says so."""
    if recipe.batchnorm != "sync" or num_processes == 1:
        return model
    if device.type == "cpu":
        raise ValueError(
            "batchnorm must be local or frozen on CPUs; got 'sync', which needs GPUs. Set batchnorm=local."
        )
    return nn.SyncBatchNorm.convert_sync_batchnorm(model)


def freeze_statistics(model: nn.Module) -> None:
    """Make batch norms use their running statistics in training; their scales and shifts still train."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.eval()


def _strength(name: str, value: Any) -> Any:
    """Return the number, the schedule of the paper of that name, or the schedule written out in a mapping."""
    if isinstance(value, str):
        if value in PAPER_SCHEDULES:
            return PAPER_SCHEDULES[value]
        fix = hint(value, PAPER_SCHEDULES)
        raise ValueError(f"loss.{name} must be a number or a schedule of the paper; got {value!r}. {fix}")
    if not isinstance(value, Mapping):
        return value
    fields = dict(value)
    kind = fields.pop("schedule", None)
    if kind not in SCHEDULES:
        known, fix = ", ".join(SCHEDULES), hint(str(kind), SCHEDULES)
        raise ValueError(f"loss.{name}.schedule must be one of {known}; got {kind!r}. {fix}")
    try:
        return SCHEDULES[kind](**fields)
    except TypeError:
        known = ", ".join(SCHEDULES[kind].__dataclass_fields__)
        raise ValueError(
            f"loss.{name} with schedule {kind!r} must have the keys {known}; got {', '.join(fields) or 'none'}. "
            "Write for instance {schedule: linear, start: 0.1, end: 0.2}."
        ) from None
