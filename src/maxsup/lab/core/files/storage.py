"""Writing files so that a reader, or a crash at any moment, finds the old content or the new, never half of it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from maxsup.core.errors import StorageError

UNFINISHED = ".unfinished"
"""Where files are, inside of an existing folder, until all of them are written."""

_CHUNK = 1 << 24


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write and fsync a new file; a failure names its path and size."""
    _write(path, memoryview(content), os.O_TRUNC)


def append_line(path: Path, line: str) -> None:
    """Add one line to a file and fsync it; after a failure the file is as it was."""
    _write(path, memoryview((line + "\n").encode()), os.O_APPEND)


def _write(path: Path, content: memoryview, mode: int) -> None:
    written = 0
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            try:
                while written < len(content):
                    written += os.write(descriptor, content[written : written + _CHUNK])
                os.fsync(descriptor)
            except OSError:
                if mode == os.O_APPEND:
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise failed_write(path, len(content), written, error) from error


def replace_bytes(path: Path, content: bytes) -> None:
    """Put ``content`` in the place of a file: a temporary name, fsync, rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_bytes(temporary, content)
        try:
            os.replace(temporary, path)
            sync_folder(path.parent)
        except OSError as error:
            raise failed_write(path, len(content), 0, error) from error
    except StorageError:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_file(path: Path, content: bytes, *, fix: str = "Choose another output.") -> None:
    """Put ``content`` in the place of a file, whose folder is made if need be."""
    make_folder(path.parent, fix=fix)
    replace_bytes(path, content)


@contextmanager
def filled_at_once(folder: Path) -> Iterator[Path]:
    """A new folder for files, which take their places in ``folder`` when the block ends; if it fails, none does."""
    is_new = not folder.exists()
    if not is_new:
        make_folder(folder)
    # An existing folder may be a mounted disk: renames work inside of it alone.
    parts = folder.with_name(f".{folder.name}.tmp") if is_new else folder / UNFINISHED
    shutil.rmtree(parts, ignore_errors=True)
    make_folder(parts)
    placed = list[Path]()
    try:
        yield parts
        if is_new:
            parts.rename(folder)
            placed.append(folder)
        for part in [] if is_new else sorted(parts.rglob("*")):
            place = folder / part.relative_to(parts)
            if not place.exists():
                placed.append(place)
            if part.is_dir():
                make_folder(place)
            else:
                os.replace(part, place)
        sync_folder(folder)
    except BaseException as error:
        for place in reversed(placed):
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise StorageError(
                f"{folder} must be writable; got {error.strerror or error}. Make room or choose another output; "
                "nothing of it was written.",
                code="not-writable",
            ) from error
        raise
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def replace_link(link: Path, target: str) -> None:
    """Point a symbolic link elsewhere in one step; it survives a power cut after :func:`sync_folder`."""
    temporary = link.with_name(f".{link.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        os.replace(temporary, link)
    except OSError as error:
        raise failed_write(link, len(target), 0, error) from error


def make_folder(folder: Path, *, fix: str = "Choose another output.") -> None:
    """Make a folder and its parents unless they exist; raise where a file is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(folder, error, fix) from error


def check_folder(folder: Path) -> None:
    """Raise what :func:`make_folder` would raise, but make nothing; for use before long work."""
    found = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    number = errno.EACCES
    if not found.is_dir():
        number = errno.EEXIST if found == folder else errno.ENOTDIR
    elif os.access(found, os.W_OK | os.X_OK):
        return
    raise _no_folder(folder, OSError(number, os.strerror(number)))


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_space(folder: Path, num_bytes: int) -> None:
    """Raise before writing where a disk has too little room left."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise StorageError(
            f"{folder} must have room for {num_bytes} bytes; got {free} bytes free. "
            "Free some space and give the same command again: the run goes on from its last checkpoint.",
            code="disk-full",
        )


def failed_write(path: Path, num_bytes: int, written: int, error: OSError) -> StorageError:
    """The sentence for a write that did not succeed."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return _no_folder(Path(error.filename or path), error)
    return StorageError(
        f"{path} must be writable; got {error.strerror or error} after {written} of {num_bytes} bytes. "
        "Make room or choose another output; what was saved before is intact.",
        code="write-failed",
    )


@contextmanager
def kept_if_possible(what: str) -> Iterator[None]:
    """Turn a failed write into a warning, for results that took long to compute and can still be printed."""
    try:
        yield
    except StorageError as error:
        warnings.warn(f"{what} not kept: {error}", stacklevel=3)


def _no_folder(folder: Path, error: OSError, fix: str = "Choose another output.") -> StorageError:
    reasons = {errno.EEXIST: "a file of that name", errno.ENOTDIR: "a file in the place of a folder above it"}
    reason = reasons.get(error.errno or 0) or error.strerror or str(error)
    return StorageError(f"{folder} must be a folder that can be made; got {reason}. {fix}")


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON: a number that is not finite becomes null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
