"""The 15 + 4 corruptions of CIFAR-10-C at 5 severities, for any test set in memory.

Definitions and severities are those of Hendrycks and Dietterich (2019) for 32x32 images; larger images get the same
numbers, in pixels. Two things differ from the published files. Frost is drawn, because the photographs it was cut from
are not part of this package (``weather.py``). Each image has a random generator of its own, the same at every severity:
its noise depends on the seed and its index only, and severities differ in strength alone. Use the official files
(``cifar10_c``) to compare with published numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxsup.core.checks import check_choice
from maxsup.lab.data.bundle import MemorySplit
from maxsup.lab.data.corruptions import distortions, weather
from maxsup.lab.data.corruptions.distortions import Pixels, Random

Distortion = Callable[[Pixels, Any, Random], Pixels]

# The functions explain the parameters of the severities 1 to 5.
_TABLE: Mapping[str, tuple[Distortion, tuple[Any, ...]]] = {
    "gaussian_noise": (distortions.gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": (distortions.shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": (distortions.impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "defocus_blur": (distortions.defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "glass_blur": (distortions.glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))),
    "motion_blur": (distortions.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (distortions.zoom_blur, (6, 11, 16, 21, 26)),
    "snow": (
        weather.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "frost": (weather.frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (weather.fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "brightness": (distortions.brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": (distortions.contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "elastic_transform": (
        distortions.elastic_transform,
        ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
    "pixelate": (distortions.pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg_compression": (distortions.jpeg_compression, (80, 65, 58, 50, 40)),
    "speckle_noise": (distortions.speckle_noise, (0.06, 0.1, 0.12, 0.16, 0.2)),
    "gaussian_blur": (distortions.gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1)),
    "spatter": (
        weather.spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, "water"),
            (0.65, 0.1, 0.8, 0.7, 0.5, "water"),
            (0.65, 0.3, 1, 0.69, 0.5, "water"),
            (0.65, 0.1, 0.7, 0.69, 0.6, "mud"),
            (0.65, 0.1, 0.5, 0.68, 0.6, "mud"),
        ),
    ),
    "saturate": (distortions.saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
}

CORRUPTIONS = tuple(_TABLE)[:15]
"""The fifteen of every published mean."""

EXTRA_CORRUPTIONS = tuple(_TABLE)[15:]
"""Four more for validation, never part of the mean."""

SEVERITIES = (1, 2, 3, 4, 5)

_CHUNK = 500


def corrupt(images: Tensor, name: str, severity: int, *, seed: int = 0) -> Tensor:
    """Images, uint8 ``(N, C, H, W)`` in grey or RGB, with one of ``CORRUPTIONS`` or ``EXTRA_CORRUPTIONS``.

    Example:
        >>> grey = torch.full((1, 3, 32, 32), 128, dtype=torch.uint8)
        >>> corrupt(grey, "brightness", 3)[0, :, 0, 0]
        tensor([166, 166, 166], dtype=torch.uint8)
    """
    check_cell(name, severity)
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] not in (1, 3):
        raise ValueError(
            f"images must be uint8 (N, C, H, W), grey or RGB; got {images.dtype} {tuple(images.shape)}. "
            "Pass the images of a MemorySplit."
        )
    distort, levels = _TABLE[name]
    parts = []
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK].expand(-1, 3, -1, -1).permute(0, 2, 3, 1).contiguous().numpy()
        random = Random(seed, name, range(start, start + len(chunk)))
        pixels = distort(chunk.astype(np.float32) / 255, levels[severity - 1], random)
        parts.append(torch.from_numpy(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)).permute(0, 3, 1, 2))
    if not parts:
        return images.clone()
    made = torch.cat(parts)
    if images.shape[1] == 1:
        made = made.float().mean(1, keepdim=True).round().to(torch.uint8)
    return made.contiguous()


def check_cell(name: str, severity: int) -> None:
    """Raise unless the corruption and the severity exist."""
    check_choice("corruption", name, tuple(_TABLE))
    if severity not in SEVERITIES:
        raise ValueError(f"severity must be from 1 to 5; got {severity!r}. 1 is the mildest.")


def corrupted_split(split: MemorySplit, name: str, severity: int, *, seed: int = 0) -> MemorySplit:
    """A split with one corruption; its labels and factors stay."""
    if not isinstance(split, MemorySplit):
        raise ValueError(f"split must be in memory to be corrupted; got {split.describe()}. Store it as an .npz first.")
    return MemorySplit(corrupt(split.images, name, severity, seed=seed), split.labels, split.factors)
