"""Images in folders: any tree of yours with one folder a class or with masks, ImageNet, the lists of CUB-200-2011."""

from __future__ import annotations

from pathlib import Path

from maxsup.core.errors import DataError, hint
from maxsup.data.arrays import local_path, read_npz
from maxsup.data.bundle import IGNORED_LABEL, FileSplit, MaskSplit
from maxsup.data.extras import require
from maxsup.data.mask_files import MaskFileReader, Palette, paired_files
from maxsup.data.registry import DATASETS, DataRequest, RawData, missing_data

_CUB_LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
_MAX_LABEL = 2**16 - 1


@DATASETS.register(
    "folder",
    images="your files",
    source="train/ and test/ of yours, each with <class>/ or with images/ and masks/",
    argument="PATH",
)
def folder(
    request: DataRequest,
    *,
    num_classes: int | None = None,
    ignore: int = IGNORED_LABEL,
    palette: Palette = "refuse",
) -> RawData:
    """A tree with ``train/`` and ``val/`` or ``test/``; with only one of the two, that is the test split.

    Where these hold ``images/`` and ``masks/``, files of the same name belong together, and the lines of
    ``PATH/classes.txt`` are the classes. The options are for masks only.

    Args:
        request: What is asked for.
        num_classes: Number of classes, where there is no ``classes.txt``.
        ignore: Label in a mask that counts for nothing.
        palette: What becomes of masks with a palette: ``refuse`` them, or take the ``index`` of a colour as its class.
    """
    home = local_path(request.argument, request.root)
    if any(_has_masks(home / split) for split in ("train", "val", "test")):
        return _masked_tree(request, home, num_classes, ignore, palette)
    given = {"num_classes": (num_classes, None), "ignore": (ignore, IGNORED_LABEL), "palette": (palette, "refuse")}
    for name, (value, default) in given.items():
        if value != default:
            raise ValueError(
                f"option {name} of data set 'folder' must be left out where there are no masks; got {value!r} and no "
                f"{home}/train/masks. Drop it, or add images/ and masks/."
            )
    return _tree(request, home)


@DATASETS.register(
    "imagenet",
    images="1,281,167 + 50,000 files, 1,000 classes",
    source="ILSVRC 2012",
    places="imagenet.npz or imagenet/train",
)
def imagenet(request: DataRequest) -> RawData:
    """ImageNet-1k; its official validation images are the test split here, as in every paper."""
    stored = request.root / "imagenet.npz"
    return read_npz(stored) if stored.is_file() else _tree(request, request.root / "imagenet")


@DATASETS.register(
    "cub200", images="5,994 + 5,794 files, 200 classes", source="Wah et al. 2011", places="cub200.npz or CUB_200_2011"
)
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


def _held_out(home: Path) -> list[Path]:
    return [home / name for name in ("val", "test") if (home / name).is_dir()]


def _tree(request: DataRequest, home: Path) -> RawData:
    held_out, train = _held_out(home), home / "train"
    if not train.is_dir() or not held_out:
        files = f"{train}/<class>/ and {home}/val/<class>/ or {home}/test/<class>/"
        raise missing_data(request, files, "Sort the images into folders, one a class, or choose another --data-root.")
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


def _masked_tree(request: DataRequest, home: Path, num_classes: int | None, ignore: int, palette: Palette) -> RawData:
    parts = [home / "train", *_held_out(home)]
    for part in parts if len(parts) > 1 else [home / "test"]:
        if not _has_masks(part):
            raise missing_data(request, f"{part}/{{images,masks}}", "Every split has both folders.")
    names = _mask_classes(home / "classes.txt", num_classes)
    if isinstance(ignore, bool) or not isinstance(ignore, int) or not 0 <= ignore <= _MAX_LABEL:
        raise ValueError(f"ignore must be a label from 0 to {_MAX_LABEL}; got {ignore!r}. Usual: {IGNORED_LABEL}.")
    reader = MaskFileReader({**{label: label for label in range(len(names))}, ignore: IGNORED_LABEL}, palette)
    splits = []
    for part in parts:
        pairs = paired_files(part / "images", part / "masks")
        if not pairs:
            raise missing_data(request, f"{part}/{{images,masks}}", "Both folders are empty.")
        splits.append(MaskSplit(pairs, reader, len(names)))
    return RawData(splits[0], splits[-1], names, val=splits[1] if len(splits) == 3 else None)


def _has_masks(split: Path) -> bool:
    return all((split / kind).is_dir() for kind in ("images", "masks"))


def _mask_classes(path: Path, num_classes: int | None) -> tuple[str, ...]:
    if path.is_file():
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        if num_classes not in (None, len(names)):
            raise DataError(f"num_classes must be the {len(names)} lines of {path}; got {num_classes}. Leave it out.")
    elif num_classes is not None:
        if isinstance(num_classes, bool) or not isinstance(num_classes, int):
            raise ValueError(f"num_classes must be a whole number; got {num_classes!r}. Count the labels.")
        names = tuple(str(label) for label in range(num_classes))
    else:
        raise DataError(
            f"the classes of masks must be known; got no {path}. Write one name a line into it, in the order of the "
            "labels, or set data.options.num_classes."
        )
    if not 2 <= len(names) <= IGNORED_LABEL:
        raise DataError(f"masks must have 2 to {IGNORED_LABEL} classes; got {len(names)}. Labels are bytes.")
    return names
