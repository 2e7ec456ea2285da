"""Masks in files: which belongs to which image, and reading one into class numbers.

A wrong label costs accuracy and nobody sees why. So every doubt about a mask is an error that names the file: another
size than its image, a label that is no class, colours, a lossy compression.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maxsup.core.errors import DataError
from maxsup.core.installation import imported
from maxsup.lab.data.pipelines.decoding import FORMATS, BadImageError, read_image
from maxsup.lab.segmentation.masks import MaskedImage

Palette = Literal["refuse", "index"]

_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp", ".gif")
_UNKNOWN = -1


class MaskFileReader:
    """Reads an image file and its mask file.

    Args:
        numbers: Class number of each value in a mask, :data:`~maxsup.lab.data.bundle.IGNORED_LABEL` for ignored values.
        palette: Whether a mask with a palette is refused or its indices are read as values.

    Example:
        >>> reader = MaskFileReader({0: 255, 1: 0, 2: 1})
        >>> reader.class_numbers(np.array([[0, 1], [2, 2]]), "mask.png").tolist()
        [[255, 0], [1, 1]]
    """

    def __init__(self, numbers: Mapping[int, int], palette: Palette = "refuse") -> None:
        if palette not in ("refuse", "index"):
            raise ValueError(f"palette must be refuse or index; got {palette!r}. With index, indices are classes.")
        self.numbers, self.palette = dict(numbers), palette
        self._table = np.full(max(numbers) + 1, _UNKNOWN, dtype=np.int16)
        self._table[list(numbers)] = list(numbers.values())

    def __call__(self, sample: tuple[str, str]) -> MaskedImage:
        """The image and the mask of two paths."""
        image_path, mask_path = sample
        try:
            image, _ = read_image(image_path)
        except BadImageError as error:
            raise DataError(
                f"image {image_path} must be readable; got {error}. Repair or remove it.", code="unreadable-file"
            ) from error
        values = _mask_values(mask_path, image.size, self.palette)
        return MaskedImage(image, self.class_numbers(values, mask_path), image_path)

    def class_numbers(self, values: NDArray[Any], path: str) -> NDArray[np.uint8]:
        """Return the class numbers of the values in a mask."""
        low, high = int(values.min()), int(values.max())
        if low >= 0 and high < len(self._table):
            numbers = self._table[values]
            if numbers.min() != _UNKNOWN:
                return numbers.astype(np.uint8)
            high = int(values[numbers == _UNKNOWN][0])
        raise DataError(
            f"labels in mask {path} must be {_ranges(sorted(self.numbers))}; got {low if low < 0 else high}. "
            "Correct the mask, or the number of classes and the ignored label.",
            code="bad-masks",
        )


def pair_files(images: Path, masks: Path) -> list[tuple[str, str]]:
    """Pair images and masks whose names differ only in the ending, from two folders or trees, sorted by name."""
    known_images, known_masks = _by_name(images), _by_name(masks)
    alone = [
        f"{len(names)} {kind}s without a partner, the first {one[min(names)]}"
        for kind, one, other in (("image", known_images, known_masks), ("mask", known_masks, known_images))
        if (names := one.keys() - other.keys())
    ]
    if alone:
        fix = "Give both the same name" if len(alone) > 1 else "Add what is missing or remove the rest"
        raise DataError(
            f"images in {images} and masks in {masks} must come in pairs of one name; got {' and '.join(alone)}. "
            f"{fix} (known endings: {', '.join(_ENDINGS)}).",
            code="bad-masks",
        )
    return [(str(path), str(known_masks[name])) for name, path in sorted(known_images.items())]


def _by_name(folder: Path) -> dict[str, Path]:
    known: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in _ENDINGS and not path.name.startswith("."):
            name = path.relative_to(folder).with_suffix("").as_posix()
            if name in known:
                raise DataError(
                    f"names in {folder} must differ in more than their ending; got {known[name].name} and {path.name}. "
                    "Remove one.",
                    code="bad-masks",
                )
            known[name] = path
    return known


def _mask_values(path: str, sides: tuple[int, int], palette: Palette) -> NDArray[Any]:
    """Read the stored values of a mask file, as integers ``(H, W)``."""
    pillow = imported("PIL.Image")
    try:
        with pillow.open(path, formats=FORMATS) as mask:
            # From the header, before anything is decoded.
            if mask.size != sides:
                raise DataError(
                    "mask {} must be as large as its image, {}x{}; got {}x{}. Scale it without interpolation, or find "
                    "the image it was drawn for.".format(path, *sides, *mask.size),
                    code="bad-masks",
                )
            if mask.format == "JPEG":
                raise DataError(
                    f"mask {path} must be stored without loss; got a JPEG file. Draw it again as PNG.", code="bad-masks"
                )
            return _values(mask, path, palette)
    except DataError:
        raise
    except Exception as error:
        # Decoders raise nearly anything on hostile bytes.
        raise DataError(
            f"mask {path} must be readable; got {type(error).__name__}: {error}. Repair it, or remove "
            f"it and its image.",
            code="unreadable-file",
        ) from error


def _values(mask: Any, path: str, palette: Palette) -> NDArray[Any]:
    if mask.mode == "P" and palette == "refuse":
        raise DataError(
            f"mask {path} must be grey, each value a class number; got a palette. Pass the option palette=index "
            "if its indices are class numbers, or save it as grey.",
            code="bad-masks",
        )
    if mask.mode in ("P", "L", "1") or mask.mode.startswith("I"):
        return np.asarray(mask).astype(np.int64)
    if mask.mode not in ("RGB", "RGBA", "LA"):
        raise DataError(
            f"mask {path} must be grey, each value a class number; got mode {mask.mode}. Save it as grey.",
            code="bad-masks",
        )
    channels = np.asarray(mask)[..., : 1 if mask.mode == "LA" else 3]
    if (channels != channels[..., :1]).any():
        raise DataError(
            f"mask {path} must be grey, each value a class number; got colours. Write the class number of each colour "
            "into a grey PNG file.",
            code="bad-masks",
        )
    return channels[..., 0].astype(np.int64)


def _ranges(values: list[int]) -> str:
    """Return sorted numbers as text.

    Example:
        >>> _ranges([0, 1, 2, 255])
        '0 to 2 or 255'
    """
    parts: list[list[int]] = []
    for value in values:
        if parts and parts[-1][-1] == value - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return " or ".join(f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
