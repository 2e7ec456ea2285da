"""Reading back what a run wrote, without trusting it: the error names the damaged file, and the command exits with 5.

Our JSON objects end with a checksum of the rest, and a checkpoint lists the digests of its files. Both may be absent:
folders of earlier versions have none.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxsup.core.errors import DataError, StorageError
from maxsup.lab.core.files.storage import json_text

_CHECKSUM = "checksum"
_CHUNK = 1 << 22


def read_plain(path: Path) -> bytes:
    """The content of a file; a folder or a pipe in its place is an error instead of a wait."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "something that is no file")
            return file.read()
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error


def read_words(path: Path) -> str:
    """The text of a list that a person wrote, of classes for instance.

    Raises:
        DataError: It is no UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error.strerror
        raise DataError(
            f"{path} must be UTF-8 text; got {reason}. Save it as UTF-8.", code="unreadable-file"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, without its checksum."""
    value = _parsed(path, read_plain(path))
    written = value.pop(_CHECKSUM, None)
    if written is not None and written != _checksum(value):
        raise damaged(path, "other content than was written")
    return value


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file with one a line, one at a time; none where there is no file."""
    if os.path.lexists(path):
        for line in read_plain(path).splitlines():
            yield _parsed(path, line)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """All that :func:`json_lines` gives."""
    return list(json_lines(path))


def whole_lines(path: Path) -> list[bytes]:
    """Lines that end with a newline: a last line without one was cut by a crash."""
    lines = read_plain(path).splitlines(keepends=True) if os.path.lexists(path) else []
    return [line for line in lines if line.endswith(b"\n")]


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the checksum by which :func:`read_json` knows that it is undamaged."""
    return {**value, _CHECKSUM: _checksum(value)}


def file_digest(path: Path, num_bytes: int | None = None) -> str:
    """A digest of a file, or of its first ``num_bytes``."""
    digest = hashlib.blake2b(digest_size=16)
    left = path.stat().st_size if num_bytes is None else num_bytes
    with path.open("rb") as file:
        while chunk := file.read(min(_CHUNK, left)):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Report an error of the code inside, which uses the content of a file, as damage of that file."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(path, f"{type(error).__name__} {error}") from error


def damaged(path: Path, what: str) -> StorageError:
    """The sentence for a file that is not as it was written."""
    return StorageError(
        f"{path} must be as it was written; got {what}. Copy it again from where it is whole.", code="damaged-file"
    )


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content.decode(), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"no JSON ({error})") from error
    if not isinstance(value, dict):
        raise damaged(path, f"{type(value).__name__} in the place of a JSON object")
    return value


def _checksum(value: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json_text(value).encode()):08x}"


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
