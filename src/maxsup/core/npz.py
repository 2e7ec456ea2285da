"""Arrays in an ``.npz`` archive: sizes are checked before memory is allocated, and nothing is unpickled."""

from __future__ import annotations

import io
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
_RATIO_FROM = 64 << 20  # sorted labels do shrink a hundredfold, and are small
_MAX_MEMBERS = 10_000
_MAX_HEADER = 1 << 17
_CHUNK = 1 << 22


class NpzFile:
    """The arrays of an archive by name; each is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise DataError(
                f"{path.name} must hold at most {_MAX_MEMBERS} arrays; got {len(members)}. Save those that are needed.",
                code="bad-array-file",
            )
        self._members = {member.filename.removesuffix(".npy"): member for member in members}

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._members)

    def kind(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype of an array, from its header alone."""
        with zipfile.ZipFile(self.path) as archive, archive.open(self._members[name]) as stream:
            shape, _, dtype = _header(stream)[0]
            return shape, dtype

    def read(self, name: str) -> NDArray[Any]:
        """An array, after its header, the directory and the rules agree on how large it is."""
        member = self._members[name]
        with zipfile.ZipFile(self.path) as archive, archive.open(member) as stream:
            return _content(stream, member, self.path.stat().st_size, f"{self.path.name}:{name}")


def _header(stream: IO[bytes]) -> tuple[tuple[tuple[int, ...], bool, np.dtype[Any]], bytes]:
    """Shape, order and dtype, and what was read behind them; a header may declare to be of any length itself."""
    head = io.BytesIO(stream.read(_MAX_HEADER))
    version = np.lib.format.read_magic(head)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read_header(head), head.read()


def _content(stream: IO[bytes], member: zipfile.ZipInfo, file_size: int, where: str) -> NDArray[Any]:
    (shape, is_fortran, dtype), begun = _header(stream)
    if dtype.hasobject:
        raise DataError(
            f"{where} must hold plain numbers; got Python objects, which are not read. Save numbers.",
            code="bad-array-file",
        )
    if not dtype.itemsize or min(shape, default=0) < 0:
        raise DataError(
            f"{where} must hold numbers or words; got {dtype} of shape {shape}. Save it again.", code="bad-array-file"
        )
    size, stored = math.prod(shape) * dtype.itemsize, member.file_size - (stream.tell() - len(begun))
    if size > MAX_BYTES or size != stored:
        raise DataError(
            f"{where} must hold what its header says, {MAX_BYTES} bytes at most; got a header for {size} bytes and "
            f"{stored} bytes of content. Save it as .npy, which may have any size.",
            code="bad-array-file",
        )
    compressed = min(member.compress_size, file_size)  # the directory may say anything
    if size > _RATIO_FROM and size > _MAX_RATIO * compressed:
        raise DataError(
            f"{where} must not be compressed more than {_MAX_RATIO} times; got {compressed} bytes that "
            f"unfold to {size}. Save it with numpy.savez or numpy.save, which do not compress.",
            code="bad-array-file",
        )
    flat = np.empty(math.prod(shape), dtype=dtype)
    content = flat.view(np.uint8) if size else np.empty(0, np.uint8)
    filled = 0
    while filled < size:
        part = begun or stream.read(min(_CHUNK, size - filled))
        begun = b""
        if not part:
            raise DataError(
                f"{where} must be complete; got {filled} of {size} bytes. Write it again.", code="bad-array-file"
            )
        content[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    return flat.reshape(shape, order="F" if is_fortran else "C")
