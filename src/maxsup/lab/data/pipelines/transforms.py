"""Transforms of single images, with torchvision v2 on Pillow images; the result is uint8 ``(C, H, W)``.

Evaluation scales the shorter side to the image size over ``crop_pct`` (both sides with ``crop_mode: squash``) and crops
the middle. Training with ``random_resized_crop`` takes a random part and scales it to the image size. Otherwise it
scales as evaluation does and crops at random (``random_crop``) or the middle. ``crop_padding`` first adds a border.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maxsup.core.installation import imported

if TYPE_CHECKING:
    from maxsup.lab.core.config import AugmentConfig

Transform = Callable[[Any], torch.Tensor]

INTERPOLATION = "bilinear"
"""The default."""

LEAST_SEEN = 2 / 3
"""Share of an image's side that evaluation must see; published networks have 0.8 and more."""


def check_effective(augment: AugmentConfig, *, is_training: bool) -> None:
    """Raise if a setting has no effect beside the others, or would hide much of every evaluated image.

    The latter is only a warning outside of training, so that an existing run can still be evaluated.
    """
    if augment.random_resized_crop:
        if augment.crop_padding:
            got = f"got {augment.crop_padding}. Choose one."
            raise ValueError(f"augment.crop_padding must be 0 where random_resized_crop is on; {got}")
        if augment.random_crop:
            raise ValueError("augment.random_crop must be off where random_resized_crop is on; got both. Choose one.")
    elif augment.scale != (0.08, 1.0):
        raise ValueError(
            f"augment.scale must be left alone where random_resized_crop is off; got {augment.scale}. "
            "Set augment.random_resized_crop=true."
        )
    if augment.crop_pct is not None and augment.crop_pct < LEAST_SEEN:
        sentence = (
            f"augment.crop_pct must be at least {LEAST_SEEN:.2f}, the share of an image's side that evaluation sees; "
            f"got {augment.crop_pct:g}. Usual: 0.875."
        )
        if is_training:
            raise ValueError(sentence)
        warnings.warn(sentence, stacklevel=3)


def scaled_side(augment: AugmentConfig, size: int) -> int:
    """Side to which evaluation scales before it crops, rounded as in timm.

    Example:
        >>> from maxsup.lab.core.config import AugmentConfig
        >>> scaled_side(AugmentConfig(crop_pct=0.875), 224), scaled_side(AugmentConfig(crop_pct=0.9), 224)
        (256, 248)
    """
    # A ratio made from two sides may miss the larger one by the last bit.
    return int(size / (augment.crop_pct or 1.0) + 1e-6)


def training_transform(augment: AugmentConfig, size: int, mean: tuple[float, ...]) -> Transform:
    """Geometry, then colour, in timm's order; whole batches are erased and mixed later."""
    v2 = imported("torchvision.transforms.v2")
    if augment.random_resized_crop:
        steps = [v2.RandomResizedCrop(size, scale=augment.scale, interpolation=_interpolation(augment))]
    elif augment.random_crop:
        steps = [_scaling(augment, size), v2.RandomCrop(size, padding=augment.crop_padding or None)]
    else:
        steps = [_scaling(augment, size), v2.CenterCrop(size)]
        if augment.crop_padding:
            steps.append(v2.RandomCrop(size, padding=augment.crop_padding))
    if augment.flip:
        steps.append(v2.RandomHorizontalFlip())
    if augment.rotation:
        steps.append(v2.RandomRotation(augment.rotation))
    if augment.randaugment is not None:
        steps.append(_randaugment(augment, size, mean))
    if augment.color_jitter:
        steps.append(v2.ColorJitter(*[augment.color_jitter] * 3))
    return v2.Compose([*steps, v2.PILToTensor()])


def evaluation_transform(augment: AugmentConfig, size: int) -> Transform:
    """Resize and centre crop."""
    v2 = imported("torchvision.transforms.v2")
    return v2.Compose([_scaling(augment, size), v2.CenterCrop(size), v2.PILToTensor()])


def _scaling(augment: AugmentConfig, size: int) -> Any:
    side = scaled_side(augment, size)
    sides = (side, side) if augment.crop_mode == "squash" else side
    return imported("torchvision.transforms.v2").Resize(sides, interpolation=_interpolation(augment))


def _interpolation(augment: AugmentConfig) -> Any:
    return imported("torchvision.transforms.v2").InterpolationMode(augment.interpolation or INTERPOLATION)


def _randaugment(augment: AugmentConfig, size: int, mean: tuple[float, ...]) -> Any:
    # timm's, because its names ("rand-m9-mstd0.5-inc1") and its operations are those of the published recipes.
    tools = imported("timm.data.auto_augment")
    levels = tuple(min(255, round(255 * part)) for part in mean)
    settings = {
        "translate_const": int(size * 0.45),
        "img_mean": levels if len(levels) > 1 else levels[0],
        "interpolation": int(imported("PIL.Image").Resampling[(augment.interpolation or INTERPOLATION).upper()]),
    }
    try:
        return tools.rand_augment_transform(augment.randaugment, settings)
    except (AssertionError, KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"augment.randaugment must be written as timm does; got {augment.randaugment!r} ({error}). "
            "Write for instance rand-m9-mstd0.5-inc1."
        ) from error


@contextmanager
def seed_transforms(seed: int) -> Iterator[None]:
    """Seed all global generators inside the block, and restore their states after it.

    Transforms draw from global generators; a training loop in the same process must not notice.
    """
    python_state, numpy_state, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
