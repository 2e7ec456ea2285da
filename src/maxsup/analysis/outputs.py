"""What the model of a run says about labelled samples, extracted once and shared by all analyses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from maxsup.analysis.channels import suited
from maxsup.analysis.extraction import Tensors, affine_head, cached, extracted
from maxsup.analysis.result_files import data_label, file_name
from maxsup.core.checks import check_choice
from maxsup.core.config import CIRCUMSTANCES, AugmentConfig, flat_items
from maxsup.core.display import Display
from maxsup.core.errors import DataError, MaxsupError
from maxsup.core.files.reading import file_digest
from maxsup.core.files.rundir import RunDir
from maxsup.core.recipes import run_recipe
from maxsup.data import DataBundle, Pipeline, Split, load_data, stratified_split
from maxsup.diagnosis.outputs import Outputs
from maxsup.figures.style import loss_look
from maxsup.losses import LOSSES
from maxsup.models import SEGMENTERS, Classifier, Segmenter
from maxsup.training import load_run
from maxsup.training.builders import split_pipeline
from maxsup.training.reading import SPLITS, WEIGHTS

MAX_IMAGES = 50_000
"""A larger split is reduced to so many images, the same share of every class; as many as ImageNet's validation set."""


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
            kept = _kept(whole, MAX_IMAGES)
            tensors["indices"] = tensors["indices"] if kept is None else kept[tensors["indices"]]
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
        source = flat_items({"data": self.recipe.data.model_dump(mode="json")})
        return {
            **{name: value for name, value in source.items() if name not in CIRCUMSTANCES},
            **_evaluation_settings(self.recipe.augment),
            "precision": self.recipe.precision,
            "checkpoint": file_digest(self.run.weights(self.weights)),
            "target": data,
            "split": split,
            "limit": MAX_IMAGES,
        }

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


def _evaluation_settings(augment: AugmentConfig) -> dict[str, Any]:
    return {name: getattr(augment, name) for name in ("crop_pct", "crop_mode", "interpolation", "mean", "std")}


def _kept(split: Split, limit: int | None) -> Tensor | None:
    """Indices of the images to take; None for all of them."""
    if limit is None or len(split) <= limit:
        return None
    return stratified_split(split.labels, limit / len(split), seed=0)[1]


def limited(split: Any, limit: int | None) -> Any:
    """A split, or of a larger one as many images, the same share of every class."""
    kept = _kept(split, limit)
    return split if kept is None else split.subset(kept)
