"""Run folders in a bucket, so that a machine that starts empty goes on where another one was taken away.

::

    URL/NAME/manifest.json   files of a run, sizes and digests; written last, so a copy counts whole or not at all
    URL/NAME/files/DIGEST    their contents

A worker copies its run whenever there is a new checkpoint, beside training, and at the end. The URL is in the
environment (:data:`MIRROR`), which workers inherit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxsup.core.errors import StorageError, first_line
from maxsup.core.installation import install_command
from maxsup.lab.core.files.reading import file_digest
from maxsup.lab.core.files.rundir import RunDir

MIRROR = "MAXSUP_MIRROR"
"""The environment variable with the URL that runs are copied to."""

_LOOK_SECONDS = 2.0
_MANIFEST = "manifest.json"
# What belongs to an attempt or a machine, and what can be computed again from the rest.
_LEFT_OUT = {"job.json", "started.json", "failure.json", "progress.json", "worker.log", "outputs"}


class Mirror:
    """A place of any kind that fsspec knows: ``s3://``, ``gs://``, ``file://``, ``memory://``."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"a mirror needs fsspec. Run {install_command('mirror')}, or leave it out.") from error
        with self._reached():
            self._files, self._root = fsspec.core.url_to_fs(self.url)

    def check(self) -> None:
        """Raise unless something can be written there."""
        with self._reached():
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(f"{self._root}/.maxsup", b"")

    def push(self, folder: Path) -> None:
        """Copy a run; what was copied before stays whole until the new copy is."""
        held, wanted = self._manifest(folder.name) or {}, dict[str, dict[str, Any]]()
        known = {record["digest"] for record in held.values()}
        with self._reached():
            self._files.makedirs(self._place(folder.name, "files"), exist_ok=True)
        for path in _files_of(folder):
            name = path.relative_to(folder).as_posix()
            # A file of a checkpoint never changes; others may grow while they are copied.
            content = None if name.startswith("checkpoints/") else path.read_bytes()
            size = path.stat().st_size if content is None else len(content)
            digest = file_digest(path, size) if content is None else _digest(content)
            wanted[name] = {"bytes": size, "digest": digest}
            if digest in known:
                continue
            with self._reached():
                if content is None:
                    self._files.put_file(str(path), self._place(folder.name, "files", digest))
                else:
                    self._files.pipe_file(self._place(folder.name, "files", digest), content)
        if wanted == held:
            return
        with self._reached():
            self._files.pipe_file(self._place(folder.name, _MANIFEST), json.dumps(wanted).encode())
            for digest in known - {record["digest"] for record in wanted.values()}:
                self._files.rm_file(self._place(folder.name, "files", digest))

    def pull(self, folder: Path) -> bool:
        """Fetch a run into a folder that has neither checkpoint nor result; False if there is no copy.

        Raises:
            StorageError: The copy is not whole; nothing of it is used.
        """
        run = RunDir(folder)
        if run.has_checkpoint or run.summary.exists() or (found := self._manifest(folder.name)) is None:
            return False
        part = folder / ".mirror"
        shutil.rmtree(part, ignore_errors=True)
        for name, record in found.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._reached():
                try:
                    self._files.get_file(self._place(folder.name, "files", record["digest"]), str(path))
                except FileNotFoundError:
                    raise self._torn(folder.name, name, "nothing") from None
            if path.stat().st_size != record["bytes"] or file_digest(path, record["bytes"]) != record["digest"]:
                raise self._torn(folder.name, name, "other content")
        # Last those that say that there is something to go on from.
        last = ("checkpoints", "summary.json")
        for entry in sorted(part.iterdir(), key=lambda path: last.index(path.name) if path.name in last else -1):
            target = folder / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.rename(target)
        part.rmdir()
        return True

    def _manifest(self, name: str) -> dict[str, dict[str, Any]] | None:
        with self._reached():
            try:
                content = self._files.cat_file(self._place(name, _MANIFEST))
            except FileNotFoundError:
                return None
        try:
            return dict(json.loads(content))
        except ValueError:
            raise self._torn(name, _MANIFEST, "other content") from None

    def _place(self, *names: str) -> str:
        return "/".join((self._root, *names))

    def _torn(self, name: str, file: str, what: str) -> StorageError:
        return StorageError(
            f"the copy of a run in a mirror must be whole; got {what} for {file} in {self.url}/{name}. Remove that "
            "folder to train the run again.",
            code="torn-mirror",
        )

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except Exception as error:  # each kind of place has its own
            raise StorageError(
                f"the mirror must be reachable and writable with the credentials of this machine; got {self.url} and "
                f"{type(error).__name__}: {first_line(error)}. Check both, or leave --mirror out.",
                code="mirror-unreachable",
            ) from error


def current_mirror() -> Mirror | None:
    """The mirror of this process; None without one."""
    return Mirror(url) if (url := os.environ.get(MIRROR)) else None


@contextmanager
def mirrored(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Fetch a run before it is worked on, and copy it after each checkpoint and at the end.

    A mirror that fails on the way stops nothing: the run is here, and the launch copies it once more.
    """
    if (mirror := current_mirror()) is None:
        yield
        return
    if mirror.pull(folder):
        say(f"fetched from {mirror.url}")
    is_over, told = threading.Event(), list[str]()

    def copy() -> None:
        try:
            mirror.push(folder)
        except FileNotFoundError:
            pass  # a checkpoint that was superseded meanwhile; the next look finds the new one
        except StorageError as error:
            if not told:
                told.append(str(error))
                say(str(error))

    def follow() -> None:
        pushed = RunDir(folder).has_checkpoint and _newest(folder)
        while not is_over.wait(_LOOK_SECONDS):
            if (newest := _newest(folder)) and newest != pushed:
                copy()
                pushed = newest

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        copy()


def _newest(folder: Path) -> str:
    try:
        newest = RunDir(folder).newest()
    except (StorageError, OSError):  # seen while it is replaced
        return ""
    return newest.name if newest else ""


def _files_of(folder: Path) -> list[Path]:
    """Files of a run, without links, locks and what is not finished."""
    found = []
    for place, folders, names in os.walk(folder):
        at = Path(place)
        is_top = at == folder
        # The marks of finished analyses are in a folder with a dot.
        folders[:] = [name for name in folders if name == ".done" or not name.startswith(".")]
        folders[:] = [name for name in folders if not (at / name).is_symlink() and not (is_top and name in _LEFT_OUT)]
        for name in names:
            is_kept = not name.startswith(".") and not name.endswith(".part") and not (is_top and name in _LEFT_OUT)
            if is_kept and not (at / name).is_symlink():
                found.append(at / name)
    return sorted(found)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@contextmanager
def mirror_at(url: str | None) -> Iterator[None]:
    """Copy the runs of this process and its workers to a URL meanwhile; with None to where the environment says."""
    before = os.environ.get(MIRROR)
    if url is not None:
        os.environ[MIRROR] = url
    try:
        yield
    finally:
        os.environ.pop(MIRROR, None)
        if before is not None:
            os.environ[MIRROR] = before


def fetch_all(folders: Iterable[Path]) -> int:
    """Fetch runs that are not here; gives how many came from the mirror, and raises if there is one that refuses."""
    if (mirror := current_mirror()) is None:
        return 0
    mirror.check()
    return sum(mirror.pull(folder) for folder in folders)


def copy_all(folders: Iterable[Path]) -> None:
    """Copy finished runs whose copy is not up to date."""
    if (mirror := current_mirror()) is not None:
        for folder in folders:
            mirror.push(folder)
