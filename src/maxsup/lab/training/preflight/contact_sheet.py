"""A contact sheet: images as stored, as training sees them, and as evaluation sees them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files.storage import failed_write
from maxsup.lab.data import DataBundle, LabelledSplit, MemorySplit
from maxsup.lab.data.pipelines.decoding import BadImageError, read_image
from maxsup.lab.training.builders import split_pipeline
from maxsup.lab.training.preprocessing import resolve_preprocessing, visible_pixels

_NUM_IMAGES, _NUM_DRAWS = 10, 4
_CELL, _GAP, _HEAD, _NAME = 112, 6, 22, 150


def write_sheet(recipe: Recipe, bundle: DataBundle, path: Path) -> None:
    """Save a picture with a row for each of some training images: stored, augmented several times, evaluated."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    if path.suffix.lower() != ".png":
        raise ValueError(f"sheet must be a .png file; got {str(path)!r}. Write {path.with_suffix('.png')}.")
    if not isinstance(bundle.train, LabelledSplit):
        raise DataError(
            f"a sheet shows images with one label each; got {bundle.train.describe()}. Leave it out.", code="wrong-task"
        )
    recipe = resolve_preprocessing(recipe)
    split = bundle.train.subset(_choose_images(bundle.train))
    in_data = {"num_workers": 0, "tolerance": 1.0, "drop_last": False}
    alone = recipe.changed(batch_size=len(split), iterations=None, data=in_data)
    rounds = [_prepare_images(alone, bundle, split, epoch) for epoch in (*range(_NUM_DRAWS), None)]
    titles = ["file", *["training"] * _NUM_DRAWS, "evaluation"]
    width, height = _NAME + len(titles) * (_CELL + _GAP), _HEAD + len(split) * (_CELL + _GAP)
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    # The font of Pillow has no letters beyond ASCII, and classes are named in every language.
    draw.font = ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), 10)
    for column, title in enumerate(titles):
        draw.text((_NAME + column * (_CELL + _GAP), 4), title, fill="black")
    for row in range(len(split)):
        top = _HEAD + row * (_CELL + _GAP)
        name = bundle.class_names[int(split.labels[row])]
        draw.text((4, top + 4), name[:22], fill="black")
        for column, image in enumerate([_original(split, row), *(found.get(row) for found in rounds)]):
            place = (_NAME + column * (_CELL + _GAP), top)
            if image is None:
                draw.text(place, "unreadable", fill="red")
            else:
                sheet.paste(_scale(image), place)
    try:
        sheet.save(path)
    except OSError as error:
        raise failed_write(path, width * height, 0, error) from error


def _choose_images(split: LabelledSplit) -> Tensor:
    """Choose some images, from as many classes as possible; return their indices."""
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    labels = split.labels[order].tolist()
    rank = {index: labels[:index].count(labels[index]) for index in range(min(len(labels), 50 * _NUM_IMAGES))}
    first = sorted(rank, key=lambda index: (rank[index], labels[index]))[:_NUM_IMAGES]
    return order[torch.tensor(sorted(first, key=lambda index: labels[index]), dtype=torch.int64)]


def _prepare_images(recipe: Recipe, bundle: DataBundle, split: LabelledSplit, epoch: int | None) -> dict[int, Any]:
    """Return the images that the network gets, by index: augmented as in ``epoch``, or as in evaluation."""
    pipeline = split_pipeline(recipe, bundle, split, is_training=epoch is not None)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the sheet itself shows which images could not be read
        batches = list(pipeline.epoch(epoch or 0))
    for batch in batches:
        for index, image in zip(batch.indices.tolist(), visible_pixels(batch.images, bundle), strict=True):
            found[index] = _picture(image)
    return found


def _original(split: LabelledSplit, index: int) -> Any:
    if isinstance(split, MemorySplit):
        return _picture(split.images[index])
    source = split.samples[index][0]
    try:
        return read_image(split.opener(source) if split.opener else source)[0]
    except BadImageError:
        return None


def _picture(pixels: Tensor) -> Any:
    from PIL import Image

    return Image.fromarray(pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy())


def _scale(image: Any) -> Any:
    """Scale an image to a cell, with its proportions; small ones show their pixels."""
    from PIL import Image

    factor = _CELL / max(image.size)
    sides = tuple(max(round(side * factor), 1) for side in image.size)
    return image.resize(sides, Image.Resampling.NEAREST if factor > 1 else Image.Resampling.LANCZOS)
