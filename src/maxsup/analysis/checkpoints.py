"""A checkpoint that never saw this package: its outputs on labelled images, ready to be diagnosed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from maxsup.analysis.extraction import affine_head, extracted
from maxsup.analysis.outputs import Outputs
from maxsup.analysis.progress import Progress
from maxsup.core.checks import check_choice
from maxsup.core.config import parse_recipe
from maxsup.core.errors import DataError
from maxsup.models import Segmenter
from maxsup.training.parts import build_data, build_model, split_pipeline
from maxsup.training.runs import SPLITS

DEFAULT_IMAGE_SIZE = 224


@dataclass(frozen=True, eq=False)
class CheckpointOutputs:
    """Outputs of a checkpoint on a split, and its last layer where that is linear."""

    outputs: Outputs
    weight: Tensor | None
    bias: Tensor | None


def checkpoint_outputs(
    model: str,
    weights: str | Path,
    data: str,
    *,
    split: str = "test",
    overrides: Iterable[str] = (),
    progress: Progress | None = None,
) -> CheckpointOutputs:
    """Run a checkpoint over a split.

    Args:
        model: A registered name or one of timm, for instance ``timm:resnet50``.
        weights: A ``.safetensors`` file, or a torch file of tensors; nothing in it is executed.
        data: A registered data set, for instance ``folder:PATH``. Files are brought to 224 pixels unless
            ``data.image_size`` says otherwise.
        split: ``train``, ``val`` or ``test``.
        overrides: ``key.sub=value`` each, for instance ``augment.eval_resize=232``.
        progress: Advanced once a batch.
    """
    check_choice("split", split, SPLITS)
    values = {"data": {"name": data}, "model": {"name": model, "pretrained": str(weights)}}
    recipe = parse_recipe(values, overrides, source="options")
    bundle = build_data(recipe)
    if bundle.image_shape is None and recipe.data.image_size is None:
        recipe = parse_recipe(values, [f"data.image_size={DEFAULT_IMAGE_SIZE}", *overrides], source="options")
    images = getattr(bundle, split)
    if len(images) == 0:
        raise DataError(f"{split} split of {data!r} must have at least one image; got none. Choose another split.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = build_model(recipe, bundle).eval()
    if isinstance(network, Segmenter):
        raise DataError(f"data must have one label an image; got {data!r}, which has masks. Choose other data.")
    heads = [str(warning.message) for warning in caught if "starts untrained" in str(warning.message)]
    if heads:
        raise DataError(
            f"weights must have a head for the {bundle.num_classes} classes of the data; got another: {heads[0]} "
            "Give data with the classes that the checkpoint was trained on."
        )
    pipeline = split_pipeline(recipe, bundle, images)
    progress = progress or Progress()
    progress.start(f"{model}: outputs of {bundle.name}, {split} split", pipeline.num_batches)
    found = extracted(network, pipeline, precision=recipe.precision, progress=progress)
    affine = affine_head(network.head, network.num_features)
    outputs = Outputs(
        found["logits"],
        found["labels"],
        found["features"],
        class_names=tuple(bundle.class_names),
        num_missing=pipeline.num_missing,
    )
    return CheckpointOutputs(outputs, *(affine or (None, None)))
