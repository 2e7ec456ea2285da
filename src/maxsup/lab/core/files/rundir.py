"""The run directory: what one training run leaves on disk, and the only contract with everything after it.

::

    config.yaml       the resolved recipe            env.json      versions, device, threads, git commit
    metrics.jsonl     one line an epoch              timing.jsonl  seconds and images a second of each epoch
    summary.json      final numbers                  bad_files.csv images that could not be read
    checkpoints/      last, best -> step-N/: model.safetensors, state.safetensors, state.json, checksums.json
    nonfinite.json    where the loss became nan or infinite; removed when training goes on
    outputs/          logits, features, labels of a split, extracted once
    analysis/*.json   numbers of analyses            figures/      pictures of this run alone

A checkpoint is a folder that is complete before it gets its name. The newest one is found by name, and its state names
the best one at that time. ``last`` and ``best`` are links for people and other programs: a copy may lose or follow
them, and the next start repairs them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.lab.core.files import storage
from maxsup.lab.core.files.checkpoints import CHECKSUMS, NAME, checkpoints_in, files_of, remove_superseded
from maxsup.lab.core.files.reading import (
    as_written,
    damaged,
    file_digest,
    read_json,
    read_plain,
    whole_lines,
    with_checksum,
)

NO_LOCK = "MAXSUP_NO_LOCK"
"""The environment variable with which directories are not locked; workers inherit it."""

_HELD: dict[Path, int] = {}


class RunDir:
    """Paths of a run and operations on them that survive a crash; the first write makes the directory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.env = self.path / "env.json"
        self.metrics = self.path / "metrics.jsonl"
        self.timing = self.path / "timing.jsonl"
        self.summary = self.path / "summary.json"
        self.bad_files = self.path / "bad_files.csv"
        self.nonfinite = self.path / "nonfinite.json"
        self.checkpoints = self.path / "checkpoints"
        self.analysis = self.path / "analysis"
        self._lock: int | None = None

    def require(self) -> RunDir:
        """Raise unless a run is here."""
        if not self.config.is_file():
            raise MaxsupError(
                f"run must be a directory that maxsup train made; got {str(self.path)!r}, which has no config.yaml. "
                "The path is printed at the end of training.",
                code="run-not-found",
            )
        return self

    def weights(self, which: str = "last") -> Path:
        """The weights of the ``last`` or the ``best`` checkpoint."""
        folder = self.newest()
        if folder is not None and which == "best":
            folder = self._best(folder)
        if folder is None:
            raise MaxsupError(
                f"run {str(self.path)!r} has no checkpoint {which!r}. "
                "Train it first: checkpoints are written at the end of every epoch.",
                code="checkpoint-not-found",
            )
        return folder / "model.safetensors"

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Put an indented JSON object, with its checksum, in the place of a file."""
        self.write_text(path, storage.json_text(with_checksum(value), indent=2) + "\n")

    def write_text(self, path: Path, text: str) -> None:
        """Put text in the place of a file."""
        storage.write_file(path, text.encode())

    def append_json(self, path: Path, value: Mapping[str, Any], *, num_before: int) -> None:
        """Add one JSON object as a line to a file that must have ``num_before`` lines."""
        self.require_lines(path, num_before)
        storage.append_line(path, storage.json_text(value))

    def require_lines(self, path: Path, num_lines: int) -> None:
        """Raise if a file of this directory has another number of lines, or the directory is gone."""
        self._require_place()
        _check_lines(path, num_lines, len(whole_lines(path)))

    def truncate(self, path: Path, num_lines: int) -> None:
        """Keep the first lines of a file: undo what was written after the checkpoint that training goes on from."""
        kept = whole_lines(path)[:num_lines]
        _check_lines(path, num_lines, len(kept))
        content = b"".join(kept)
        if path.exists() and path.stat().st_size != len(content):
            storage.replace_bytes(path, content)

    def new_checkpoint_name(self, step: int) -> str:
        """A name that no checkpoint has yet, since checkpoints are never overwritten."""
        names = (f"step-{step:08d}{suffix}" for suffix in ("", *(f".{count}" for count in range(1, 100))))
        return next(name for name in names if not (self.checkpoints / name).exists())

    def save_checkpoint(self, name: str, best: str, files: Mapping[str, bytes]) -> None:
        """Write a checkpoint, point the link ``best`` to the one named ``best``, and ``last`` to the new one.

        Both are names in ``checkpoints/``; ``state.json`` among the files repeats ``best``.
        """
        self._require_place()
        storage.make_folder(self.checkpoints)
        files = {**files, CHECKSUMS: self._checksums(files)}
        temporary = self.checkpoints / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        size = sum(len(content) for content in files.values())
        storage.require_space(self.checkpoints, size)
        try:
            temporary.mkdir()
            for file, content in files.items():
                storage.write_bytes(temporary / file, content)
            storage.sync_folder(temporary)
            temporary.rename(self.checkpoints / name)
            storage.sync_folder(self.checkpoints)
            # In this order, so that there is never a last without a best.
            storage.replace_link(self.checkpoints / "best", best)
            storage.replace_link(self.checkpoints / "last", name)
            storage.sync_folder(self.checkpoints)
        except OSError as error:
            raise storage.failed_write(self.checkpoints / name, size, 0, error) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # it was renamed, unless something failed
        remove_superseded(self.checkpoints / name, {name, best})

    def newest(self) -> Path | None:
        """The newest checkpoint, whatever the links say; None where there is none.

        Raises:
            StorageError: A file of it is missing. The checkpoint before it never takes its place unasked.
        """
        found = checkpoints_in(self.checkpoints)
        if not found:
            return None
        if missing := next((file for file in files_of(found[-1]) if not file.is_file()), None):
            raise self._broken(missing, "nothing")
        return found[-1]

    @property
    def has_checkpoint(self) -> bool:
        """Whether training can go on from a checkpoint."""
        return bool(checkpoints_in(self.checkpoints))

    def recover(self) -> Path | None:
        """Repair the links, remove leftovers, and return the newest checkpoint."""
        found = self.newest()
        if found is None:
            return None
        last, best = self.checkpoints / "last", self.checkpoints / "best"
        is_linked = last.is_symlink() and last.resolve() == found.resolve()
        for place in (last, best):
            if place.is_dir() and not place.is_symlink():
                # A copy that followed the links made a folder of each. They are renamed, never thrown away.
                place.rename(self.checkpoints / self._name_of(place))
        found = self.newest()
        assert found is not None
        chosen = self._best(found)
        # The best weights are read only after the last epoch, so damage to them is reported now.
        for file in files_of(chosen):
            self.check(file)
        for link, target in ((best, chosen.name), (last, found.name)):
            if not link.is_symlink() or os.readlink(link) != target:
                storage.replace_link(link, target)
        if is_linked:
            remove_superseded(found, {found.name, chosen.name})
        return found

    def check(self, path: Path) -> Path:
        """Return the path of a file of a checkpoint or of the run; raise unless it is as the checkpoint lists it."""
        of_run = path.parent == self.path
        folder = self.newest() if of_run else path.parent
        if folder is None or not (folder / CHECKSUMS).exists():
            return path
        with as_written(folder / CHECKSUMS):
            record = read_json(folder / CHECKSUMS)["run" if of_run else "checkpoint"].get(path.name)
            if record is None:
                return path
            size, digest = int(record["bytes"]), str(record["digest"])
        if not path.is_file():
            raise self._broken(path, "nothing")
        # A file of the run may have grown since.
        has_size = path.stat().st_size >= size if of_run else path.stat().st_size == size
        if not has_size or file_digest(path, size) != digest:
            raise self._broken(path, "other content")
        return path

    def lock(self) -> Callable[[], None]:
        """Lock the directory for this process; returns the function that releases it.

        The operating system releases the lock when the process ends, however that happens. The number in the file is
        for people. With :data:`NO_LOCK` only this process is kept from taking the directory twice.
        """
        storage.make_folder(self.path)
        path = (self.path / ".lock").resolve()
        if path in _HELD:
            raise self._refusal(str(os.getpid()))
        # Not flock: children made by fork, such as data workers, would keep the lock of a parent that was killed.
        import fcntl

        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"{path} must be a file that can be locked; got {error.strerror or error}. Remove it if no process "
                "works there, or choose another output.",
                code="not-lockable",
            ) from error
        try:
            if NO_LOCK not in os.environ:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 200).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise self._refusal(owner) from None
            raise StorageError(
                f"{self.path} must be on a file system with locks; got {error.strerror or error}. Choose another "
                "output, or add --no-lock and see to it yourself that only one process works there.",
                code="not-lockable",
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        self._lock = _HELD[path] = descriptor

        def release() -> None:
            # The file stays: if it were unlinked, a third process could lock a new one beside that of a second.
            if path in _HELD:
                os.close(_HELD.pop(path))
            self._lock = None

        return release

    def _broken(self, path: Path, what: str) -> StorageError:
        """The error for a damaged file; in the newest checkpoint it names the one before, to go on from."""
        found = checkpoints_in(self.checkpoints)
        if len(found) < 2 or path.parent != found[-1]:
            return damaged(path, what)
        return StorageError(
            f"{path} must be as it was written; got {what}. Copy it again, or remove {path.parent} to go on from "
            f"{found[-2]}, the checkpoint before it."
        )

    def _refusal(self, owner: str) -> MaxsupError:
        return MaxsupError(
            f"run directory must be used by one process at a time; got {str(self.path)!r}, in which process {owner} "
            "works. Wait for it, stop it, or choose another output."
        )

    def _require_place(self) -> None:
        """Raise if this process has locked the directory and it has been moved or deleted since."""
        if self._lock is None:
            return
        held, path = os.fstat(self._lock), self.path / ".lock"
        if not path.exists() or not os.path.samestat(held, path.stat()):
            raise StorageError(
                f"{self.path} must stay where it is while it is trained; it was moved, deleted or replaced. "
                "Move it back and give the same command again: the run goes on from its last checkpoint.",
                code="run-moved",
            )

    def _checksums(self, files: Mapping[str, bytes]) -> bytes:
        """Digests of the files of a checkpoint, and of those files of the run that are final or only grow."""
        own = {path.name: read_plain(path) for path in (self.config, self.metrics, self.timing) if path.exists()}
        records = {
            part: {
                name: {"bytes": len(content), "digest": hashlib.blake2b(content, digest_size=16).hexdigest()}
                for name, content in contents.items()
            }
            for part, contents in (("checkpoint", files), ("run", own))
        }
        return storage.json_text(with_checksum(records), indent=2).encode()

    def _best(self, folder: Path) -> Path:
        """The checkpoint that was the best when another was written; a copy may have it under the name of the link."""
        with as_written(folder / "state.json"):
            best = self.checkpoints / str(read_json(self.check(folder / "state.json"))["best"])
        for place in (best, self.checkpoints / "best"):
            if place.is_dir():
                return place
        raise damaged(best, "nothing")

    def _name_of(self, folder: Path) -> str:
        """A free name for a link that a copy made a folder."""
        with as_written(folder / "state.json"):
            state = read_json(folder / "state.json")
            best, step = str(state["best"]), int(state["global_step"])
        is_free = folder.name == "best" and NAME.fullmatch(best) and not (self.checkpoints / best).exists()
        return best if is_free else self.new_checkpoint_name(step)


def _check_lines(path: Path, num_lines: int, found: int) -> None:
    if found != num_lines:
        raise StorageError(
            f"{path} must have the {num_lines} lines of the epochs that are done; got {found}. "
            "Restore the file or start anew in another output.",
            code="damaged-file",
        )
