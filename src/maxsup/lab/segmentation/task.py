"""Segmentation as a task: images with a class for every pixel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from maxsup.lab.core.config import ModelConfig, Recipe
from maxsup.lab.core.display import percent
from maxsup.lab.data import BatchPlan, DataBundle, Pipeline, Split
from maxsup.lab.segmentation.checks import check_dense, check_not_dense, check_segmenter, prepare_for_masks
from maxsup.lab.segmentation.evaluation import evaluate_masks, recipe_views
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.pipeline import MaskPipeline
from maxsup.lab.segmentation.segmenters import SEGMENTERS, create_segmenter
from maxsup.lab.tasks.base import TASKS, Groups, Task
from maxsup.losses import RegularizedLoss

# Neighbouring pixels tell the monitor nothing new, and using all of them would take as long as the step.
_WATCHED = slice(None, None, 8)


class Segmentation(Task):
    """Every pixel has a class, or is ignored."""

    name = "segmentation"
    main_number = "miou"
    progress_numbers: Mapping[str, str] = {"miou": "miou", "acc": "accuracy", "nll": "nll"}
    monitored = (..., _WATCHED, _WATCHED)
    has_crop_settings = False
    extra = "dense"
    hub_name = "image-segmentation"
    creator = "maxsup.lab.segmentation.create_segmenter"
    creator_settings = ()

    def check_model(self, model: ModelConfig, *, has_data: bool) -> None:
        """Raise if a classifier shall label pixels, or a segmenter whole images."""
        check_segmenter(model, has_masks=has_data)

    def check_settings(self, recipe: Recipe) -> None:
        """Raise if a setting has no effect on images with masks, or the size of the crop is missing."""
        check_dense(recipe.augment, recipe.data.image_size, is_training=True)

    def check_unused(self, recipe: Recipe) -> None:
        """Raise if a setting for masks is given."""
        check_not_dense(recipe.dense)

    def prepare(self, criterion: RegularizedLoss) -> None:
        """Make a loss ignore the pixels that masks ignore; raise for a loss that cannot train pixels."""
        prepare_for_masks(criterion)

    def least_images(self, recipe: Recipe) -> int:
        """Return 2 where batch norms need them: one image pooled to one cell has no variance."""
        return 2 if recipe.batchnorm == "local" else 1

    def has_model(self, name: str) -> bool:
        """Return whether it is a segmenter."""
        return name in SEGMENTERS

    def describe_models(self) -> list[dict[str, str]]:
        """Return name, description and source of each segmenter."""
        return [{"name": name, **SEGMENTERS.facts(name)} for name in SEGMENTERS]

    def pretrained_network(self, model: ModelConfig) -> str:
        """Return the name of the backbone."""
        return {**SEGMENTERS.options(model.name), **model.options}["backbone"]

    def create_network(
        self,
        model: ModelConfig,
        num_classes: int,
        *,
        in_channels: int = 3,
        image_size: int | None = None,
        pretrained: bool | str = False,
    ) -> nn.Module:
        """Create the segmenter of a recipe; ``pretrained`` is for its backbone."""
        return create_segmenter(
            model.name,
            num_classes,
            in_channels=in_channels,
            image_size=image_size,
            pretrained=pretrained,
            **model.options,
        )

    def create_pipeline(self, recipe: Recipe, split: Split, plan: BatchPlan, bad_files: Path | None) -> Pipeline:
        """Make the batches of a split; a file that cannot be used ends the run, so none is listed."""
        assert isinstance(split, MaskSplit)
        return MaskPipeline(split, plan, recipe.dense)

    def class_groups(self, bundle: DataBundle) -> Groups:
        """Return no groups."""
        return {}

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
        """Return the numbers of whole masks, through the views of the recipe."""
        assert isinstance(pipeline, MaskPipeline)
        return evaluate_masks(
            model,
            pipeline,
            num_classes=num_classes,
            views=recipe_views(recipe),
            split=split,
            precision=recipe.precision,
            is_sharded=is_sharded,
            on_batch=on_batch,
        )[0]

    def summarise(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return the mIoU, beside that of the commonest class everywhere, pixel accuracy and NLL."""
        majority = percent(numbers["majority_miou"])
        return {
            "mIoU": f"{percent(numbers['miou'])} (commonest class everywhere: {majority})",
            "pixel accuracy": percent(numbers["accuracy"]),
            "nll": f"{numbers['nll']:.4f}",
        }

    def describe(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Return the same and the mean accuracy of the classes."""
        rows = self.summarise(numbers)
        nll = rows.pop("nll")
        return {**rows, "class accuracy": percent(numbers["class_accuracy"]), "nll": nll}


TASKS.register(Segmentation.name)(Segmentation())
