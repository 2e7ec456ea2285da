"""Trees with one folder a class, as people have them: which folders are splits, which are classes, and what is odd.

Splits have several names (``valid``, ``Testing``), hidden files and folders are skipped, links are followed once. A
tree that makes no sense is refused with a sentence about what was found; an odd one is used, and a note says how.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from maxsup.core.errors import DataError, counted
from maxsup.lab.data.bundle import FileSplit
from maxsup.lab.data.registry import RawData
from maxsup.lab.data.sets.folder_index import ENDINGS, image_files, is_hidden, keep, recall

TEST_SHARE = 0.2
"""Share of every class that is held out as the test split where there is no folder for it."""

_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_NUM_SHOWN = 3

ClassFiles = dict[str, list[str]]


def split_folders(home: Path) -> dict[str, Path]:
    """Folders of a tree that are ``train``, ``val`` or ``test``, by these names.

    Beside classes, a folder of these names without folders in it is a class too: people photograph trains.
    """
    found: dict[str, Path] = {}
    folders = _folders(home)
    recall(home)
    if any(folder.name.lower() not in _SPLITS and image_files(folder)[0] for folder in folders):
        folders = [folder for folder in folders if _folders(folder)]
    for folder in (folder for folder in folders if folder.name.lower() in _SPLITS):
        split = _SPLITS[folder.name.lower()]
        if split in found:
            raise DataError(
                f"{home} has two folders for one split, {found[split].name}/ and {folder.name}/. Keep one of them.",
                code="bad-folder",
            )
        found[split] = folder
    return found


def read_tree(home: Path, *, test_share: float | None = None, test_seed: int | None = None) -> RawData:
    """The splits of a tree of ``train/``, ``val/`` and ``test/``, of ``train/`` alone, or of nothing but classes.

    Args:
        home: The folder.
        test_share: Share of every class to test on, where there is no folder for it; 1 takes all images, for networks
            that are trained already.
        test_seed: Seed of that choice, which depends on file names: one more file does not change all the others.
    """
    parts, notes = split_folders(home), list[str]()
    if parts and "train" not in parts:
        only = next(iter(parts.values()))
        raise DataError(
            f"{home} has {only.name}/ but no train/ to learn from. Add {home}/train/<class>/, or give folder:{only} "
            "to have its images split.",
            code="bad-folder",
        )
    base = parts.get("train", home)
    files = _class_files(base, notes)
    for name in [name for name, found in files.items() if not found]:
        if not any(_has_images(part, name) for part in parts.values()):
            notes.append(f"class {name!r} has no images and is left out")
            del files[name]
    _check_classes(base, files)
    held_out = [parts[name] for name in ("val", "test") if name in parts]
    if not held_out:
        share = TEST_SHARE if test_share is None else test_share
        return _split(base, files, share, 0 if test_seed is None else test_seed, notes)
    if test_share is not None or test_seed is not None:
        raise ValueError(
            f"test_share and test_seed must be left out where there is a folder of test images; got {held_out[-1]}. "
            "Drop the options."
        )
    if "test" not in parts:
        notes.append(
            f"{home} has no test/: {held_out[0].name}/ is the test split, and validation images are taken from "
            f"{base.name}/ (data.val_share)"
        )
    *val, test = [_held_out(part, files, base, notes) for part in held_out]
    train = FileSplit(_samples(files, files))
    return RawData(train, test, tuple(files), val=val[0] if val else None, notes=tuple(notes))


def _class_files(base: Path, notes: list[str]) -> ClassFiles:
    files: ClassFiles = {}
    others: Counter[str] = Counter()
    recall(base)
    for folder in _folders(base):
        # Macs decompose accents: the same name may be written in two ways.
        name = unicodedata.normalize("NFC", folder.name)
        if name in files:
            raise DataError(
                f"{base} has two folders whose names look the same, {name!r}. Rename or join them.", code="bad-folder"
            )
        files[name], unread = image_files(folder)
        others += unread
    keep(base)
    if others:
        counts = ", ".join(f"{count} {ending}" for ending, count in sorted(others.items()))
        notes.append(f"{base} has files that are not read ({counts}); convert them to JPEG or PNG")
    if (stray := _stray_images(base)) and any(files.values()):
        notes.append(f"{counted(len(stray), 'image')} directly in {base} belong to no class and are left out")
    return files


def _check_classes(base: Path, files: ClassFiles) -> None:
    """Raise if there are fewer than two classes, or splits in their place, and say what was found."""
    for folder in _folders(base):
        if learnt := split_folders(folder).get("train"):
            raise DataError(
                f"{folder} has {learnt.name}/ in it, so it is no class. Give folder:{folder}.", code="bad-folder"
            )
    if len(files) > 1:
        return
    if not files and (stray := _stray_images(base)):
        raise DataError(
            f"{base} holds {counted(len(stray), 'image')} and no folders of classes. Put each image into a folder that "
            f"is named after its class, for instance {base}/cat/{stray[0].name}.",
            code="bad-folder",
        )
    for folder in _folders(base):
        inner = [each for each in _folders(folder) if image_files(each)[0]]
        if len(inner) > 1:
            raise DataError(
                f"{base} holds one folder, {folder.name}/, and the folders of classes are in there "
                f"({_read_list(each.name for each in _folders(folder))}). Give folder:{folder}, or move them up.",
                code="bad-folder",
            )
    if files:
        raise DataError(
            f"{base} has one class, {next(iter(files))!r}, and needs two. Add a folder of another.", code="bad-folder"
        )
    raise DataError(
        f"{base} must hold a folder a class with images in it; got none. Endings that are read: {', '.join(ENDINGS)}.",
        code="bad-folder",
    )


def _held_out(part: Path, files: ClassFiles, base: Path, notes: list[str]) -> FileSplit:
    found = _class_files(part, notes)
    unknown = [name for name in found if name not in files and found[name]]
    if unknown:
        close = get_close_matches(unknown[0], files, n=1)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        raise DataError(
            f"{part} has {_classes(unknown)} that {base} lacks: {_read_list(unknown)}. "
            f"{guess}Rename it, add {base / unknown[0]}, or remove {part / unknown[0]}.",
            code="bad-folder",
        )
    samples = _samples(found, files)
    if not samples:
        raise DataError(
            f"{part} has no images in the folders of its classes. Add some, or remove the folder {part}.",
            code="bad-folder",
        )
    missing = [name for name in files if not found.get(name)]
    if missing:
        notes.append(f"{part} has no images of {_classes(missing)} {_read_list(missing)}, which cannot be evaluated")
    untrained = [name for name in files if not files[name]]
    if untrained:
        raise DataError(
            f"{base / untrained[0]} has no images, and {part} has some of that class. Add some, or "
            f"remove both folders.",
            code="bad-folder",
        )
    return FileSplit(samples)


def _split(base: Path, files: ClassFiles, share: Any, seed: Any, notes: list[str]) -> RawData:
    """Hold out the images of each class whose names have the smallest digests."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValueError(f"test_share must be above 0 and at most 1; got {share!r}. Usual: {TEST_SHARE}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"test_seed must be a whole number from 0 on; got {seed!r}. Usual: 0.")

    def digest(path: str) -> bytes:
        name = unicodedata.normalize("NFC", Path(path).relative_to(base).as_posix())
        return hashlib.blake2b(f"{seed}/{name}".encode("utf-8", "surrogateescape"), digest_size=8).digest()

    chosen: set[str] = set()
    for members in files.values():
        count = len(members) if share == 1 else min(max(1, round(share * len(members))), len(members) - 1)
        chosen.update(sorted(members, key=digest)[:count])
    samples = _samples(files, files)
    test = [sample for sample in samples if sample[0] in chosen]
    if share < 1:
        alone = [name for name, members in files.items() if len(members) == 1]
        notes.append(
            f"{base} has no test/ beside it: {len(test):,} of {len(samples):,} images are held out for the test, "
            f"{share:.0%} of each class (test_share={share:g}, test_seed={seed})"
        )
        if alone:
            notes.append(f"{_classes(alone)} {_read_list(alone)} with one image: it is trained on and not evaluated")
    if not test:
        raise DataError(
            f"{base} has one image of each class and none to test on. Add images, or a folder test/.", code="bad-folder"
        )
    settled = {"test_share": share, "test_seed": seed}
    train = [sample for sample in samples if sample[0] not in chosen]
    return RawData(FileSplit(train), FileSplit(test), tuple(files), notes=tuple(notes), settled=settled)


def _samples(files: ClassFiles, names: Iterable[str]) -> list[tuple[str, int]]:
    return [(path, label) for label, name in enumerate(names) for path in files.get(name, ())]


def _stray_images(base: Path) -> list[Path]:
    return [path for path in _entries(base) if path.is_file() and path.name.lower().endswith(ENDINGS)]


def _has_images(part: Path, name: str) -> bool:
    return any(
        unicodedata.normalize("NFC", folder.name) == name and image_files(folder)[0] for folder in _folders(part)
    )


def _folders(place: Path) -> list[Path]:
    return [path for path in _entries(place) if path.is_dir()]


def _entries(place: Path) -> list[Path]:
    try:
        return sorted(path for path in place.iterdir() if not is_hidden(path.name))
    except OSError as error:
        raise DataError(
            f"{place} cannot be opened ({error.strerror}). Give a folder that you may read.", code="unreadable-file"
        ) from error


def _classes(names: list[str]) -> str:
    return "the class" if len(names) == 1 else f"{len(names)} classes"


def _read_list(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(repr(name) for name in every[:_NUM_SHOWN]) + (", ..." if len(every) > _NUM_SHOWN else "")
