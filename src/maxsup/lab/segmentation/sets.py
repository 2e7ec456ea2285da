"""Data sets whose images have masks in files: ADE20K, CamVid, the trimaps of Oxford-IIIT Pet, and folders of yours."""

from __future__ import annotations

import json
import re
from pathlib import Path

from maxsup.core.errors import DataError
from maxsup.core.installation import imported
from maxsup.lab.core.files.reading import read_words
from maxsup.lab.data.bundle import IGNORED_LABEL
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, how_to_get, missing_data
from maxsup.lab.data.sets.folder import FOLDERS, has_masks
from maxsup.lab.segmentation.mask_files import MaskFileReader, Palette, pair_files
from maxsup.lab.segmentation.masks import MaskSplit

# Published masks are read by index: what a label means is known, whether a copy of the set has a palette or not.
_ADE20K_CLASSES = 150
_CAMVID_CLASSES = (
    *("Sky", "Building", "Pole", "Road", "Pavement", "Tree"),
    *("SignSymbol", "Fence", "Car", "Pedestrian", "Bicyclist"),
)
_TRIMAP_CLASSES = ("pet", "background", "border")
_MAX_LABEL = 2**16 - 1


@DATASETS.register(
    "ade20k",
    images="20,210 + 2,000 files with masks, 150 classes",
    source="ADEChallengeData2016, Zhou et al. 2017",
    task="segmentation",
    places="ADEChallengeData2016",
)
def ade20k(request: DataRequest) -> RawData:
    """Scenes; the official validation images are the test split here, as in every paper.

    A mask holds 0 where nothing is labelled and 1 to 150 for the classes.
    """
    home = request.root / "ADEChallengeData2016"
    pairs = [(home / "images" / part, home / "annotations" / part) for part in ("training", "validation")]
    files = f"{home}/{{images,annotations}}/{{training,validation}}"
    _check_folders(request, pairs, files, "Unpack ADEChallengeData2016.zip of http://sceneparsing.csail.mit.edu.")
    numbers = {0: IGNORED_LABEL, **{value: value - 1 for value in range(1, _ADE20K_CLASSES + 1)}}
    train, test = _splits(request, pairs, MaskFileReader(numbers, "index"))
    return RawData(train, test, _ade20k_names(home / "objectInfo150.txt"))


@DATASETS.register(
    "camvid",
    images="367 + 101 + 233 files with masks, 11 classes",
    source="Brostow et al. 2009",
    task="segmentation",
    places="camvid",
)
def camvid(request: DataRequest) -> RawData:
    """Frames from a driving car, with the validation split of SegNet; label 11 is ignored."""
    home = request.root / "camvid"
    pairs = [(home / part / "images", home / part / "masks") for part in ("train", "val", "test")]
    fix = "Sort images and masks (grey, 0 to 11) into these folders, of one name each."
    _check_folders(request, pairs, f"{home}/{{train,val,test}}/{{images,masks}}", fix)
    reader = _identity_reader(len(_CAMVID_CLASSES), len(_CAMVID_CLASSES), "index")
    train, val, test = _splits(request, pairs, reader)
    return RawData(train, test, _camvid_names(home / "meta.json"), val=val)


@DATASETS.register(
    "pets_trimaps",
    images="3,680 + 3,669 files with masks, 2 classes",
    source="Oxford-IIIT Pet, Parkhi et al. 2012",
    task="segmentation",
    places="oxford_pets/trimaps or oxford-iiit-pet",
)
def pets_trimaps(request: DataRequest, *, border: str = "ignore") -> RawData:
    """Cats and dogs against their background.

    Args:
        request: What is asked for.
        border: The strip between both, label 3 of a mask: ``ignore`` it, or make it a ``class``.
    """
    if border not in ("ignore", "class"):
        raise ValueError(f"border must be ignore or class; got {border!r}. With class it is a third class.")
    names = _TRIMAP_CLASSES[: 3 if border == "class" else 2]
    reader = MaskFileReader({1: 0, 2: 1, 3: 2 if border == "class" else IGNORED_LABEL}, "index")
    packed = request.root / "oxford_pets"
    if (packed / "trimaps").is_dir():
        pairs = [(packed / "images" / part, packed / "trimaps" / part) for part in ("train", "test")]
        train, test = _splits(request, pairs, reader)
    else:
        train, test = (MaskSplit(part, reader) for part in _official_trimaps(request, packed))
    return RawData(train, test, names)


