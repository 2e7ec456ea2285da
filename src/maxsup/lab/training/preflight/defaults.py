"""Settings that a recipe leaves to the data: image size, network, weights, and the split of a folder without one.

The size is the median of the shorter sides of the files: unchanged up to 64 pixels, above that a multiple of 32 and at
most 224. Thumbnails get a network for their size, photographs a ResNet, and more images a larger network.
"""

from __future__ import annotations

from statistics import median

from maxsup.lab.core.config import AUTO, Recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.data import FileSplit
from maxsup.lab.data.survey import shorter_sides
from maxsup.lab.models import MODELS
from maxsup.lab.models.libraries.pretrained import has_weights_here
from maxsup.lab.training.builders import build_data

MAX_SIDE = 224
_LEAST_SIDE, _EXACT_SIDE, _STEP = 8, 64, 32
_THUMBNAIL = 40
_MANY_THUMBNAILS, _MANY_PHOTOS = 10_000, 50_000


def settle_recipe(recipe: Recipe) -> tuple[Recipe, list[str]]:
    """Choose the settings that a recipe leaves to the data; return it and sentences about the choices.

    A recipe that leaves nothing open is returned as it is, and only a folder of data is looked at.
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
        name = network_for(size or (bundle.image_shape or (0, MAX_SIDE))[1], len(bundle.train))
    if weights == AUTO:
        weights = has_weights_here(name)
        if weights:
            words.append(f"{name} with published weights")
        elif name in MODELS:
            words.append(f"{name} from scratch; another network with model.name=NAME")
        else:
            words.append(f"{name} from scratch: no published weights here; give model.pretrained=FILE")
    elif model.name == AUTO:
        words.append(name)
    settled = recipe.changed(
        data={"image_size": size, "options": {**data.options, **bundle.settled}},
        model={"name": name, "pretrained": weights},
    )
    return settled, [*(["; ".join(words)] if words else []), *bundle.notes]


def settle_from_run(recipe: Recipe, run: RunDir) -> Recipe:
    """Take the settings that a recipe leaves to the data from the run."""
    stored = run_recipe(run)
    size, options = recipe.data.image_size or stored.data.image_size, {**stored.data.options, **recipe.data.options}
    network = {key: getattr(stored.model, key) for key in ("name", "pretrained") if getattr(recipe.model, key) == AUTO}
    return recipe.changed(data={"image_size": size, "options": options}, model=network)


def size_for(sides: list[int]) -> int:
    """Choose the image size for files with these shorter sides.

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
    """Choose a network for ``num_images`` images of this size.

    Example:
        >>> network_for(32, 2_000), network_for(32, 50_000), network_for(224, 4_000), network_for(224, 10**6)
        ('small_cnn', 'resnet20', 'resnet18', 'resnet50')
    """
    if side <= _THUMBNAIL:
        return "small_cnn" if num_images < _MANY_THUMBNAILS else "resnet20"
    return "resnet18" if num_images < _MANY_PHOTOS else "resnet50"
