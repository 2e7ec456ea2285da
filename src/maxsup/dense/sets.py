"""Data sets whose images have masks: ADE20K, CamVid, the trimaps of Oxford-IIIT Pet, and one that is drawn here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.errors import DataError
from maxsup.core.repro import mixed_seed
from maxsup.data.bundle import IGNORED_LABEL, MaskedImage, MaskSplit, stratified_split
from maxsup.data.optional_packages import require
from maxsup.data.registry import DATASETS, DataRequest, RawData, how_to_get, missing_data
from maxsup.data.sets.digits import digit_images
from maxsup.data.sets.synthetic import hue_to_rgb
from maxsup.dense.mask_files import MaskFileReader, paired_files

# Published masks are read by index: what a label means is known, whether a copy of the set has a palette or not.
_ADE20K_CLASSES = 150
_CAMVID_CLASSES = (
    "Sky",
    "Building",
    "Pole",
    "Road",
    "Pavement",
    "Tree",
    "SignSymbol",
    "Fence",
    "Car",
    "Pedestrian",
    "Bicyclist",
)
_TRIMAP_CLASSES = ("pet", "background", "border")


@DATASETS.register(
    "ade20k",
    images="20,210 + 2,000 files with masks, 150 classes",
    source="ADEChallengeData2016, Zhou et al. 2017",
    task="masks",
    places="ADEChallengeData2016",
)
def ade20k(request: DataRequest) -> RawData:
    """Scenes; the official validation images are the test split here, as in every paper.

    A mask holds 0 where nothing is labelled and 1 to 150 for the classes.
    """
    home = request.root / "ADEChallengeData2016"
    folders = [(home / "images" / part, home / "annotations" / part) for part in ("training", "validation")]
    if not all(folder.is_dir() for pair in folders for folder in pair):
        files = f"{home}/{{images,annotations}}/{{training,validation}}"
        raise missing_data(request, files, "Unpack ADEChallengeData2016.zip of http://sceneparsing.csail.mit.edu.")
    numbers = {0: IGNORED_LABEL, **{value: value - 1 for value in range(1, _ADE20K_CLASSES + 1)}}
    reader = MaskFileReader(numbers, "index")
    train, test = (MaskSplit(_pairs(request, *pair), reader, _ADE20K_CLASSES) for pair in folders)
    return RawData(train, test, _ade20k_names(home / "objectInfo150.txt"))


@DATASETS.register(
    "camvid",
    images="367 + 101 + 233 files with masks, 11 classes",
    source="Brostow et al. 2009",
    task="masks",
    places="camvid",
)
def camvid(request: DataRequest) -> RawData:
    """Frames from a driving car, with the validation split of SegNet; label 11 is ignored."""
    home = request.root / "camvid"
    folders = [(home / part / "images", home / part / "masks") for part in ("train", "val", "test")]
    if not all(folder.is_dir() for pair in folders for folder in pair):
        files = f"{home}/{{train,val,test}}/{{images,masks}}"
        raise missing_data(
            request, files, "Sort images and masks (grey, 0 to 11) into these folders, of one name each."
        )
    num_classes = len(_CAMVID_CLASSES)
    reader = MaskFileReader({**{value: value for value in range(num_classes)}, num_classes: IGNORED_LABEL}, "index")
    train, val, test = (MaskSplit(_pairs(request, *pair), reader, num_classes) for pair in folders)
    return RawData(train, test, _camvid_names(home / "meta.json"), val=val)


@DATASETS.register(
    "pets_trimaps",
    images="3,680 + 3,669 files with masks, 2 classes",
    source="Oxford-IIIT Pet, Parkhi et al. 2012",
    task="masks",
    places="oxford_pets/trimaps or oxford-iiit-pet",
)
def pets_trimaps(request: DataRequest, *, border: str = "ignore") -> RawData:
    """Cats and dogs against their background.

    Args:
        request: What is asked for.
        border: What becomes of the strip between both, label 3 of a mask: ``ignore`` it, or make it a ``class``.
    """
    if border not in ("ignore", "class"):
        raise ValueError(f"border must be ignore or class; got {border!r}. With class it is a third class.")
    names = _TRIMAP_CLASSES[: 3 if border == "class" else 2]
    reader = MaskFileReader({1: 0, 2: 1, 3: 2 if border == "class" else IGNORED_LABEL}, "index")
    train, test = (MaskSplit(pairs, reader, len(names)) for pairs in _trimap_pairs(request))
    return RawData(train, test, names)


def _trimap_pairs(request: DataRequest) -> list[list[tuple[str, str]]]:
    packed = request.root / "oxford_pets"
    if (packed / "trimaps").is_dir():
        return [_pairs(request, packed / "images" / part, packed / "trimaps" / part) for part in ("train", "test")]
    official = require("torchvision.datasets").OxfordIIITPet
    try:
        parts = [
            official(request.root, split=split, target_types="segmentation", download=request.download)
            for split in ("trainval", "test")
        ]
    except (RuntimeError, OSError) as error:
        home = request.root / "oxford-iiit-pet"
        files = f"{packed}/{{images,trimaps}}/{{train,test}}/<breed>/ or {home}/{{images, annotations/trimaps}}/"
        raise missing_data(request, files, how_to_get(request, error)) from error
    pairs = [[(str(one), str(other)) for one, other in zip(part._images, part._segs, strict=True)] for part in parts]
    for _, mask in (pair for part in pairs for pair in part):
        if not Path(mask).is_file():
            raise DataError(f"every image must have a mask; got no {mask}. Unpack annotations.tar.gz again.")
    return pairs


def _pairs(request: DataRequest, images: Path, masks: Path) -> list[tuple[str, str]]:
    pairs = paired_files(images, masks)
    if not pairs:
        raise missing_data(request, f"{images} and {masks}", "Both folders are empty: unpack the set again.")
    return pairs


def _ade20k_names(path: Path) -> tuple[str, ...]:
    """The first of the names that each class has, from a table with one class a line."""
    if not path.is_file():
        return tuple(str(number) for number in range(_ADE20K_CLASSES))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.strip()]
    names = tuple(re.split("[,;]", row[-1])[0].strip() for row in rows)
    if len(names) != _ADE20K_CLASSES:
        raise DataError(
            f"{path} must list {_ADE20K_CLASSES} classes under a line of titles; got {len(names)}. Remove it."
        )
    return names


def _camvid_names(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return _CAMVID_CLASSES
    count = len(_CAMVID_CLASSES)
    try:
        # The twelfth name is that of the ignored label.
        names = [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["classes"]][:count]
        got = "" if len(names) == count else str(len(names))
    except (ValueError, KeyError, TypeError) as error:
        got = repr(error)
    if got:
        raise DataError(
            f"{path} must hold the names of the {count} classes; got {got}. Remove it to use the usual ones."
        )
    return tuple(names)


# Synthetic masks. Sides of a digit relative to the canvas; from this much ink on a pixel belongs to the digit, and
# from this much on it is no background.
_SIDES = (0.3, 0.45)
_INK, _TRACE = 0.5, 0.2
_NUM_DIGITS = (2, 4)
_BACKGROUND, _NOISE = 0.4, 0.05
_TEST_SHARE = 0.4


@DATASETS.register(
    "synthetic_masks",
    images="360 + 40 + 100 of 3x64x64 with masks, 11 classes",
    source="drawn here from scikit-learn's digits",
    task="masks",
)
def synthetic_masks(
    request: DataRequest,
    *,
    num_train: int = 400,
    num_test: int = 100,
    size: int = 64,
    by_digit: bool = True,
    seed: int = 0,
) -> RawData:
    """Coloured digits on a noisy background; every pixel has its digit or the background as its class.

    The strip where a digit fades into the background is ignored. The same source digit is never in two splits.

    Args:
        request: What is asked for.
        num_train: Images to learn from and to choose by, together.
        num_test: Images that are only evaluated.
        size: Side of the images.
        by_digit: Whether each digit is a class of its own; else all of them are one, which is learnt much faster.
        seed: Seed of everything that is random about an image.
    """
    for name, value, least in (("num_train", num_train, 2), ("num_test", num_test, 1), ("size", size, 32)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value!r}. Raise it.")
    images, digits = digit_images()
    names = ("background", *"0123456789") if by_digit else ("background", "digit")
    labels = digits if by_digit else torch.zeros_like(digits)
    kept, test = stratified_split(digits, _TEST_SHARE, seed=0)
    train, val = (kept[part] for part in stratified_split(digits[kept], request.val_share, request.split_seed))
    num_val = max(1, round(request.val_share * num_train)) if request.val_share else 0
    splits = []
    for name, members, count in (
        ("train", train, num_train - num_val),
        ("val", val, num_val),
        ("test", test, num_test),
    ):
        glyphs = images[members].float() / 255
        drawn = [
            (f"{name} image {number}", *_scene(glyphs, labels[members], size, mixed_seed(seed, name, number)))
            for number in range(count)
        ]
        splits.append(MaskSplit(drawn, _drawn_image, len(names), place="memory"))
    return RawData(splits[0], splits[2], names, val=splits[1] if num_val else None)


def _drawn_image(sample: tuple[str, NDArray[np.uint8], NDArray[np.uint8]]) -> MaskedImage:
    name, pixels, mask = sample
    return MaskedImage(require("PIL.Image").fromarray(pixels), mask, name)


def _scene(glyphs: Tensor, labels: Tensor, size: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """An image ``(H, W, 3)`` and its mask; later digits cover earlier ones."""
    dice = torch.Generator().manual_seed(seed)
    # Patches of colour, so that no threshold tells a digit from its background.
    canvas = F.interpolate(torch.rand(1, 3, 5, 5, generator=dice) * _BACKGROUND, size, mode="bilinear")[0]
    mask = torch.zeros(size, size, dtype=torch.uint8)
    for _ in range(int(torch.randint(_NUM_DIGITS[0], _NUM_DIGITS[1] + 1, (), generator=dice))):
        chosen = int(torch.randint(len(labels), (), generator=dice))
        hue, length, top, left = torch.rand(4, generator=dice)
        side = round(size * (_SIDES[0] + (_SIDES[1] - _SIDES[0]) * float(length)))
        ink = F.interpolate(glyphs[chosen : chosen + 1], side, mode="bilinear")[0]
        rows, columns = (
            slice(start, start + side) for start in (int(part * (size - side + 1)) for part in (top, left))
        )
        part = canvas[:, rows, columns]
        canvas[:, rows, columns] = torch.lerp(part, hue_to_rgb(hue).view(3, 1, 1).expand_as(part), ink)
        region = mask[rows, columns]
        region[ink[0] >= _TRACE] = IGNORED_LABEL
        region[ink[0] >= _INK] = int(labels[chosen]) + 1
    canvas += _NOISE * torch.randn(canvas.shape, generator=dice)
    pixels = canvas.clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0)
    return np.ascontiguousarray(pixels.numpy()), mask.numpy()
