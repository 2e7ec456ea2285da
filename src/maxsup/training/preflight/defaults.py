"""What a recipe leaves to the data: image size, network, weights, and the split of a folder that has none.

The size is that of the files: the median of their shorter sides, as it is up to 64 pixels, above that a multiple of 32
and at most 224. Thumbnails get a network of their own size, photographs a ResNet, and more images a larger one.
"""

from __future__ import annotations

from statistics import median

from maxsup.core.config import AUTO, Recipe
from maxsup.core.files.rundir import RunDir
from maxsup.core.recipes import run_recipe
from maxsup.data import DataBundle, FileSplit
from maxsup.data.survey import shorter_sides
from maxsup.models import MODELS
from maxsup.models.libraries.published import has_weights_here
from maxsup.training.builders import build_data

MAX_SIDE = 224
_LEAST_SIDE, _EXACT_SIDE, _STEP = 8, 64, 32
_THUMBNAIL = 40
_MANY_THUMBNAILS, _MANY_PHOTOS = 10_000, 50_000


def fitted(recipe: Recipe) -> tuple[Recipe, list[str]]:
    """The recipe with everything settled that it leaves to its data, and sentences that say what was chosen.

    A recipe that leaves nothing open comes back as it is, and its data is not looked at unless it is a folder.

    Raises:
        DataError: Where the data is not there or cannot be used.
    """
    model, data = recipe.model, recipe.data
    is_folder = data.name.partition(":")[0] == "folder"
    if not is_folder and AUTO not in (model.name, model.pretrained):
        return recipe, []
    bundle = build_data(recipe)
    size, words = data.image_size, list[str]()
    if size is None and isinstance(bundle.train, FileSplit):
        sides = shorter_sides(bundle.train)
        size = size_for(sides)
        seen = f"{min(sides)}" if min(sides) == max(sides) else f"{min(sides)} to {max(sides)}"
        words.append(f"images of {size} pixels (shorter sides of the files: {seen})")
    name, weights = model.name, model.pretrained
    if name == AUTO:
        name = network_for(size or _side(bundle), len(bundle.train))
    if weights == AUTO:
        weights = has_weights_here(name)
        words.append(f"{name} with published weights" if weights else _scratch(name))
    elif model.name == AUTO:
        words.append(name)
    settled = recipe.model_copy(
        update={
            "data": data.model_copy(update={"image_size": size, "options": {**data.options, **bundle.settled}}),
            "model": model.model_copy(update={"name": name, "pretrained": weights}),
        }
    )
    return settled, [*(["; ".join(words)] if words else []), *bundle.notes]


def settled_before(recipe: Recipe, run: RunDir) -> Recipe:
    """The recipe with what it leaves to the data as the run has it."""
    stored = run_recipe(run)
    data, model = recipe.data, recipe.model
    size, options = data.image_size or stored.data.image_size, {**stored.data.options, **data.options}
    network = {key: getattr(stored.model, key) for key in ("name", "pretrained") if getattr(model, key) == AUTO}
    return recipe.model_copy(
        update={
            "data": data.model_copy(update={"image_size": size, "options": options}),
            "model": model.model_copy(update=network),
        }
    )


def size_for(sides: list[int]) -> int:
    """The image size that fits files with these shorter sides.

    Example:
        >>> size_for([32, 32]), size_for([28]), size_for([500, 375, 140]), size_for([3000]), size_for([1])
        (32, 28, 224, 224, 8)
        >>> size_for([128, 130, 150])
        128
    """
    side = int(median(sides))
    if side > _EXACT_SIDE:
        side = min(side // _STEP * _STEP, MAX_SIDE)
    return max(side, _LEAST_SIDE)


def network_for(side: int, num_images: int) -> str:
    """A network for so many images of this size.

    Example:
        >>> network_for(32, 2_000), network_for(32, 50_000), network_for(224, 4_000), network_for(224, 10**6)
        ('small_cnn', 'resnet20', 'resnet18', 'resnet50')
    """
    if side <= _THUMBNAIL:
        return "small_cnn" if num_images < _MANY_THUMBNAILS else "resnet20"
    return "resnet18" if num_images < _MANY_PHOTOS else "resnet50"


def _scratch(name: str) -> str:
    if name in MODELS:
        return f"{name} from scratch; another network with model.name=NAME"
    return f"{name} from scratch: no published weights here; give model.pretrained=FILE"


def _side(bundle: DataBundle) -> int:
    return bundle.image_shape[1] if bundle.image_shape else MAX_SIDE
