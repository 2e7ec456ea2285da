"""What the model of a run says about labelled samples, extracted once and shared by all analyses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxsup.analysis.extraction import Tensors, affine_head, cached, extracted
from maxsup.analysis.result_files import data_label, file_name
from maxsup.core.checks import check_choice
from maxsup.core.config import CIRCUMSTANCES, flat_items
from maxsup.core.display import Display
from maxsup.core.errors import DataError, MaxsupError
from maxsup.core.files.reading import file_digest
from maxsup.core.files.rundir import RunDir
from maxsup.core.recipes import run_recipe
from maxsup.data import DataBundle, MemorySplit, Pipeline, Split, load_data, stratified_split
from maxsup.dense import SEGMENTERS, Segmenter
from maxsup.diagnosis.outputs import Outputs
from maxsup.figures.style import loss_look
from maxsup.losses import LOSSES
from maxsup.models import Classifier
from maxsup.training import load_run
from maxsup.training.builders import split_pipeline
from maxsup.training.reading import SPLITS, WEIGHTS

MAX_IMAGES = 50_000
"""A larger split is reduced to so many images, the same share of every class; as many as ImageNet's validation set."""

_EVALUATION_KEYS = ("crop_pct", "crop_mode", "interpolation", "mean", "std")
_LUMA = (0.299, 0.587, 0.114)


