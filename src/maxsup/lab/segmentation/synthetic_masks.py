"""Images with masks that are drawn here from scikit-learn's digits."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.installation import imported
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.bundle import IGNORED_LABEL, stratified_split
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData
from maxsup.lab.data.sets.digits import digit_images, hue_to_rgb
from maxsup.lab.segmentation.masks import MaskedImage, MaskSplit

# Sides of a digit relative to the canvas.
_SIDES = (0.3, 0.45)
# A pixel with this much ink belongs to the digit; one with a trace of ink is no background.
_INK, _TRACE = 0.5, 0.2
_NUM_DIGITS = (2, 4)
_BACKGROUND, _NOISE = 0.4, 0.05
_TEST_SHARE = 0.4


@DATASETS.register(
    "synthetic_masks",
    images="360 + 40 + 100 of 3x64x64 with masks, 11 classes",
    source="drawn here from scikit-learn's digits",
    task="segmentation",
)
def synthetic_masks(
    request: DataRequest,
    *,
    num_train: int = 400,
    num_test: int = 100,
    size: int = 64,
    by_digit: bool = True,
    seed: int = 0,
) -> RawData:
    """Coloured digits on a noisy background; the class of a pixel is its digit or the background.

    The strip where a digit fades into the background is ignored. The same source digit is never in two splits.

    Args:
        request: What is asked for.
        num_train: Images of train and val together.
        num_test: Images of the test split.
        size: Side of the images.
        by_digit: Whether each digit is a class of its own; one class for all digits is learnt much faster.
        seed: Seed of everything that is random about an image.
    """
    for name, value, least in (("num_train", num_train, 2), ("num_test", num_test, 1), ("size", size, 32)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}; got {value!r}. Raise it.")
    images, digits = digit_images()
    names = ("background", *"0123456789") if by_digit else ("background", "digit")
    labels = digits if by_digit else torch.zeros_like(digits)
    kept, test = stratified_split(digits, _TEST_SHARE, seed=0)
    train, val = (kept[part] for part in stratified_split(digits[kept], request.val_share, request.split_seed))
    num_val = max(1, round(request.val_share * num_train)) if request.val_share else 0
    parts = {"train": (train, num_train - num_val), "val": (val, num_val), "test": (test, num_test)}
    splits = {}
    for name, (members, count) in parts.items():
        glyphs = images[members].float() / 255
        drawn = [
            (f"{name} image {number}", *_scene(glyphs, labels[members], size, mixed_seed(seed, name, number)))
            for number in range(count)
        ]
        splits[name] = MaskSplit(drawn, _drawn_image, place="memory")
    return RawData(splits["train"], splits["test"], names, val=splits["val"] if num_val else None)


def _drawn_image(sample: tuple[str, NDArray[np.uint8], NDArray[np.uint8]]) -> MaskedImage:
    name, pixels, mask = sample
    return MaskedImage(imported("PIL.Image").fromarray(pixels), mask, name)


def _scene(glyphs: Tensor, labels: Tensor, size: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw an image ``(H, W, 3)`` and its mask; later digits cover earlier ones."""
    generator = torch.Generator().manual_seed(seed)
    # Patches of colour, so that no threshold tells a digit from its background.
    canvas = F.interpolate(torch.rand(1, 3, 5, 5, generator=generator) * _BACKGROUND, size, mode="bilinear")[0]
    mask = torch.zeros(size, size, dtype=torch.uint8)
    for _ in range(int(torch.randint(_NUM_DIGITS[0], _NUM_DIGITS[1] + 1, (), generator=generator))):
        chosen = int(torch.randint(len(labels), (), generator=generator))
        hue, length, top, left = torch.rand(4, generator=generator)
        side = round(size * (_SIDES[0] + (_SIDES[1] - _SIDES[0]) * float(length)))
        ink = F.interpolate(glyphs[chosen : chosen + 1], side, mode="bilinear")[0]
        starts = [int(part * (size - side + 1)) for part in (top, left)]
        rows, columns = (slice(start, start + side) for start in starts)
        part = canvas[:, rows, columns]
        canvas[:, rows, columns] = torch.lerp(part, hue_to_rgb(hue).view(3, 1, 1).expand_as(part), ink)
        region = mask[rows, columns]
        region[ink[0] >= _TRACE] = IGNORED_LABEL
        region[ink[0] >= _INK] = int(labels[chosen]) + 1
    canvas += _NOISE * torch.randn(canvas.shape, generator=generator)
    pixels = canvas.clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0)
    return np.ascontiguousarray(pixels.numpy()), mask.numpy()
