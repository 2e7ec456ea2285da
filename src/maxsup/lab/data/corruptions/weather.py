"""Snow, frost, fog and spatter of CIFAR-10-C, each on a batch of RGB images in [0, 1].

Frost is ours: the published one adds parts of photographs of frosted windows to an image. Here the texture is drawn:
needles of ice on a cloudy film, about as bright as those photographs.
"""

from __future__ import annotations

import numpy as np

from maxsup.core.installation import imported
from maxsup.lab.data.corruptions.distortions import Pixels, Random, directed_blur, zoom_images

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_WATER = np.array([175, 238, 238], np.float32) / 255
_MUD = np.array([63, 42, 20], np.float32) / 255
_ICE = np.array([0.86, 0.94, 1.0], np.float32)


def fog(images: Pixels, level: tuple[float, float], random: Random) -> Pixels:
    """Add a fractal cloud of some ``thickness`` and restore the old range."""
    thickness, decay = level
    top = images.max((1, 2, 3), keepdims=True)
    clouds = fractal_clouds(max(images.shape[1:3]), decay, random)[:, : images.shape[1], : images.shape[2], None]
    return (images + thickness * clouds) * top / (top + thickness)


def fractal_clouds(side: int, decay: float, random: Random) -> Pixels:
    """Square maps in [0, 1] by the diamond-square algorithm; a larger ``decay`` makes smoother clouds."""
    size = 1 << max(side - 1, 1).bit_length()
    num_images = len(random)
    height = np.zeros((num_images, size, size), np.float32)
    step, roughness = size, 100.0

    def bump(total: Pixels) -> Pixels:
        # The published code multiplies the range of the bump by itself.
        return total / 4 + roughness * random.uniform(total.shape[1:], -roughness, roughness)

    while step >= 2:
        half = step // 2
        corners = height[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, 1)
        height[:, half::step, half::step] = bump(pairs + np.roll(pairs, -1, 2))
        centres = height[:, half::step, half::step]
        beside = centres + np.roll(centres, 1, 1) + corners + np.roll(corners, -1, 2)
        height[:, ::step, half::step] = bump(beside)
        above = centres + np.roll(centres, 1, 2) + corners + np.roll(corners, -1, 1)
        height[:, half::step, ::step] = bump(above)
        step, roughness = half, roughness / decay
    height -= height.min((1, 2), keepdims=True)
    return height / height.max((1, 2), keepdims=True)


def frost(images: Pixels, level: tuple[float, float], random: Random) -> Pixels:
    """The weighted sum of the image and a texture of ice."""
    kept, added = level
    return kept * images + added * _ice_texture(images, random)


def _ice_texture(images: Pixels, random: Random) -> Pixels:
    height, width = images.shape[1:3]
    film = fractal_clouds(max(height, width), 2.0, random)[:, :height, :width, None]
    angles = random.uniform((2,), 0, 180)
    seeds = (random.uniform((2, height, width, 1), 0, 1) > 0.93).astype(np.float32)
    needles = sum(directed_blur(seeds[:, way], 6, 4.0, angles[:, way] + turn) for way in range(2) for turn in (0, 180))
    return np.clip(0.1 + 0.4 * film + 0.8 * needles, 0, 1) * _ICE


def snow(images: Pixels, level: tuple[float, ...], random: Random) -> Pixels:
    """Flakes blown across a paler image.

    ``level``: mean and deviation of the flakes, their size, the threshold below which there is none, radius and sigma
    of the blur, and how much of the image keeps its colour.
    """
    mean, std, size, threshold, radius, sigma, kept = level
    height, width = images.shape[1:3]
    flakes = zoom_images(random.normal((height, width, 1), mean, std), size)
    flakes = np.clip(np.where(flakes < threshold, 0, flakes), 0, 1).astype(np.float32)
    flakes = directed_blur(flakes, int(radius), sigma, random.uniform((), -135, -45))
    pale = np.maximum(images, (images @ _LUMA)[..., None] * 1.5 + 0.5)
    return kept * images + (1 - kept) * pale + flakes + flakes[:, ::-1, ::-1]


def spatter(images: Pixels, level: tuple[float, float, float, float, float, str], random: Random) -> Pixels:
    """Drops of water or mud.

    ``level``: mean and deviation of the liquid, its smoothness, the threshold above which there is some, the strength
    (water) or softness (mud) of the drops, and which of the two.
    """
    mean, std, smoothness, threshold, strength, kind = level
    gaussian_filter = imported("scipy.ndimage").gaussian_filter
    liquid = random.normal(images.shape[1:3], mean, std)
    liquid = gaussian_filter(liquid, (0, smoothness, smoothness), mode="nearest")
    liquid = np.where(liquid < threshold, 0, liquid)
    if kind == "mud":
        drops = gaussian_filter((liquid > threshold).astype(np.float32), (0, strength, strength), mode="nearest")
        drops = np.where(drops < 0.8, 0, drops)[..., None]
        return images * (1 - drops) + drops * _MUD
    drops = np.stack([_shaded_drops(layer) for layer in np.clip(liquid * 255, 0, 255).astype(np.uint8)])
    return images + strength * drops[..., None] * _WATER


def _shaded_drops(liquid: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Pixels:
    """Drops lit from one side, in [0, 1]."""
    cv2 = imported("cv2")
    distance = cv2.distanceTransform(255 - cv2.Canny(liquid, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    relief = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
    light = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)
    relief = cv2.blur(cv2.filter2D(relief, cv2.CV_8U, light), (3, 3)).astype(np.float32)
    drops: Pixels = liquid * relief
    return drops / max(float(drops.max()), 1.0)