class RunOutputs:
    """What a run says about its data, and about other data.

    Everything is read or made when it is first asked for. What took a forward pass is kept in ``RUN/outputs`` and used
    again as long as weights and data are the same.

    Args:
        path: A run directory.
        weights: ``last``, or ``best`` on the validation split.
        overrides: ``key.sub=value`` each, for instance where the data is now.
        label: What to call the run; the name of its loss by default.
        progress: Shows how far a pass is.
        loaded: Data and model of the run, where they are at hand.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        weights: str = "last",
        overrides: Iterable[str] = (),
        label: str | None = None,
        progress: Display | None = None,
        loaded: tuple[DataBundle, Classifier | Segmenter] | None = None,
    ) -> None:
        check_choice("weights", weights, WEIGHTS)
        self._given = loaded
        self.run = RunDir(path).require()
        self.weights = weights
        self.overrides = tuple(overrides)
        own, self.recipe = (run_recipe(self.run, words) for words in ((), self.overrides))
        labels = [data_label(recipe.data.name, recipe.data.options) for recipe in (own, self.recipe)]
        self.other_data = None if labels[0] == labels[1] else labels[1]
        self.loss = self.recipe.loss.name
        self.label = label or loss_look(self.loss).label
        self.progress = progress or Display()
        self._splits: dict[tuple[str | None, str], Outputs] = {}
        self._head: tuple[Tensor, Tensor] | None = None

    @cached_property
    def _loaded(self) -> tuple[DataBundle, Classifier | Segmenter]:
        if self._given is not None:
            return self._given
        _, bundle, model = load_run(self.run.path, weights=self.weights, overrides=self.overrides)
        return bundle, model

    @property
    def bundle(self) -> DataBundle:
        """The data the run was trained on, as it normalises images."""
        return self._loaded[0]

    @property
    def model(self) -> Classifier:
        """The trained classifier, in evaluation mode."""
        network = self._loaded[1]
        if isinstance(network, Segmenter):
            raise MaxsupError(
                f"run must be that of a classifier; got {str(self.run.path)!r}, which was trained on masks. "
                "Use maxsup eval, or maxsup analyze --what segmentation."
            )
        return network

    @property
    def segmenter(self) -> Segmenter:
        """The trained segmenter of a run on masks, in evaluation mode."""
        network = self._loaded[1]
        assert isinstance(network, Segmenter)
        return network

    @property
    def is_dense(self) -> bool:
        """Whether the run was trained on masks."""
        return self.recipe.model.name in SEGMENTERS

    @property
    def strength(self) -> Any:
        """What the recipe says of the strength of the loss; None where it leaves that to the loss or there is none."""
        name = LOSSES[self.loss].strength
        return None if name is None else self.recipe.loss.options.get(name)

    @property
    def head(self) -> tuple[Tensor, Tensor] | None:
        """Weight and bias with which the features give the logits; None for a head that is not affine."""
        if not self._splits:
            self.split("test")
        return self._head

    @property
    def weight(self) -> Tensor | None:
        """Class templates, ``(K, D)``, of an affine head."""
        return self.head[0] if self.head else None

    @property
    def bias(self) -> Tensor | None:
        """Of an affine head, ``(K,)``; zeros where it has none."""
        return self.head[1] if self.head else None

    @property
    def has_val(self) -> bool:
        """Whether some of the training data was held out."""
        return self.recipe.data.val_share > 0

    def facts(self, split: str) -> dict[str, Any]:
        """What identifies a result: loss, strength, data, model, seed, split, weights."""
        return {
            "label": self.label,
            "run": self.run.path.resolve().name,
            "loss": self.loss,
            "strength": self.strength,
            "dataset": self.recipe.data.name,
            "model": self.recipe.model.name,
            "seed": self.recipe.seed,
            "split": split,
            "weights": self.weights,
        }

    def split(self, name: str, data: str | None = None) -> Outputs:
        """Outputs for a split without augmentation, also of the training split.

        Args:
            name: ``train``, ``val`` or ``test``.
            data: Another registered data set; its images get the size, channels and normalisation of the run.
        """
        check_choice("split", name, SPLITS)
        if (data, name) not in self._splits:
            self._splits[data, name] = self._outputs(name, data)
        return self._splits[data, name]

    def data(self, name: str | None = None) -> DataBundle:
        """The run's own data, or other data as its model wants it."""
        return self.bundle if name is None else suited(self._other(name), self.bundle)

    def _outputs(self, name: str, data: str | None) -> Outputs:
        def make() -> tuple[Tensors, Any]:
            bundle = self.data(data)
            whole: Split = getattr(bundle, name)
            if len(whole) == 0:
                raise DataError(
                    f"{name} split of {bundle.name!r} must have at least one image; got none. "
                    "Train with data.val_share above 0, or choose another split."
                )
            pipeline = self.pipeline(limited(whole, MAX_IMAGES))
            self.progress.start(f"{self.label}: outputs of {bundle.name}, {name} split", pipeline.num_batches)
            tensors = extracted(self.model, pipeline, precision=self.recipe.precision, progress=self.progress)
            tensors["indices"] = limited_indices(whole, MAX_IMAGES)[tensors["indices"]]
            affine = affine_head(self.model.head, self.model.num_features)
            if affine is not None:
                tensors["weight"], tensors["bias"] = affine
            return tensors, {"class_names": list(bundle.class_names), "num_missing": pipeline.num_missing}

        tensors, notes = cached(self.output_path(name, data), self.output_key(name, data), make)
        if "weight" in tensors:
            self._head = tensors["weight"], tensors["bias"]
        columns = {key: tensors[key] for key in ("logits", "labels", "features", "indices")}
        return Outputs(**columns, class_names=tuple(notes["class_names"]), num_missing=notes["num_missing"])

    def output_path(self, split: str, data: str | None = None) -> Path:
        """Where outputs of a split are kept."""
        return (
            self.run.path / "outputs" / f"{file_name(data or self.recipe.data.name)}-{split}-{self.weights}.safetensors"
        )

    def output_key(self, split: str, data: str | None = None) -> dict[str, Any]:
        """All that outputs depend on, so that others are never taken for them."""
        return {
            **self.data_key(),
            **{key: getattr(self.recipe.augment, key) for key in _EVALUATION_KEYS},
            "precision": self.recipe.precision,
            "checkpoint": file_digest(self.run.weights(self.weights)),
            "target": data,
            "split": split,
            "limit": MAX_IMAGES,
        }

    def data_key(self) -> dict[str, Any]:
        """What the images of the run depend on."""
        items = flat_items({"data": self.recipe.data.model_dump(mode="json")})
        return {name: value for name, value in items.items() if name not in CIRCUMSTANCES}

    def pipeline(self, split: Split) -> Pipeline:
        """Batches of a split at the size and with the normalisation of the run, in order and without augmentation."""
        data, shape = self.recipe.data, self.bundle.image_shape
        if data.image_size is None and shape is not None and shape[1] == shape[2]:
            # Other data is brought to this size; of its own the run has no other.
            data = data.model_copy(update={"image_size": shape[1]})
        recipe = self.recipe.model_copy(update={"data": data})
        return split_pipeline(recipe, self.bundle, split, bad_files=self.run.path / "bad_files_outputs.csv")

    def _other(self, name: str) -> DataBundle:
        settings = self.recipe.data
        root = Path(settings.root) if settings.root else None
        return load_data(name, root=root, download=settings.download, split_seed=settings.split_seed)


