"""Classification as a task: images with one label each.

Evaluation gives the same plain numbers for every method, so no loss is among its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from maxsup.core.errors import NonFiniteError
from maxsup.lab.core.config import ModelConfig, Recipe
from maxsup.lab.core.display import percent
from maxsup.lab.data import BatchPlan, DataBundle, LabelledSplit, Pipeline, Split, build_pipeline, shot_groups
from maxsup.lab.data.pipelines.transforms import check_effective
from maxsup.lab.models import MODELS, create_model, describe_models
from maxsup.lab.models.inference import autocast, evaluation_mode
from maxsup.lab.tasks.base import DEFAULT, TASKS, Groups, Task
from maxsup.losses import RegularizedLoss
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
    """Return accuracy, plain negative log-likelihood, calibration and confidence over a whole split.

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
        for batch in pipeline.epoch(0, device=device):
            logits = model(batch.images)
            if not logits.amax(dim=-1).isfinite().all():
                raise NonFiniteError(
                    f"logits must be finite; got nan or inf on split {split!r}. Evaluate earlier weights, or "
                    "train with a lower learning rate.",
                    code="non-finite-logits",
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


class Classification(Task):
    """Every image has a class."""

    name = DEFAULT
    main_number = "accuracy"
    progress_numbers: Mapping[str, str] = {"acc": "accuracy", "nll": "nll"}
    monitored = (...,)
    has_crop_settings = True
    extra = "lab"
    hub_name = "image-classification"
    creator = "maxsup.lab.models.create_model"
    creator_settings = ("classifier",)

    def check_model(self, model: ModelConfig, *, has_data: bool) -> None:
        """Raise never: other tasks name the networks that are theirs."""

    def check_settings(self, recipe: Recipe) -> None:
        """Raise if a setting of the augmentation has no effect."""
        check_effective(recipe.augment, is_training=True)

    def check_unused(self, recipe: Recipe) -> None:
        """Raise never: settings of the augmentation are for other tasks too."""

    def prepare(self, criterion: RegularizedLoss) -> None:
        """Leave the loss as it is."""

    def least_images(self, recipe: Recipe) -> int:
        """Return 1: a loss of no image is no number."""
        return 1

    def has_model(self, name: str) -> bool:
        """Return whether it is one of the networks of this package."""
        return name in MODELS

    def describe_models(self) -> list[dict[str, str]]:
        """Return name, description and source of each network of this package."""
        return describe_models()

    def pretrained_network(self, model: ModelConfig) -> str:
        """Return the name of the network."""
        return model.name

    def create_network(
        self,
        model: ModelConfig,
        num_classes: int,
        *,
        in_channels: int = 3,
        image_size: int | None = None,
        pretrained: bool | str = False,
    ) -> nn.Module:
        """Create the classifier of a recipe."""
        return create_model(
            model.name,
            num_classes,
            in_channels=in_channels,
            image_size=image_size,
            pretrained=pretrained,
            classifier=model.classifier,
            **model.options,
        )

    def create_pipeline(self, recipe: Recipe, split: Split, plan: BatchPlan, bad_files: Path | None) -> Pipeline:
        """Make the batches of a split; files that cannot be read are listed in ``bad_files``."""
        assert isinstance(split, LabelledSplit)
        return build_pipeline(split, plan, tolerance=recipe.data.tolerance, bad_files=bad_files)

    def class_groups(self, bundle: DataBundle) -> Groups:
        """Return the classes by their number of training images; empty if all are in one group."""
        groups = shot_groups(class_sizes(bundle))
        return groups if len(groups) > 1 else {}

    def evaluate(
        self,
        recipe: Recipe,
        model: nn.Module,
        pipeline: Pipeline,
        *,
        num_classes: int,
        split: str,
        groups: Groups | None = None,
        is_sharded: bool = False,
        on_batch: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Return the numbers of :func:`evaluate`."""
        return evaluate(
            model,
            pipeline,
            split=split,
            precision=recipe.precision,
            is_sharded=is_sharded,
            groups=groups,
            on_batch=on_batch,
        )

    def summarise(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return accuracy, NLL and calibration error."""
        return {
            "accuracy": percent(numbers["accuracy"]),
            "nll": f"{numbers['nll']:.4f}",
            "ece": f"{numbers['ece']:.4f}",
        }

    def describe(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return these with the top five, the confidence and the groups of classes."""
        right, wrong = percent(numbers["confidence_correct"]), percent(numbers["confidence_wrong"])
        return {
            "accuracy": f"{percent(numbers['accuracy'])} (top 5: {percent(numbers['accuracy_top5'])})",
            "nll": f"{numbers['nll']:.4f}",
            "ece": f"{numbers['ece']:.4f} (15 bins)",
            "confidence": f"{right} where right, {wrong} where wrong",
            **{f"{name} shot": percent(share) for name, share in numbers.get("groups", {}).items()},
        }


TASKS.register(Classification.name)(Classification())


def class_sizes(bundle: DataBundle) -> list[int]:
    """Count the training images of each class, including those held out for validation."""
    labels = torch.cat([bundle.train.labels, bundle.val.labels])
    return list(torch.bincount(labels, minlength=bundle.num_classes).tolist())
