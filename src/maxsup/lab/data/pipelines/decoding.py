"""Opening image files that nobody has checked.

Whatever is wrong with a file becomes a :class:`BadImageError` with a reason. A file that is only odd is read, with a
note that says what is odd.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxsup.core.installation import imported

MAX_PIXELS = 64_000_000
_MAX_ASPECT = 100

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Raster formats only: others (EPS, for one) would start foreign programs."""


class BadImageError(Exception):
    """An image that cannot be used, and why."""


def image_header(source: Any) -> tuple[tuple[int, int], str]:
    """Width and height of an image and Pillow's name of its mode; pixels are not decoded.

    Raises:
        BadImageError: If the file does not begin like an image.
    """
    with _open_image(source, "ignore", Warning) as image:
        return image.size, image.mode


def read_image(source: Any) -> tuple[Any, str | None]:
    """The RGB image of a path or open file, and what is odd about it.

    Raises:
        BadImageError: If there is no usable image.
    """
    with _open_image(source, "error", imported("PIL.Image").DecompressionBombWarning) as image:
        # Before anything is decoded: the header alone says how much memory it would take.
        width, height = image.size
        if width * height >= MAX_PIXELS:
            raise BadImageError(f"{width}x{height} is more than 64 megapixels")
        if max(width, height) > _MAX_ASPECT * min(width, height):
            raise BadImageError(f"{width}x{height} is a line, not an image")
        note = _oddity(image, source)
        return _rgb(image), note


@contextmanager
def _open_image(source: Any, action: Any, category: type[Warning]) -> Iterator[Any]:
    pillow = imported("PIL.Image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(action, category)
            with pillow.open(source, formats=FORMATS) as image:
                yield image
    except BadImageError:
        raise
    except Exception as error:
        # Decoders raise nearly anything on hostile bytes; none of it may end a run.
        raise BadImageError(f"{type(error).__name__}: {error}") from error


def _oddity(image: Any, source: Any) -> str | None:
    notes = []
    if isinstance(source, str | Path):
        suffix = Path(source).suffix.lower()
        named = imported("PIL.Image").registered_extensions().get(suffix)
        if named is not None and named != image.format and image.format != "MPO":
            notes.append(f"named {suffix} but holds {image.format}")
    if image.mode == "CMYK":
        notes.append("CMYK, converted to RGB")
    if image.mode.startswith("I"):
        notes.append("16 bit, scaled to 8")
    # A second picture is usual in camera files (MPO) and nothing odd.
    if image.format != "MPO" and getattr(image, "is_animated", False):
        notes.append(f"first of {image.n_frames} frames")
    return "; ".join(notes) or None


def _rgb(image: Any) -> Any:
    if image.mode == "F":
        raise BadImageError("floating-point pixels have no agreed range")
    if image.mode.startswith("I"):
        pixels = np.asarray(image).astype(np.int64)
        if pixels.min() < 0 or pixels.max() > 65535:
            raise BadImageError("more than 16 bit a pixel")
        image = imported("PIL.Image").fromarray((pixels // 257).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