def limited_indices(split: Split, limit: int | None) -> Tensor:
    """Indices of all images, or of a larger split of so many, the same share of every class."""
    if limit is None or len(split) <= limit:
        return torch.arange(len(split))
    return stratified_split(split.labels, limit / len(split), seed=0)[1]


def limited(split: Any, limit: int | None) -> Any:
    """A split, or of a larger one as many images, the same share of every class."""
    return split if limit is None or len(split) <= limit else split.subset(limited_indices(split, limit))


def suited(other: DataBundle, own: DataBundle) -> DataBundle:
    """Other data with the channels, the size and the normalisation of the data a model was trained on."""
    num_channels = len(own.mean)
    train, val, test = (
        _with_channels(split, num_channels, other.name) for split in (other.train, other.val, other.test)
    )
    return replace(other, train=train, val=val, test=test, mean=own.mean, std=own.std)


def _with_channels(split: Split, num_channels: int, name: str) -> Split:
    has = split.images.shape[1] if isinstance(split, MemorySplit) else 3
    if has == num_channels:
        return split
    if not isinstance(split, MemorySplit) or (has, num_channels) not in {(1, 3), (3, 1)}:
        raise DataError(
            f"{name!r} must have the {num_channels} channels the model was trained on; got {has}. Choose other data."
        )
    if has == 1:
        return replace(split, images=split.images.expand(-1, 3, -1, -1).contiguous())
    # As Pillow converts colour to grey.
    shares = torch.tensor(_LUMA).view(1, 3, 1, 1)
    grey = torch.cat([(part * shares).sum(1, keepdim=True).round() for part in split.images.split(4096)])
    return replace(split, images=grey.to(torch.uint8))


def label_runs(runs: Sequence[RunOutputs]) -> list[str]:
    """Names that tell runs apart: the loss, and of runs with the same loss what they differ in."""
    labels = [loss_look(run.loss).label for run in runs]
    facets = (
        [_strength_text(run.strength) for run in runs],
        [run.recipe.model.name for run in runs],
        [run.recipe.data.name for run in runs],
        [f"seed {run.recipe.seed}" for run in runs],
        [run.weights for run in runs],
        [run.run.path.resolve().name for run in runs],
        [str(run.run.path) for run in runs],
    )
    for facet in facets:
        groups: dict[str, set[str]] = {}
        for label, value in zip(labels, facet, strict=True):
            groups.setdefault(label, set()).add(value)
        if len(groups) == len(labels):
            break
        labels = [
            f"{label} {value}".strip() if len(groups[label]) > 1 else label
            for label, value in zip(labels, facet, strict=True)
        ]
    return labels


def _strength_text(strength: Any) -> str:
    if isinstance(strength, int | float):
        return f"{strength:g}"
    if isinstance(strength, dict):
        return " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in strength.values())
    return "" if strength is None else str(strength)