@FOLDERS.register("masks")
def masked_tree(request: DataRequest, home: Path, num_classes: int | None, ignore: int, palette: Palette) -> RawData:
    """Images and masks of the same name; the options are those of the data set ``folder``."""
    parts = [home / "train", *(home / name for name in ("val", "test") if (home / name).is_dir())]
    for part in parts if len(parts) > 1 else [home / "test"]:
        if not has_masks(part):
            raise missing_data(request, f"{part}/{{images,masks}}", "Every split has both folders.")
    names = _mask_classes(home / "classes.txt", num_classes)
    if isinstance(ignore, bool) or not isinstance(ignore, int) or not 0 <= ignore <= _MAX_LABEL:
        raise ValueError(f"ignore must be a label from 0 to {_MAX_LABEL}; got {ignore!r}. Usual: {IGNORED_LABEL}.")
    pairs = [(part / "images", part / "masks") for part in parts]
    train, *val, test = _splits(request, pairs, _identity_reader(len(names), ignore, palette))
    return RawData(train, test, names, val=val[0] if val else None)


def _check_folders(request: DataRequest, pairs: list[tuple[Path, Path]], files: str, fix: str) -> None:
    if not all(folder.is_dir() for pair in pairs for folder in pair):
        raise missing_data(request, files, fix)


def _identity_reader(num_classes: int, ignored: int, palette: Palette) -> MaskFileReader:
    return MaskFileReader({**{label: label for label in range(num_classes)}, ignored: IGNORED_LABEL}, palette)


def _splits(request: DataRequest, pairs: list[tuple[Path, Path]], reader: MaskFileReader) -> list[MaskSplit]:
    splits = [MaskSplit(pair_files(*pair), reader) for pair in pairs]
    for split, (images, masks) in zip(splits, pairs, strict=True):
        if not len(split):
            raise missing_data(request, f"{images} and {masks}", "Both folders are empty. Put the files there.")
    return splits


def _official_trimaps(request: DataRequest, packed: Path) -> list[list[tuple[str, str]]]:
    official = imported("torchvision.datasets").OxfordIIITPet
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
            raise DataError(
                f"every image must have a mask; got no {mask}. Unpack annotations.tar.gz again.", code="bad-masks"
            )
    return pairs


def _ade20k_names(path: Path) -> tuple[str, ...]:
    """Return the first of the names that each class has, from a table with one class a line."""
    if not path.is_file():
        return tuple(map(str, range(_ADE20K_CLASSES)))
    rows = [line.split("\t") for line in read_words(path).splitlines()[1:] if line.strip()]
    names = tuple(re.split("[,;]", row[-1])[0].strip() for row in rows)
    if len(names) != _ADE20K_CLASSES:
        raise DataError(
            f"{path} must list {_ADE20K_CLASSES} classes under a line of titles; got {len(names)}. Remove it.",
            code="bad-masks",
        )
    return names


def _camvid_names(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return _CAMVID_CLASSES
    count = len(_CAMVID_CLASSES)
    try:
        # The twelfth name is that of the ignored label.
        names = [str(name) for name in json.loads(read_words(path))["classes"]][:count]
        got = "" if len(names) == count else str(len(names))
    except (ValueError, KeyError, TypeError) as error:
        got = repr(error)
    if got:
        raise DataError(
            f"{path} must hold the names of the {count} classes; got {got}. Remove it to use the usual ones.",
            code="bad-masks",
        )
    return tuple(names)


def _mask_classes(path: Path, num_classes: int | None) -> tuple[str, ...]:
    if path.is_file():
        names = tuple(line.strip() for line in read_words(path).splitlines() if line.strip())
        if num_classes not in (None, len(names)):
            raise DataError(
                f"num_classes must be the {len(names)} lines of {path}; got {num_classes}. Leave it out.",
                code="bad-masks",
            )
    elif num_classes is None:
        raise DataError(
            f"the classes of masks must be known; got no {path}. Write one name a line into it, in the order of the "
            "labels, or set data.options.num_classes.",
            code="bad-masks",
        )
    elif isinstance(num_classes, bool) or not isinstance(num_classes, int):
        raise ValueError(f"num_classes must be a whole number; got {num_classes!r}. Count the labels.")
    else:
        names = tuple(map(str, range(num_classes)))
    if not 2 <= len(names) <= IGNORED_LABEL:
        raise DataError(
            f"masks must have 2 to {IGNORED_LABEL} classes; got {len(names)}. Labels are bytes.", code="bad-masks"
        )
    return names
