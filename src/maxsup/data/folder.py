"""Images in folders, one folder a class: any tree of yours, ImageNet, and the lists of CUB-200-2011."""

from __future__ import annotations

from pathlib import Path

from maxsup.core.errors import DataError, hint
from maxsup.data.arrays import local_path, read_npz
from maxsup.data.bundle import FileSplit
from maxsup.data.extras import require
from maxsup.data.registry import DATASETS, DataRequest, RawData, missing_data

_CUB_LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


@DATASETS.register("folder", images="your files", source="train/<class>/ and test/<class>/ of yours", argument="PATH")
def folder(request: DataRequest) -> RawData:
    """A tree with ``train/`` and ``val/`` or ``test/``; with only one of the two, that is the test split."""
    return _tree(request, local_path(request.argument, request.root))


@DATASETS.register("imagenet", images="1,281,167 + 50,000 files, 1,000 classes", source="ILSVRC 2012")
def imagenet(request: DataRequest) -> RawData:
    """ImageNet-1k; its official validation images are the test split here, as in every paper."""
    stored = request.root / "imagenet.npz"
    return read_npz(stored) if stored.is_file() else _tree(request, request.root / "imagenet")


@DATASETS.register("cub200", images="5,994 + 5,794 files, 200 classes", source="Wah et al. 2011")
def cub200(request: DataRequest) -> RawData:
    """Bird species, read from the lists of the official archive."""
    stored = request.root / "cub200.npz"
    if stored.is_file():
        return read_npz(stored)
    home = request.root / "CUB_200_2011"
    if not all((home / name).is_file() for name in _CUB_LISTS):
        files = f"{stored} or {home}/{{{', '.join(_CUB_LISTS)}, images/}}"
        raise missing_data(request, files, "Unpack CUB_200_2011.tgz of https://data.caltech.edu/records/65de6-vp158.")
    paths, labels, parts, names = (_listed(home / name) for name in _CUB_LISTS)
    samples: dict[str, list[tuple[str, int]]] = {"1": [], "0": []}
    for number, path in paths.items():
        samples[parts[number]].append((str(home / "images" / path), int(labels[number]) - 1))
    class_names = tuple(name.partition(".")[2] for name in names.values())
    return RawData(FileSplit(samples["1"]), FileSplit(samples["0"]), class_names)


def _listed(path: Path) -> dict[str, str]:
    """Lines of ``number value``."""
    pairs = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line.strip())
    return {number: value.strip() for number, value in pairs}


def _tree(request: DataRequest, home: Path) -> RawData:
    held_out = [home / name for name in ("val", "test") if (home / name).is_dir()]
    train = home / "train"
    if not train.is_dir() or not held_out:
        files = f"{train}/<class>/ and {home}/val/<class>/ or {home}/test/<class>/"
        raise missing_data(request, files, "Sort the images into folders, one a class, or choose another root.")
    tools = require("torchvision.datasets.folder")
    try:
        class_names, numbers = tools.find_classes(train)
    except FileNotFoundError as error:
        raise missing_data(request, f"{train}/<class>/", "Make one folder a class.") from error
    splits = []
    for part in (train, *held_out):
        for entry in sorted(part.iterdir()):
            if entry.is_dir() and entry.name not in numbers:
                raise DataError(
                    f"classes of {part} must be those of {train}; got {entry.name!r}. {hint(entry.name, numbers)}"
                )
        samples = tools.make_dataset(str(part), numbers, extensions=tools.IMG_EXTENSIONS, allow_empty=True)
        if not samples:
            raise missing_data(request, f"{part}/<class>/*.jpg", f"Known endings: {', '.join(tools.IMG_EXTENSIONS)}.")
        splits.append(FileSplit(samples))
    val = splits[1] if len(splits) == 3 else None
    return RawData(splits[0], splits[-1], tuple(class_names), val=val)
