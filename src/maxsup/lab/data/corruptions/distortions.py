"""Noise, blur and digital corruptions of CIFAR-10-C, each on a batch of RGB images in [0, 1].

The second argument holds the parameters of a severity; :mod:`maxsup.lab.data.corruptions.catalogue` has the table.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxsup.core.installation import imported
from maxsup.lab.core.repro import mixed_seed

Pixels = NDArray[np.floating[Any]]
"""RGB images in [0, 1], ``(N, H, W, 3)``."""


class Random:
    """Draws arrays with one row an image, each row from the generator of its image alone.

    Example:
        >>> both, second = Random(0, "noise", [7, 8]), Random(0, "noise", [8])
        >>> bool((both.normal((2,))[1] == second.normal((2,))[0]).all())
        True
    """

    def __init__(self, seed: int, name: str, indices: Iterable[int]) -> None:
        self._generators = [np.random.default_rng(mixed_seed(seed, name, index)) for index in indices]

    def __len__(self) -> int:
        return len(self._generators)

    def normal(self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0) -> Pixels:
        """Normal numbers, ``(N, *shape)``."""
        return np.stack([each.normal(mean, std, shape) for each in self._generators]).astype(np.float32)

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> Pixels:
        """Uniform numbers, ``(N, *shape)``."""
        return np.stack([each.uniform(low, high, shape) for each in self._generators]).astype(np.float32)

    def integers(self, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.int64]:
        """Integers from ``low`` to ``high - 1``, ``(N, *shape)``."""
        return np.stack([each.integers(low, high, shape) for each in self._generators])

    def poisson(self, rates: NDArray[Any]) -> Pixels:
        """Counts with these rates, one row an image."""
        drawn = [each.poisson(rate) for each, rate in zip(self._generators, rates, strict=True)]
        return np.stack(drawn).astype(np.float32)


def gaussian_noise(images: Pixels, std: float, random: Random) -> Pixels:
    """Normal noise on every value."""
    return images + std * random.normal(images.shape[1:])


def shot_noise(images: Pixels, photons: float, random: Random) -> Pixels:
    """Poisson noise: ``photons`` are counted where an image is white."""
    return random.poisson(images * photons) / np.float32(photons)


def impulse_noise(images: Pixels, share: float, random: Random) -> Pixels:
    """A share of all values becomes 0 or 1, either half the time."""
    chance = random.uniform(images.shape[1:], 0.0, 1.0)
    return np.where(chance < share / 2, np.float32(0), np.where(chance > 1 - share / 2, np.float32(1), images))


def speckle_noise(images: Pixels, std: float, random: Random) -> Pixels:
    """Normal noise in proportion to the value."""
    return images + images * std * random.normal(images.shape[1:])


def gaussian_blur(images: Pixels, sigma: float, random: Random) -> Pixels:
    """Gaussian blur."""
    return imported("scipy.ndimage").gaussian_filter(images, (0, sigma, sigma, 0), mode="nearest")


def glass_blur(images: Pixels, level: tuple[float, int, int], random: Random) -> Pixels:
    """Blur of ``sigma``, pixels moved by up to ``reach``, ``rounds`` times, and the same blur again."""
    sigma, reach, rounds = level
    height, width = images.shape[1:3]
    moved = gaussian_blur(images, sigma, random).copy()
    everyone = np.arange(len(images))
    steps = random.integers((rounds, height, width, 2), -reach, reach)
    for turn in range(rounds):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                # The code of the published files meant to swap two pixels and copies one onto the other.
                down, right = steps[:, turn, row - 1, column - 1].T
                moved[:, row, column] = moved[everyone, row + down, column + right]
    return gaussian_blur(moved, sigma, random)


def defocus_blur(images: Pixels, level: tuple[float, float], random: Random) -> Pixels:
    """Convolution with a disk of ``radius`` whose edge is softened by ``softness``."""
    cv2 = imported("cv2")
    radius, softness = level
    reach = math.ceil(radius) + 1
    rows, columns = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = (rows**2 + columns**2 <= radius**2).astype(np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), ksize=(3, 3), sigmaX=softness)
    return np.stack([cv2.filter2D(image, -1, kernel) for image in images])


def motion_blur(images: Pixels, level: tuple[int, float], random: Random) -> Pixels:
    """Blur along a line of a random angle within 45 degrees of the horizontal."""
    return directed_blur(images, *level, random.uniform((), -45, 45))


def directed_blur(images: Pixels, radius: int, sigma: float, angles: Pixels) -> Pixels:
    """Half a Gaussian along a line, one angle in degrees an image, as ImageMagick draws motion."""
    cv2 = imported("cv2")
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    blurred = []
    for image, angle in zip(images, np.deg2rad(angles), strict=True):
        rows = np.ceil(steps * np.sin(angle) - 0.5).astype(int)
        columns = np.ceil(steps * np.cos(angle) - 0.5).astype(int)
        kernel = np.zeros((4 * radius + 1, 4 * radius + 1), np.float32)
        np.add.at(kernel, (rows + 2 * radius, columns + 2 * radius), weights)
        blurred.append(cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REPLICATE))
    # OpenCV drops a last axis of one.
    return np.stack(blurred).reshape(images.shape)


def zoom_blur(images: Pixels, num_zooms: int, random: Random) -> Pixels:
    """Mean of the image and of itself enlarged by 1.00, 1.01, 1.02 and so on."""
    total = images.copy()
    for step in range(num_zooms):
        total += zoom_images(images, 1 + step / 100)
    return total / (num_zooms + 1)


def zoom_images(images: Pixels, factor: float) -> Pixels:
    """The middle of each image, enlarged to its old size by linear interpolation."""
    rows, columns = (_zoom_weights(side, factor) for side in images.shape[1:3])
    return np.einsum("ih,nhwc,jw->nijc", rows, images, columns, optimize=True)


def _zoom_weights(side: int, factor: float) -> Pixels:
    """Weights of the pixels of a line in the pixels of the enlarged line."""
    kept = math.ceil(side / factor)
    enlarged = round(kept * factor)
    first = (side - kept) // 2
    where = (np.arange(side) + (enlarged - side) // 2) * (kept - 1) / max(enlarged - 1, 1) + first
    below = np.clip(np.floor(where).astype(int), 0, side - 2)
    share = (where - below).astype(np.float32)
    weights = np.zeros((side, side), np.float32)
    weights[np.arange(side), below] = 1 - share
    weights[np.arange(side), below + 1] = share
    return weights


def brightness(images: Pixels, amount: float, random: Random) -> Pixels:
    """A higher value in the sense of hue, saturation, value."""
    value = images.max(-1, keepdims=True)
    brighter = np.clip(value + amount, 0, 1)
    return np.where(value > 0, images * brighter / np.maximum(value, 1e-6), brighter)


def saturate(images: Pixels, level: tuple[float, float], random: Random) -> Pixels:
    """Saturation times a factor plus an offset."""
    factor, offset = level
    value = images.max(-1, keepdims=True)
    # Grey has no hue; the conversion of the published code takes red.
    lack = value - images
    is_grey = lack.max(-1, keepdims=True) == 0
    lack = np.where(is_grey, value * np.array([0, 1, 1], np.float32), lack)
    saturation = np.where(is_grey, 0, lack.max(-1, keepdims=True) / np.maximum(value, 1e-6))
    wanted = np.clip(saturation * factor + offset, 0, 1)
    return value - lack * wanted / np.maximum(np.where(is_grey, 1, saturation), 1e-6)


def contrast(images: Pixels, factor: float, random: Random) -> Pixels:
    """Distance from the mean colour of the image, times a factor."""
    mean = images.mean((1, 2), keepdims=True)
    return (images - mean) * factor + mean


def elastic_transform(images: Pixels, level: tuple[float, float, float], random: Random) -> Pixels:
    """A random affine map, then a smooth random displacement; strength, smoothness and tilt in image sides."""
    cv2, ndimage = imported("cv2"), imported("scipy.ndimage")
    height, width = images.shape[1:3]
    strength, smoothness, tilt = (part * min(height, width) for part in level)
    middle, reach = np.array([width // 2, height // 2]), min(height, width) // 3
    corners = (middle + reach * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
    tilts = random.uniform((3, 2), -tilt, tilt)
    field = random.uniform((2, height, width), -1, 1)
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    made = []
    for image, tilted, (right, down) in zip(images, corners + tilts, field, strict=True):
        affine = cv2.getAffineTransform(corners, tilted)
        moved = cv2.warpAffine(image, affine, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        if strength > 0:
            right, down = (
                strength * ndimage.gaussian_filter(part, smoothness, mode="reflect", truncate=3)
                for part in (right, down)
            )
            moved = cv2.remap(moved, columns + right, rows + down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        made.append(moved)
    return np.stack(made)


def pixelate(images: Pixels, share: float, random: Random) -> Pixels:
    """Scaled down to a share of the size and up again, without smoothing."""
    box = imported("PIL.Image").Resampling.BOX
    height, width = images.shape[1:3]
    small = int(width * share), int(height * share)
    return _through_pillow(images, lambda image: image.resize(small, box).resize((width, height), box))


def jpeg_compression(images: Pixels, quality: int, random: Random) -> Pixels:
    """JPEG compression of low quality."""

    def compress(image: Any) -> Any:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=quality)
        return imported("PIL.Image").open(file)

    return _through_pillow(images, compress)


def _through_pillow(images: Pixels, change: Callable[[Any], Any]) -> Pixels:
    """Images that are changed one by one as Pillow images of 8 bits."""
    opened = map(imported("PIL.Image").fromarray, np.rint(images * 255).astype(np.uint8))
    return np.stack([np.asarray(change(image)) for image in opened]).astype(np.float32) / 255
