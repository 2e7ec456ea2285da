"""Images in folders: any tree of yours with one folder a class or with masks, ImageNet, the lists of CUB-200-2011."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from maxsup.core.errors import DataError
from maxsup.core.registry import Registry
from maxsup.lab.core.files.reading import read_words
from maxsup.lab.data.bundle import IGNORED_LABEL, FileSplit
from maxsup.lab.data.registry import DATASETS, TASK_PACKAGE, DataRequest, RawData, local_path, missing_data
from maxsup.lab.data.sets.arrays import read_npz
from maxsup.lab.data.sets.class_folders import read_tree

_CUB_LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")

FOLDERS: Registry[Callable[..., RawData]] = Registry("kind of folder", package=TASK_PACKAGE)
"""Readers of trees that are no folders of classes."""


@DATASETS.register(
    "folder", images="your files", source="<class>/ folders, in train/ and test/ or not; or masks", argument="PATH"
)
def folder(
    request: DataRequest,
    *,
    num_classes: int | None = None,
    ignore: int = IGNORED_LABEL,
    palette: str = "refuse",
    test_share: float | None = None,
    test_seed: int | None = None,
) -> RawData:
    """A tree with ``train/``, ``val/`` and ``test/``; if only one of the last two is there, it is the test split.

    A tree with ``train/`` alone, or of nothing but ``<class>/``, is split here. Where the splits hold ``images/`` and
    ``masks/``, files of the same name belong together, and the lines of ``PATH/classes.txt`` are the classes.

    Args:
        request: What is asked for.
        num_classes: Number of classes of masks, where there is no ``classes.txt``.
        ignore: Label in a mask that is ignored.
        palette: For masks with a palette: ``refuse`` them, or take the ``index`` of a colour as its class.
        test_share: Share of every class that is held out for the test, where there is no ``val/`` and no ``test/``.
        test_seed: Seed of that choice.
    """
    home = local_path(request.argument, request.root)
    if any(has_masks(home / split) for split in ("train", "val", "test")):
        if test_share is not None or test_seed is not None:
            raise ValueError("test_share and test_seed must be left out where images have masks. Drop the options.")
        return FOLDERS["masks"](request, home, num_classes, ignore, palette)
    given = {"num_classes": (num_classes, None), "ignore": (ignore, IGNORED_LABEL), "palette": (palette, "refuse")}
    for name, (value, default) in given.items():
        if value != default:
            raise ValueError(
                f"option {name} of data set 'folder' must be left out where there are no masks; got {value!r} and no "
                f"{home}/train/masks. Drop it, or add images/ and masks/."
            )
    if not home.is_dir():
        files = f"{home}/train/<class>/ or {home}/<class>/"
        fix = "Give the path of a folder of images"
        if not home.is_absolute():
            fix += f"; a relative one is looked for in {Path.cwd()} and in {request.root}, which data.root changes"
        raise missing_data(request, files, f"{fix}.")
    return read_tree(home, test_share=test_share, test_seed=test_seed)


@DATASETS.register(
    "imagenet",
    images="1,281,167 + 50,000 files, 1,000 classes",
    source="ILSVRC 2012",
    places="imagenet.npz or imagenet/train",
)
def imagenet(request: DataRequest) -> RawData:
    """ImageNet-1k; its official validation images are the test split here, as in every paper."""
    stored = request.root / "imagenet.npz"
    if stored.is_file():
        return read_npz(stored)
    home = request.root / "imagenet"
    if not (home / "train").is_dir() or not (home / "val").is_dir():
        files = f"{home}/train/<class>/ and {home}/val/<class>/"
        raise missing_data(request, files, "Sort the images into folders, one a class, or choose another data.root.")
    return read_tree(home)


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
    paths, labels, parts, names = (_read_list(home / name) for name in _CUB_LISTS)
    samples: dict[str, list[tuple[str, int]]] = {"1": [], "0": []}
    for number, path in paths.items():
        try:
            samples[parts[number]].append((str(home / "images" / path), int(labels[number]) - 1))
        except (KeyError, ValueError) as error:
            raise DataError(
                f"{', '.join(_CUB_LISTS)} in {home} must go together; got {error} for image {number}. "
                "Unpack CUB_200_2011.tgz again.",
                code="damaged-file",
            ) from error
    class_names = tuple(name.partition(".")[2] for name in names.values())
    return RawData(FileSplit(samples["1"]), FileSplit(samples["0"]), class_names)


def _read_list(path: Path) -> dict[str, str]:
    """Lines of ``number value``."""
    found: dict[str, str] = {}
    for place, line in enumerate(read_words(path).splitlines(), start=1):
        number, _, value = line.strip().partition(" ")
        if number and not value:
            raise DataError(
                f"{path} must have a number and a value in a line; got {line!r} in line {place}. Restore it.",
                code="damaged-file",
            )
        if number:
            found[number] = value.strip()
    return found


def has_masks(split: Path) -> bool:
    """Whether the folder of a split holds images and masks."""
    return all((split / kind).is_dir() for kind in ("images", "masks"))
