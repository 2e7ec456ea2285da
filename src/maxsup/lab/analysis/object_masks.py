"""Masks of the object in an image, for scoring maps.

Masks are a folder of PNG files or a ``.csv`` file of boxes.

- **Folder**: a mask has the size of its image, and its path matches the end of the image's path: the mask of
  ``.../test/beagle/7.jpg`` is ``test/beagle/7.png``, else ``beagle/7.png``, else ``7.png``. Images in memory are
  numbered: ``0.png`` is the first image of the split. A mask with no values but 1, 2 and 3 is a trimap: object,
  background, and a border that is not scored. In any other mask every value but 0 is object.
- **Boxes**: lines ``image,x0,y0,x1,y1`` below a header with these names, in pixels, ``x1`` and ``y1`` exclusive.
  Several boxes of an image form one object.

Two data sets need neither: ``pets`` has trimaps, and in ``synthetic`` the ink follows from the known background.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxsup.core.errors import DataError
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.data import LabelledSplit, MemorySplit, data_root
from maxsup.lab.data.pipelines.decoding import BadImageError, read_image
from maxsup.lab.data.pipelines.transforms import evaluation_transform

BACKGROUND, OBJECT, IGNORED = 0, 1, 2

Masks = Callable[[int], Tensor]
"""From an index in a split to codes ``(H, W)``, of the size of the model's input."""

_TRIMAP = {1: OBJECT, 2: BACKGROUND, 3: IGNORED}
_HEADER = ["image", "x0", "y0", "x1", "y1"]
# The brightest channel of ink is 1; the background is at most 0.3, with noise of standard deviation 0.03.
_INK = 0.15


def find_masks(run: RunOutputs, split: str, masks: str | None) -> Masks | None:
    """Return the masks of a split from a folder, a ``.csv`` file or the data set, or None if there are none."""
    images: LabelledSplit = getattr(run.bundle, split)
    if masks is None:
        if isinstance(images, MemorySplit):
            return partial(_ink_mask, images) if run.bundle.name == "synthetic" else None
        trimaps = data_root(run.recipe.data.root) / "oxford-iiit-pet" / "annotations" / "trimaps"
        if run.bundle.name != "pets" or not trimaps.is_dir():
            return None
        masks = str(trimaps)
    place = Path(masks)
    if place.suffix == ".csv":
        find = partial(_box_mask, place, _read_boxes(place), images)
    elif place.is_dir():
        find = partial(_file_mask, place, images)
    else:
        raise DataError(
            f"masks must be a folder of images or a .csv file ({', '.join(_HEADER)}) that exists; got {masks!r}. "
            "Check the path.",
            code="model-not-found",
        )
    fit = _fit(run, images)
    return lambda index: fit(find(index))


def _file_mask(folder: Path, images: LabelledSplit, index: int) -> NDArray[np.uint8]:
    tried = [folder / f"{name}.png" for name in _mask_names(images, index)]
    path = next((path for path in tried if path.is_file()), None)
    if path is None:
        raise DataError(
            f"mask of image {index} must be at {tried[0]}. Add that file or leave masks out.", code="bad-masks"
        )
    try:
        pixels = np.asarray(read_image(path)[0]).max(axis=2)
    except BadImageError as error:
        raise DataError(f"{path} must be a readable mask; got {error}. Write it again.", code="bad-masks") from error
    if set(np.unique(pixels)) <= set(_TRIMAP):
        return np.select([pixels == stored for stored in _TRIMAP], list(_TRIMAP.values())).astype(np.uint8)
    return (pixels > 0).astype(np.uint8) * OBJECT


def _read_boxes(path: Path) -> dict[str, list[list[float]]]:
    """Read the corners of all boxes, by name of the image without its suffix."""
    boxes: dict[str, list[list[float]]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            if header != _HEADER:
                raise DataError(
                    f"{path} must start with {','.join(_HEADER)}; got {','.join(header)!r}. Add it.", code="bad-masks"
                )
            for name, *corners in rows:
                if len(corners) != 4:
                    raise ValueError(f"{len(corners)} numbers in a line")
                boxes.setdefault(str(PurePath(name).with_suffix("")), []).append([float(word) for word in corners])
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(
            f"{path} must hold one box per line; got {error}. Write image,x0,y0,x1,y1.", code="bad-masks"
        ) from error
    return boxes


def _box_mask(path: Path, boxes: dict[str, list[list[float]]], images: Any, index: int) -> NDArray[np.uint8]:
    names = _mask_names(images, index)
    found = next((boxes[name] for name in names if name in boxes), None)
    if found is None:
        raise DataError(f"{path} must have a box for image {names[0]!r}. Add it or leave masks out.", code="bad-masks")
    if isinstance(images, MemorySplit):
        height, width = images.images.shape[2:]
    else:
        source = images.samples[index][0]
        width, height = read_image(images.opener(source) if images.opener else source)[0].size
    codes = np.zeros((height, width), dtype=np.uint8)
    for left, top, right, bottom in found:
        codes[max(0, round(top)) : round(bottom), max(0, round(left)) : round(right)] = OBJECT
    return codes


def _ink_mask(images: MemorySplit, index: int) -> Tensor:
    brightest = images.images[index].amax(dim=0).float() / 255
    return (brightest > images.factors["background"][index] + _INK).to(torch.uint8) * OBJECT


def _fit(run: RunOutputs, images: LabelledSplit) -> Callable[[NDArray[np.uint8]], Tensor]:
    """Return a function that resizes and crops a mask like its image, without interpolating its codes."""
    from PIL import Image

    recipe, augment = run.recipe, run.recipe.augment.model_copy(update={"interpolation": "nearest"})
    size = recipe.data.image_size
    if not isinstance(images, MemorySplit) or (augment.crop_pct or 1.0) < 1.0:
        assert size is not None or isinstance(images, MemorySplit)
        transform = evaluation_transform(augment, size or images.images.shape[2])  # type: ignore[union-attr]
        return lambda codes: transform(Image.fromarray(codes))[0]
    sides = (size, size) if size else tuple(images.images.shape[2:])

    def resize(codes: NDArray[np.uint8]) -> Tensor:
        mask = torch.from_numpy(codes)[None, None]
        return torch.nn.functional.interpolate(mask, sides, mode="nearest-exact")[0, 0]

    return resize


def _mask_names(images: LabelledSplit, index: int) -> list[str]:
    """Return possible names of a mask without a suffix, the most specific first."""
    if isinstance(images, MemorySplit):
        return [str(index)]
    parts = PurePath(str(images.samples[index][0])).with_suffix("").parts
    return [str(PurePath(*parts[-count:])) for count in range(min(3, len(parts)), 0, -1)]
