"""Compute the outputs of a checkpoint from outside this package, for a diagnosis."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError
from maxsup.diagnosis.class_order import class_order, read_class_names
from maxsup.diagnosis.outputs import Outputs
from maxsup.lab.analysis.extraction import affine_head, extracted
from maxsup.lab.analysis.other_data import OtherData, folder_without_splits
from maxsup.lab.analysis.transfer import Transfer, transferred
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.display import Display
from maxsup.lab.data import DataBundle, LabelledSplit
from maxsup.lab.models import PROGRAM_SUFFIXES, Classifier, Program, class_names_of, load_program, num_classes_of
from maxsup.lab.models.weights import has_blur_filters
from maxsup.lab.training.builders import build_data, build_model, split_pipeline
from maxsup.lab.training.preprocessing import describe_transform, resolve_preprocessing, wanted_preprocessing
from maxsup.lab.training.reading import SPLITS

DEFAULT_IMAGE_SIZE = 224


class CheckpointOutputs(NamedTuple):
    """Outputs of a checkpoint on a split, and its last layer if that is known and affine."""

    outputs: Outputs  # labels are indices of the network's own outputs
    weight: Tensor | None
    bias: Tensor | None
    facts: dict[str, str]  # settings of the computation by name, for the reader
    ood: Tensor | None = None  # logits of images of another kind
    transfer: Transfer | None = None


def checkpoint_outputs(
    model: str,
    weights: str | Path | None,
    data: str,
    *,
    split: str | None = None,
    class_names: str | Path | None = None,
    ood: str | None = None,
    transfer: str | None = None,
    overrides: Iterable[str] = (),
    progress: Display | None = None,
) -> CheckpointOutputs:
    """Run a checkpoint on a split, with images preprocessed as in its training.

    Args:
        model: A registered name, ``timm:NAME``, ``torchvision:NAME``, ``hf:PATH_OR_NAME``, or the path of a ``.pt2`` or
            ``.onnx`` file, which is run as it is.
        weights: A ``.safetensors`` file, or a torch file of tensors, which is not executed; None for published weights.
        data: A registered data set, for instance ``folder:PATH`` with one folder per class.
        split: ``train``, ``val`` or ``test``; by default test, or all images of a folder without splits.
        class_names: A file that maps outputs to classes.
        ood: Data of another kind, none of whose classes the network has.
        transfer: Data on whose training images a linear probe of the features is fitted.
        overrides: Changes ``key.sub=value`` of the recipe, for instance ``augment.crop_pct=0.95``.
        progress: Progress display, advanced once per batch.
    """
    if split is not None:
        check_choice("split", split, SPLITS)
    program = load_program(Path(model)) if model.endswith(PROGRAM_SUFFIXES) else None
    if program is not None and weights is not None:
        raise ValueError(f"weights must be left out if the model is a file; got {str(weights)!r}. Drop it.")
    network_of = {"name": model, "pretrained": str(weights or "") or True} if program is None else {}
    recipe = parse_recipe({"data": {"name": data}, "model": network_of}, overrides, source="options")
    is_blurred = program is None and weights is not None and has_blur_filters(Path(weights))
    if is_blurred:
        recipe = recipe.changed(model={"options": {"blurpool": True, **recipe.model.options}})
    place = folder_without_splits(recipe.data.name, recipe.data.root, split)
    if place is not None:
        options = {"test_share": 1.0, **recipe.data.options}
        recipe = recipe.changed(data={"name": f"folder:{place.resolve()}", "options": options})
    bundle = build_data(recipe)
    if not isinstance(bundle.train, LabelledSplit):
        raise DataError(
            f"data must have one label per image; got {bundle.train.describe()}. Choose other data.", code="bad-data"
        )
    if bundle.image_shape is None and recipe.data.image_size is None:
        wanted = program or wanted_preprocessing(recipe.model)
        size = (wanted.image_size if wanted is not None else None) or DEFAULT_IMAGE_SIZE
        recipe = recipe.changed(data={"image_size": size})
    recipe = resolve_preprocessing(recipe)
    images = getattr(bundle, split or "test") if place is None else bundle.test
    if len(images) == 0:
        raise DataError(
            f"{split} split of {data!r} must have at least one image; got none. Choose another split.",
            code="empty-split",
        )
    network = program or _network(recipe, bundle)
    num_outputs = _num_outputs(network, recipe, bundle)
    listed = None if class_names is None else read_class_names(Path(class_names))
    known = class_names_of(model, num_outputs) if listed is None else ()
    order = class_order(bundle.class_names, num_outputs, known, listed)
    progress = progress or Display()
    others = None if ood is None else OtherData(ood, recipe, bundle, is_whole=True)
    if others is not None:
        _check_other_classes(others, [*bundle.class_names, *order.names, *(listed or ())], known)
    probed = None
    if transfer is not None:
        probed = transferred(network, OtherData(transfer, recipe, bundle), label=model, progress=progress)
    pipeline = split_pipeline(recipe, bundle, images)
    progress.start(f"{model}: outputs of {bundle.name}", pipeline.num_batches)
    found = extracted(network, pipeline, precision=recipe.precision, progress=progress)
    labels, missing = order.indices[found["labels"]], pipeline.num_missing
    columns = found["logits"], labels, found.get("features"), found["indices"]
    outputs = Outputs(*columns, class_names=order.names, num_missing=missing)
    facts = {
        "Data": data,
        "Split": split or ("test" if place is None else "all images"),
        "Transform": describe_transform(recipe, bundle),
        "Class order": order.how,
    }
    if is_blurred:
        facts["Network"] = "with anti-aliased convolutions, as the weights have their filters"
    if bundle.notes:
        facts["Notes"] = "; ".join(bundle.notes)
    if missing:
        facts["Unreadable"] = f"{missing} images, left out"
    others_logits = None
    if others is not None:
        others_logits = others.outputs(network, "test", label=model, progress=progress)["logits"]
        facts["Other images"] = f"{ood}, {len(others_logits):,} images"
    if probed is not None:
        facts["Transfer"] = f"{transfer}, {probed.num_train:,} images to fit on and {probed.num_test:,} to judge on"
    affine = affine_head(network.head, network.num_features) if isinstance(network, Classifier) else None
    weight, bias = affine or (None, None)
    return CheckpointOutputs(outputs, weight, bias, facts, others_logits, probed)


def _check_other_classes(others: OtherData, own: list[str], known: Sequence[Sequence[str]]) -> None:
    """Refuse images of classes that the network has, by any of their names if its own data is found among them."""
    aliases = {alias.lower() for names in known for alias in names}
    if aliases.issuperset(map(str.lower, own)):
        own = [*own, *aliases]
    others.check_classes(own)


@torch.no_grad()
def _num_outputs(network: Classifier | Program, recipe: Recipe, bundle: DataBundle) -> int:
    """Return the number of outputs, found on one black image before the pass over the data."""
    size, shape = recipe.data.image_size, bundle.image_shape
    sides = shape[1:] if shape is not None and size is None else (size or DEFAULT_IMAGE_SIZE,) * 2
    device = next(network.parameters(), torch.empty(0)).device
    return int(network(torch.zeros(1, len(bundle.mean), *sides, device=device)).shape[1])


def _network(recipe: Recipe, bundle: DataBundle) -> Classifier:
    """Build the network with as many outputs as its weights have, whatever the data has."""
    model = recipe.model
    num_classes = num_classes_of(model.name, model.pretrained, **model.options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = build_model(recipe, replace(bundle, num_classes=num_classes)).eval()
    for message in (str(warning.message) for warning in caught):
        if "starts untrained" in message:
            raise DataError(
                f"weights must have a head; got another: {message} Give weights of the whole network.", code="bad-data"
            )
    assert isinstance(network, Classifier)
    return network.to("cuda" if torch.cuda.is_available() else "cpu")
