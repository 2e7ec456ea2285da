"""Arrays in an ``.npz`` archive: sizes are checked before memory is allocated, and nothing is unpickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maxsup.core.errors import DataError

MAX_BYTES = 8 << 30
"""The most memory that one array of an archive may take."""

_MAX_RATIO = 100  # real logits shrink by a factor of 2 to 10, photos less
_RATIO_FROM = 256 << 20  # sorted labels do shrink a hundredfold, and are small
_CHUNK = 1 << 22


class NpzFile:
    """The arrays of an archive by name; each is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self._members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._members)

    def kind(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype of an array, from its header alone."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self._members[name]) as stream:
            shape, _, dtype = _header(stream)
            return shape, dtype

    def read(self, name: str) -> NDArray[Any]:
        """An array, after its header, the directory and the rules agree on how large it is."""
        member = self._members[name]
        with zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
            return _content(stream, member, f"{self.path.name}:{name}")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read_header(stream)


def _content(stream: IO[bytes], member: zipfile.ZipInfo, where: str) -> NDArray[Any]:
    shape, is_fortran, dtype = _header(stream)
    if dtype.hasobject:
        raise DataError(f"{where} must hold plain numbers; got Python objects, which are not read. Save numbers.")
    size, stored = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
    if size > MAX_BYTES or size != stored:
        raise DataError(
            f"{where} must hold what its header says, {MAX_BYTES} bytes at most; got a header for {size} bytes and "
            f"{stored} bytes of content. Save it as .npy, which may have any size."
        )
    if size > _RATIO_FROM and size > _MAX_RATIO * max(member.compress_size, 1):
        raise DataError(
            f"{where} must not be compressed more than {_MAX_RATIO} times; got {member.compress_size} bytes that "
            f"unfold to {size}. Save it with numpy.savez or numpy.save, which do not compress."
        )
    flat = np.empty(math.prod(shape), dtype=dtype)
    content = flat.view(np.uint8) if size else np.empty(0, np.uint8)
    filled = 0
    while filled < size:
        part = stream.read(min(_CHUNK, size - filled))
        if not part:
            raise DataError(f"{where} must be complete; got {filled} of {size} bytes. Write it again.")
        content[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    return flat.reshape(shape, order="F" if is_fortran else "C")
