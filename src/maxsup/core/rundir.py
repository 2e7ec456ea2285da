"""The run directory: what one training run leaves on disk, and the only contract with everything after it.

::

    config.yaml       the resolved recipe            env.json      versions, device, threads, git commit
    metrics.jsonl     one line an epoch              timing.jsonl  seconds and images a second, one line an epoch
    summary.json      final numbers                  bad_files.csv images that could not be read
    checkpoints/      last, best -> step-N/: model.safetensors, state.safetensors, state.json
    nonfinite.json    where the loss last was no number; gone when training goes on
    outputs/          logits, features, labels of a split, extracted once
    analysis/*.json   numbers of analyses            figures/      pictures of this run alone

A checkpoint is a folder that is complete before it gets its name. ``last`` and ``best`` are links that are replaced in
one step, so both lead to a complete checkpoint at any moment. Its state says which checkpoint was the best one then:
``last`` alone decides, and ``best`` is brought in line with it on the next start.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.core.storage import (
    append_line,
    failed_write,
    json_text,
    make_folder,
    replace_bytes,
    replace_link,
    require_space,
    sync_folder,
    write_bytes,
)

_HELD: dict[Path, int] = {}


class RunDir:
    """Paths of a run and the operations that keep them whole.

    Args:
        path: The directory; made when something is first written.
    """

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

    def require(self) -> RunDir:
        """Raise unless a run is here."""
        if not self.config.is_file():
            raise MaxsupError(
                f"run must be a directory that maxsup train made; got {str(self.path)!r}, which has no config.yaml. "
                "The path is printed at the end of training."
            )
        return self

    def weights(self, which: str = "last") -> Path:
        """The weights of the ``last`` or the ``best`` checkpoint."""
        path = self.checkpoints / which / "model.safetensors"
        if not path.is_file():
            raise MaxsupError(
                f"run {str(self.path)!r} must have a checkpoint {which!r}; got none. "
                "Train it first: checkpoints are written at the end of every epoch."
            )
        return path

    def write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Put an indented JSON object in the place of a file."""
        make_folder(path.parent)
        replace_bytes(path, (json_text(value, indent=2) + "\n").encode())

    def write_text(self, path: Path, text: str) -> None:
        """Put text in the place of a file."""
        make_folder(path.parent)
        replace_bytes(path, text.encode())

    def append_json(self, path: Path, value: Mapping[str, Any]) -> None:
        """Add one JSON object as a line."""
        append_line(path, json_text(value))

    def truncate(self, path: Path, num_lines: int) -> None:
        """Keep the first lines of a file: what was written after the checkpoint that training goes on from is undone.

        A last line without an end is what a crash left of a write; it goes too.
        """
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in lines if line.endswith(b"\n")][:num_lines]
        if len(kept) < num_lines:
            raise StorageError(
                f"{path} must have the {num_lines} lines of the epochs that are done; got {len(kept)}. "
                "Restore the file or start anew in another --output."
            )
        if len(kept) != len(lines):
            replace_bytes(path, b"".join(kept))

    def new_checkpoint_name(self, step: int) -> str:
        """A name that no checkpoint has yet; one that exists is never overwritten."""
        names = (f"step-{step:08d}{suffix}" for suffix in ("", *(f".{count}" for count in range(1, 100))))
        return next(name for name in names if not (self.checkpoints / name).exists())

    def save_checkpoint(self, name: str, best: str, files: Mapping[str, bytes]) -> None:
        """Write a checkpoint, then let ``best`` lead to the one named so and make the new one ``last``.

        Args:
            name: A new name.
            best: Name of the best checkpoint; may be the new one.
            files: Content by file name; ``state.json`` among them repeats ``best``.
        """
        make_folder(self.checkpoints)
        temporary = self.checkpoints / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        size = sum(len(content) for content in files.values())
        require_space(self.checkpoints, size)
        try:
            temporary.mkdir()
            for file, content in files.items():
                write_bytes(temporary / file, content)
            sync_folder(temporary)
            temporary.rename(self.checkpoints / name)
            sync_folder(self.checkpoints)
            # In this order, so that there is never a last without a best.
            replace_link(self.checkpoints / "best", best)
            replace_link(self.checkpoints / "last", name)
            sync_folder(self.checkpoints)
        except (OSError, StorageError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, StorageError):
                raise
            raise failed_write(self.checkpoints / name, size, 0, error) from error
        self._remove_others({name, best})

    def recover(self) -> Path | None:
        """The folder of the last checkpoint, after ``best`` was brought in line with it and leftovers were removed."""
        last = self.checkpoints / "last"
        if not last.exists():
            return None
        name = os.readlink(last)
        best = str(json.loads((last / "state.json").read_text())["best"])
        link = self.checkpoints / "best"
        if not link.is_symlink() or os.readlink(link) != best:
            replace_link(link, best)
        self._remove_others({name, best})
        return self.checkpoints / name

    def lock(self) -> Callable[[], None]:
        """Claim the directory for this process; gives the function that lets go of it.

        The claim is the operating system's and ends with the process, however that ends; the number in the file is for
        people.
        """
        make_folder(self.path)
        path = (self.path / ".lock").resolve()
        if path in _HELD:
            raise self._refusal(str(os.getpid()))
        # Not flock: children made by fork, such as data workers, would keep the lock of a parent that was killed.
        import fcntl

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(descriptor, 200).decode(errors="replace").strip()
            os.close(descriptor)
            raise self._refusal(owner) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}\n".encode())
        _HELD[path] = descriptor

        def release() -> None:
            # The file stays: who unlinks it lets a third process lock a new one beside a second's.
            if path in _HELD:
                os.close(_HELD.pop(path))

        return release

    def _refusal(self, owner: str) -> MaxsupError:
        return MaxsupError(
            f"run directory must be used by one process at a time; got {str(self.path)!r}, in which process {owner} "
            "works. Wait for it, stop it, or choose another --output."
        )

    def _remove_others(self, kept: set[str]) -> None:
        for entry in self.checkpoints.iterdir():
            if entry.name not in kept and not entry.is_symlink() and "step-" in entry.name:
                shutil.rmtree(entry, ignore_errors=True)
