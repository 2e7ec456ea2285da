"""What is in folders of images, remembered: within a process, and for large trees on disk.

Thirty runs of a comparison would otherwise list a million files thirty times, which takes minutes on a network. What is
remembered is used only while no folder has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from maxsup.core.errors import DataError, StorageError
from maxsup.lab.core.files.storage import json_text, make_folder, replace_bytes

ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")
# Images to people, not to Pillow; without a note about them a class would look smaller than its folder.
_NOT_READ = (".heic", ".heif", ".avif", ".jxl", ".dng", ".cr2", ".nef", ".arw", ".psd", ".svg")
_LEFT_BY_SYSTEMS = ("__macosx", "@eadir")

LEAST_KEPT = 20_000
"""A tree with fewer images is listed faster than anybody would notice, and leaves no file."""


def image_files(folder: Path) -> tuple[list[str], Counter[str]]:
    """Return paths of images in a folder and below it, and counts of the endings of images that cannot be read here.

    A comparison asks several times in one process; the folder is walked again only if a folder in it has changed.
    """
    place = str(folder), os.path.abspath(folder)
    known = _WALKED.get(place)
    if known is None or not known.is_current():
        _WALKED[place] = known = walk(folder)
    return list(known.images), Counter(known.others)


class Walk(NamedTuple):
    """What a walk found, and when each folder on it had changed last."""

    images: list[str]
    others: Counter[str]
    changed: dict[str, int]
    started: int

    def is_current(self) -> bool:
        """Return whether nothing was added or removed since; a change shortly before the walk may have gone on."""
        try:
            return all(
                os.stat(place).st_mtime_ns == changed < self.started - _SETTLED
                for place, changed in self.changed.items()
            )
        except OSError:
            return False


_WALKED: dict[tuple[str, str], Walk] = {}
# In nanoseconds; some file systems tell times apart by two seconds.
_SETTLED = 3_000_000_000


def walk(folder: Path) -> Walk:
    """Return what a folder and those below it hold."""
    found: list[str] = []
    others: Counter[str] = Counter()
    changed: dict[str, int] = {}
    started = time.time_ns()

    def refuse(error: OSError) -> None:
        raise DataError(
            f"{error.filename} cannot be opened ({error.strerror}). Make it readable, or move it away.",
            code="unreadable-file",
        )

    for place, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(place)
        # A link to a folder above would be followed for ever.
        is_new = real not in changed
        changed[real] = os.stat(real).st_mtime_ns
        folders[:] = [name for name in folders if is_new and not is_hidden(name)]
        names = [name for name in names if is_new and not is_hidden(name)]
        found += [os.path.join(place, name) for name in names if name.lower().endswith(ENDINGS)]
        others.update(Path(name).suffix.lower() for name in names if name.lower().endswith(_NOT_READ))
    return Walk(sorted(found, key=os.path.split), others, changed, started)


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is none of the user's own."""
    return name.startswith(".") or name.lower() in _LEFT_BY_SYSTEMS


def recall(base: Path) -> None:
    """Take what an earlier process has found in the folders of ``base``."""
    try:
        kept = json.loads(index_path(base).read_bytes())
        for name, (images, others, changed, started) in kept.items():
            folder = base / name
            found = [str(folder / image) for image in images]
            place = str(folder), os.path.abspath(folder)
            _WALKED.setdefault(place, Walk(found, Counter(others), dict(changed), int(started)))
    except (OSError, ValueError, TypeError, AttributeError):
        return  # none, or a damaged one: the folders themselves are there


def keep(base: Path) -> None:
    """Leave what is known of the folders of ``base`` to later processes, if it is much and new."""
    known = {
        Path(place).name: walk
        for (place, _), walk in _WALKED.items()
        if Path(place).parent == base and walk.is_current()
    }
    if sum(len(walk.images) for walk in known.values()) < LEAST_KEPT:
        return
    stored = {
        name: [[os.path.relpath(image, base / name) for image in walk.images], walk.others, walk.changed, walk.started]
        for name, walk in known.items()
    }
    content = json_text(stored).encode("utf-8", "surrogatepass")
    path = index_path(base)
    # A full or read-only home is no reason not to train.
    with suppress(OSError, StorageError, UnicodeError):
        if not path.is_file() or path.read_bytes() != content:
            make_folder(path.parent)
            replace_bytes(path, content)


def index_path(base: Path) -> Path:
    """Return where the index of a tree is kept: under a digest of its path."""
    digest = hashlib.blake2b(os.fsencode(os.path.abspath(base)), digest_size=8).hexdigest()
    return cache_folder() / f"folders-{digest}.json"


def cache_folder() -> Path:
    """Return the folder of what can be found again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxsup"
