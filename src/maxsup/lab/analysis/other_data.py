"""Other data for a checkpoint than what it is judged on: images of another kind, or a task to transfer to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from maxsup.core.errors import DataError
from maxsup.lab.analysis.extraction import Tensors, extracted, limited, suited
from maxsup.lab.analysis.outputs import MAX_IMAGES
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.display import Display
from maxsup.lab.data import DataBundle, LabelledSplit, load_data
from maxsup.lab.data.registry import data_root, local_path
from maxsup.lab.data.sets.class_folders import split_folders
from maxsup.lab.models import Classifier, Program
from maxsup.lab.training.builders import split_pipeline


class OtherData:
    """Other data with the channels, size and normalisation of a network's own.

    Args:
        name: A registered data set, or ``folder:PATH`` with one folder for each class.
        recipe: The resolved recipe of the network's own data.
        own: The network's own data.
        is_whole: Take all images of a folder without splits as its test split.
    """

    def __init__(self, name: str, recipe: Recipe, own: DataBundle, *, is_whole: bool = False) -> None:
        self.name, settings, options = name, recipe.data, dict[str, float]()
        root = Path(settings.root) if settings.root else None
        place = folder_without_splits(name, settings.root, None) if is_whole else None
        source = name if place is None else f"folder:{place.resolve()}"
        if place is not None:
            options["test_share"] = 1.0
        bundle = load_data(source, root=root, download=settings.download, split_seed=settings.split_seed, **options)
        if not isinstance(bundle.train, LabelledSplit):
            raise DataError(
                f"{name} must have one label per image; got {bundle.train.describe()}. Choose other data.",
                code="bad-data",
            )
        self.bundle = suited(bundle, own)
        shape = own.image_shape
        if settings.image_size is None and shape is not None and shape[1] == shape[2]:
            recipe = recipe.changed(data={"image_size": shape[1]})
        self._recipe = recipe

    def check_classes(self, own: Iterable[str]) -> None:
        """Refuse images of classes that a network has: they are not of another kind."""
        if shared := shared_classes(own, self.bundle.class_names):
            raise DataError(
                f"images of another kind must be of other classes; got {self.name}, which has classes of the network "
                f"({shared}). Leave those classes out.",
                code="shared-classes",
            )

    def outputs(self, network: Classifier | Program, split: str, *, label: str, progress: Display) -> Tensors:
        """Return logits, features and labels of the images of a split, at most 50,000."""
        images = getattr(self.bundle, split)
        if len(images) == 0:
            raise DataError(
                f"{split} split of {self.name!r} must have at least one image; got none. Choose other data.",
                code="empty-split",
            )
        pipeline = split_pipeline(self._recipe, self.bundle, limited(images, MAX_IMAGES))
        progress.start(f"{label}: outputs of {self.name}, {split} split", pipeline.num_batches)
        return extracted(network, pipeline, precision=self._recipe.precision, progress=progress)


def shared_classes(own: Iterable[str], others: Iterable[str]) -> str:
    """Return the names of classes that both have, at most three, or an empty string.

    Example:
        >>> shared_classes(["Cat", "dog"], ["cat", "cow"])
        'cat'
    """
    shared = sorted({*map(str.lower, own)} & {*map(str.lower, others)})
    return ", ".join(shared[:3]) + (" and more" if len(shared) > 3 else "")


def folder_without_splits(name: str, root: str | None, split: str | None) -> Path | None:
    """Return the folder of images to evaluate if the data has no training split, else None."""
    kind, _, argument = name.partition(":")
    home = local_path(argument, data_root(root))
    if kind != "folder" or not home.is_dir() or "train" in (parts := split_folders(home)):
        return None
    if split is not None and split not in parts:
        there = ", ".join(parts) or "none"
        raise DataError(f"split must be a folder of {home} ({there}); got {split!r}. Leave split out.", code="bad-data")
    return parts[split] if split else parts.get("test", parts.get("val", home))
