"""Outputs of the model of a run on labelled samples, computed once and shared by all analyses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from maxsup.core.checks import check_choice
from maxsup.core.errors import DataError, MaxsupError
from maxsup.diagnosis.outputs import Outputs
from maxsup.lab.analysis.extraction import affine_head, extracted, keep, limited, limited_indices, read_kept, suited
from maxsup.lab.analysis.result_files import data_label, file_name
from maxsup.lab.core.config import Recipe, experiment_items
from maxsup.lab.core.display import Display
from maxsup.lab.core.files.reading import file_digest
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.files.storage import kept_if_possible
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.data import DataBundle, Pipeline, Split, load_data
from maxsup.lab.figures.style import loss_look
from maxsup.lab.models import Classifier
from maxsup.lab.tasks import task_of_model
from maxsup.lab.training import load_run, train
from maxsup.lab.training.builders import split_pipeline
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.reading import SPLITS, WEIGHTS
from maxsup.losses import LOSSES

MAX_IMAGES = 50_000
"""Largest number of images used of a split, the same share of every class: the size of ImageNet's validation set."""

_EVALUATION_KEYS = ("crop_pct", "crop_mode", "interpolation", "mean", "std")


class RunOutputs:
    """Outputs of a run on its own data and on other data.

    Everything is read or computed on first use. Outputs are cached in ``RUN/outputs`` and reused as long as weights and
    data are the same.

    Args:
        path: A run directory.
        weights: ``last``, or ``best`` on the validation split.
        overrides: Changes ``key.sub=value`` of the recipe, for instance the new place of the data.
        label: Label of the run; by default the name of its loss.
        progress: Progress display of forward passes.
        loaded: Data and model of the run, if they are loaded already.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        weights: str = "last",
        overrides: Iterable[str] = (),
        label: str | None = None,
        progress: Display | None = None,
        loaded: tuple[DataBundle, nn.Module] | None = None,
    ) -> None:
        check_choice("weights", weights, WEIGHTS)
        self.run = RunDir(path).require()
        self.weights = weights
        self.overrides = tuple(overrides)
        own, recipe = (run_recipe(self.run, words) for words in ((), self.overrides))
        self.recipe = resolve_preprocessing(recipe)
        before, after = (data_label(recipe.data.name, recipe.data.options) for recipe in (own, self.recipe))
        self.other_data = None if before == after else after
        self.loss = self.recipe.loss.name
        self.label = label or loss_look(self.loss).label
        self.progress = progress or Display()
        self._splits: dict[tuple[str | None, str], Outputs] = {}
        self._head: tuple[Tensor | None, Tensor | None] = (None, None)
        if loaded is not None:
            self._loaded = loaded

    @cached_property
    def _loaded(self) -> tuple[DataBundle, nn.Module]:
        return load_run(self.run.path, weights=self.weights, overrides=self.overrides)[1:]

    @property
    def bundle(self) -> DataBundle:
        """The data the run was trained on, with its normalisation."""
        return self._loaded[0]

    @property
    def model(self) -> Classifier:
        """The trained classifier, in evaluation mode."""
        network = self._loaded[1]
        if not isinstance(network, Classifier):
            raise MaxsupError(
                f"run must be that of a classifier; got {str(self.run.path)!r}, a run of {self.task}. "
                f"Use maxsup eval, or an analysis of {self.task}.",
                code="wrong-task",
            )
        return network

    @property
    def network(self) -> nn.Module:
        """The trained network of any task, in evaluation mode."""
        return self._loaded[1]

    @property
    def task(self) -> str:
        """The name of the run's task (``maxsup.lab.tasks``)."""
        return task_of_model(self.recipe.model.name).name

    @property
    def has_val(self) -> bool:
        """True if part of the training data was held out."""
        return self.recipe.data.val_share > 0

    @property
    def strength(self) -> Any:
        """The strength of the loss as the recipe sets it, or None if the recipe or the loss has none."""
        name = LOSSES[self.loss].strength
        return None if name is None else self.recipe.loss.options.get(name)

    @property
    def weight(self) -> Tensor | None:
        """Weight of the head, ``(K, D)``, or None if the head is not an affine map of the features."""
        return self._affine_head()[0]

    @property
    def bias(self) -> Tensor | None:
        """Bias of an affine head, ``(K,)``, zeros if it has none."""
        return self._affine_head()[1]

    def _affine_head(self) -> tuple[Tensor | None, Tensor | None]:
        if not self._splits:
            self.split("test")
        return self._head

    def facts(self, split: str) -> dict[str, Any]:
        """Return the settings that identify a result."""
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

    def data(self, name: str | None = None) -> DataBundle:
        """Return the run's own data, or another data set with the channels and the normalisation of the run."""
        if name is None:
            return self.bundle
        settings = self.recipe.data
        root = Path(settings.root) if settings.root else None
        other = load_data(name, root=root, download=settings.download, split_seed=settings.split_seed)
        return suited(other, self.bundle)

    def split(self, name: str, data: str | None = None) -> Outputs:
        """Return outputs on a split without augmentation, of the run's own data or of other data (:meth:`data`)."""
        check_choice("split", name, SPLITS)
        if (data, name) not in self._splits:
            self._splits[data, name] = self._outputs(name, data)
        return self._splits[data, name]

    def features(self, name: str, data: str | None = None) -> tuple[Tensor, Tensor]:
        """Return features ``(N, D)`` and labels ``(N,)`` of :meth:`split`."""
        outputs = self.split(name, data)
        assert outputs.features is not None
        return outputs.features, outputs.labels

    def _outputs(self, name: str, data: str | None) -> Outputs:
        path, key = self.output_path(name, data), self.output_key(name, data)
        kept = read_kept(path, key)
        if kept is None:
            kept = self._extract(name, self.data(data))
            with kept_if_possible("outputs are"):
                keep(path, key, *kept)
        tensors, notes = kept
        self._head = tensors.get("weight"), tensors.get("bias")
        columns = {key: tensors[key] for key in ("logits", "labels", "features", "indices")}
        return Outputs(**columns, class_names=tuple(notes["class_names"]), num_missing=notes["num_missing"])

    def _extract(self, name: str, bundle: DataBundle) -> tuple[dict[str, Tensor], dict[str, Any]]:
        whole: Split = getattr(bundle, name)
        if len(whole) == 0:
            raise DataError(
                f"{name} split of {bundle.name!r} must have at least one image; got none. "
                "Train with data.val_share above 0, or choose another split.",
                code="empty-split",
            )
        pipeline = self.pipeline(limited(whole, MAX_IMAGES))
        self.progress.start(f"{self.label}: outputs of {bundle.name}, {name} split", pipeline.num_batches)
        tensors = extracted(self.model, pipeline, precision=self.recipe.precision, progress=self.progress)
        tensors["indices"] = limited_indices(whole, MAX_IMAGES)[tensors["indices"]]
        if affine := affine_head(self.model.head, self.model.num_features):
            tensors["weight"], tensors["bias"] = affine
        return tensors, {"class_names": list(bundle.class_names), "num_missing": pipeline.num_missing}

    def output_path(self, split: str, data: str | None = None) -> Path:
        """Return the path of the cached outputs of a split."""
        name = f"{file_name(data or self.recipe.data.name)}-{split}-{self.weights}.safetensors"
        return self.run.path / "outputs" / name

    def output_key(self, split: str, data: str | None = None) -> dict[str, Any]:
        """Return everything that outputs depend on. Outputs cached under another key are not used."""
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
        """Return the settings that the images of the run depend on."""
        return {key: value for key, value in experiment_items(self.recipe).items() if key.startswith("data.")}

    def pipeline(self, split: Split) -> Pipeline:
        """Return ordered batches of a split, with the size and normalisation of the run and without augmentation."""
        recipe, shape = self.recipe, self.bundle.image_shape
        if recipe.data.image_size is None and shape is not None and shape[1] == shape[2]:
            # Resize other data to this size, which the run's own data has already.
            recipe = recipe.changed(data={"image_size": shape[1]})
        return split_pipeline(recipe, self.bundle, split, bad_files=self.run.path / "bad_files_outputs.csv")

    def trained(self, plan: Recipe, folder: Path, *, name: str, what: str) -> RunOutputs:
        """Train another network that an analysis needs, in a folder of this run, and return its outputs.

        Training runs once and resumes after an interruption. ``name`` is the name of the recipe in the summary, and
        ``what`` is printed at the start.
        """
        if not RunDir(folder).summary.is_file():
            self.progress.say(f"{self.label}: {what} in {folder}")
            train(plan, folder, name=name, reporter=Reporter(self.progress))
        words = [f"data.root={plan.data.root}"] if plan.data.root else []
        return RunOutputs(folder, overrides=words, label=self.label, progress=self.progress)
