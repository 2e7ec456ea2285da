"""What a pretrained network expects of an image."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """Size, crop, interpolation and normalisation, as a recipe says them.

    Args:
        image_size: Side of the square that the network sees; None for images as they are.
        crop_pct: That side over the side the image is scaled to.
        crop_mode: ``center`` scales the shorter side, ``squash`` both.
        interpolation: How it is scaled.
        mean: Of each channel, of pixels in [0, 1].
        std: Of each channel.
        source: Who says so.
    """

    image_size: int | None
    crop_pct: float
    crop_mode: str
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str
