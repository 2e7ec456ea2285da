"""Transforms of an image together with its mask.

Training scales both so that the shorter side is ``dense.resize`` times a random factor, crops at random, mirrors half
of them, changes colours, and pads what is smaller than the crop. Evaluation scales the image and leaves the mask as it
is. Images are interpolated, labels never are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxsup.core.installation import imported
from maxsup.lab.data.bundle import IGNORED_LABEL

if TYPE_CHECKING:
    from maxsup.lab.core.config import DenseConfig

Bytes = NDArray[np.uint8]

# The longer side of a scaled image is at most this many times ``dense.resize``.
_MAX_ASPECT = 4
_MAX_REDRAWS = 10

# Photometric distortion as in SSD (Liu et al. 2016): a shift of the grey level, factors, a shift of the hue in degrees.
_BRIGHTNESS = 32.0
_FACTOR = (0.5, 1.5)
_HUE = 36.0


class Cutout(NamedTuple):
    """A square of an image with its labels; all but the upper left ``height`` by ``width`` pixels are padding."""

    pixels: Bytes
    mask: Bytes
    height: int
    width: int


class TrainingCutout:
    """Random square parts, with sides of ``size``, of images with their masks."""

    def __init__(self, dense: DenseConfig, flip: bool, size: int) -> None:
        self.dense, self.flip, self.size = dense, flip, size

    def __call__(self, image: Any, mask: Bytes, random: np.random.Generator) -> Cutout:
        """A random part; ``random`` is the only source of randomness."""
        dense, size = self.dense, self.size
        sides = scale_sides(image.size, dense.resize, random.uniform(*dense.ratio))
        pixels, mask = resize_image(image, sides), resize_mask(mask, sides)
        rows, columns = draw_crop(mask, size, dense.cat_max_ratio, random)
        pixels, mask = pixels[rows, columns], mask[rows, columns]
        if self.flip and random.random() < 0.5:
            pixels, mask = pixels[:, ::-1], mask[:, ::-1]
        if dense.photometric:
            pixels = distort_colours(pixels, random)
        return fill_up(pixels, mask, size)


def scale_sides(sides: tuple[int, int], resize: int | None, ratio: float = 1.0) -> tuple[int, int]:
    """Return width and height: the shorter at ``resize``, the longer at most 4 times that, both times ``ratio``.

    Example:
        >>> scale_sides((640, 480), 240), scale_sides((1000, 100), 240), scale_sides((640, 480), None, 0.5)
        ((320, 240), (960, 96), (320, 240))
    """
    factor = ratio
    if resize is not None:
        factor *= min(_MAX_ASPECT * resize / max(sides), resize / min(sides))
    width, height = (max(1, int(side * factor + 0.5)) for side in sides)
    return width, height


def resize_image(image: Any, sides: tuple[int, int]) -> Bytes:
    """Scale an RGB image of Pillow bilinearly to width and height; return it as ``(H, W, 3)``."""
    if image.size != sides:
        image = image.resize(sides, imported("PIL.Image").Resampling.BILINEAR)
    return np.asarray(image)


def resize_mask(mask: Bytes, sides: tuple[int, int]) -> Bytes:
    """Scale labels to width and height by the nearest pixel, so that no new label appears.

    Example:
        >>> resize_mask(np.array([[7, 255]], dtype=np.uint8), (4, 2)).tolist()
        [[7, 7, 255, 255], [7, 7, 255, 255]]
    """
    height, width = mask.shape
    if (width, height) == sides:
        return mask
    pillow = imported("PIL.Image")
    return np.asarray(pillow.fromarray(mask).resize(sides, pillow.Resampling.NEAREST))


def draw_crop(mask: Bytes, size: int, max_share: float, random: np.random.Generator) -> tuple[slice, slice]:
    """Draw rows and columns of a random square, or of as much of one as there is.

    With ``max_share`` below 1 it is drawn again, up to 10 times, while one class has this share of its labelled pixels
    or more, or it holds fewer than two classes. The last draw is taken as it is.
    """
    crop = _random_crop(mask, size, random)
    for _ in range(_MAX_REDRAWS if max_share < 1.0 else 0):
        counts = np.bincount(mask[crop].ravel(), minlength=IGNORED_LABEL + 1)[:IGNORED_LABEL]
        if np.count_nonzero(counts) > 1 and counts.max() < max_share * counts.sum():
            break
        crop = _random_crop(mask, size, random)
    return crop


def _random_crop(mask: Bytes, size: int, random: np.random.Generator) -> tuple[slice, slice]:
    top, left = (int(random.integers(0, max(side - size, 0) + 1)) for side in mask.shape)
    return slice(top, top + size), slice(left, left + size)


def distort_colours(pixels: Bytes, random: np.random.Generator) -> Bytes:
    """Change brightness, contrast, saturation and hue, with a chance of 1/2 each.

    A coin decides whether contrast changes before saturation and hue or after them.
    """
    if random.random() < 0.5:
        pixels = _round_pixels(pixels + random.uniform(-_BRIGHTNESS, _BRIGHTNESS))
    is_contrast_first = random.random() < 0.5
    factor = random.uniform(*_FACTOR) if random.random() < 0.5 else 1.0
    if is_contrast_first:
        pixels = _round_pixels(pixels * factor)
    pixels = _tint(pixels, random)
    return pixels if is_contrast_first else _round_pixels(pixels * factor)


def _tint(pixels: Bytes, random: np.random.Generator) -> Bytes:
    factor = random.uniform(*_FACTOR) if random.random() < 0.5 else 1.0
    shift = random.uniform(-_HUE, _HUE) if random.random() < 0.5 else 0.0
    if factor == 1.0 and shift == 0.0:
        return pixels
    pillow = imported("PIL.Image")
    image = pillow.fromarray(np.ascontiguousarray(pixels)).convert("HSV")
    parts = np.array(image)
    # Pillow's hue is a circle of 255 steps: 0 and 255 are the same red.
    parts[..., 0] = (parts[..., 0].astype(np.int16) + round(shift * 255 / 360)) % 255
    parts[..., 1] = _round_pixels(parts[..., 1] * factor)
    return np.asarray(pillow.frombytes("HSV", image.size, parts.tobytes()).convert("RGB"))


def _round_pixels(values: NDArray[np.floating[Any]]) -> Bytes:
    return np.rint(values).clip(0, 255).astype(np.uint8)


def fill_up(pixels: Bytes, mask: Bytes, size: int) -> Cutout:
    """Pad to a square, on the right and at the bottom, with 0 and the ignored label.

    Example:
        >>> cutout = fill_up(np.full((1, 2, 3), 9, np.uint8), np.full((1, 2), 4, np.uint8), 2)
        >>> cutout.mask.tolist(), cutout.pixels[..., 0].tolist(), (cutout.height, cutout.width)
        ([[4, 4], [255, 255]], [[9, 9], [0, 0]], (1, 2))
    """
    height, width = mask.shape
    below, right = size - height, size - width
    pixels = np.pad(pixels, ((0, below), (0, right), (0, 0)))
    mask = np.pad(mask, ((0, below), (0, right)), constant_values=IGNORED_LABEL)
    return Cutout(pixels, mask, height, width)
