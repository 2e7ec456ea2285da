"""What is done to single images, as torchvision v2 transforms on Pillow images; the result is uint8 ``(C, H, W)``.

Training: with ``random_resized_crop`` a random part, scaled to the image size; with ``resize`` both sides scaled to it,
then a random crop; with neither the shorter side scaled to the image size, the middle of it, and a random crop of that
where ``crop_padding`` says so. Evaluation: the shorter side scaled to ``eval_resize``, or both to ``resize``, or the
shorter one to the image size, and then the middle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maxsup.data.extras import require

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig

Transform = Callable[[Any], torch.Tensor]


def check_effective(augment: AugmentConfig, size: int | None) -> None:
    """Raise where a setting could have no effect beside the others, or would fill an image up with black."""
    if augment.random_resized_crop and augment.crop_padding:
        raise ValueError(
            f"augment.crop_padding must be 0 where random_resized_crop is on; got {augment.crop_padding}. Choose one."
        )
    if not augment.random_resized_crop and augment.scale != (0.08, 1.0):
        raise ValueError(
            f"augment.scale must be left alone where random_resized_crop is off; got {augment.scale}. "
            "Set augment.random_resized_crop=true."
        )
    for name in ("resize", "eval_resize"):
        side = getattr(augment, name)
        if side is not None and size is not None and side < size:
            raise ValueError(f"augment.{name} must be at least the image size; got {side} for {size}. Raise it.")


def training_transform(augment: AugmentConfig, size: int, mean: tuple[float, ...]) -> Transform:
    """Geometry, then colour, in timm's order; erasing and mixing come later, on whole batches."""
    v2 = require("torchvision.transforms.v2")
    smooth = _interpolation(augment)
    steps: list[Any] = []
    if augment.random_resized_crop:
        steps.append(v2.RandomResizedCrop(size, scale=augment.scale, interpolation=smooth))
    elif augment.resize is not None:
        steps.append(v2.Resize((augment.resize, augment.resize), interpolation=smooth))
        steps.append(v2.RandomCrop(size, padding=augment.crop_padding or None))
    else:
        steps += [v2.Resize(size, interpolation=smooth), v2.CenterCrop(size)]
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
    return _composed(steps)


def evaluation_transform(augment: AugmentConfig, size: int) -> Transform:
    """Resize and centre crop."""
    v2 = require("torchvision.transforms.v2")
    sides: int | tuple[int, int] = augment.eval_resize or size
    if augment.eval_resize is None and augment.resize is not None:
        sides = (augment.resize, augment.resize)
    return _composed([v2.Resize(sides, interpolation=_interpolation(augment)), v2.CenterCrop(size)])


def _composed(steps: list[Any]) -> Transform:
    v2 = require("torchvision.transforms.v2")
    composed: Transform = v2.Compose([*steps, v2.PILToTensor()])
    return composed


def _interpolation(augment: AugmentConfig) -> Any:
    return require("torchvision.transforms.v2").InterpolationMode(augment.interpolation)


def _randaugment(augment: AugmentConfig, size: int, mean: tuple[float, ...]) -> Any:
    # timm's, because its names ("rand-m9-mstd0.5-inc1") and its operations are those of the published recipes.
    tools = require("timm.data.auto_augment")
    levels = tuple(min(255, round(255 * part)) for part in mean)
    settings = {
        "translate_const": int(size * 0.45),
        "img_mean": levels if len(levels) > 1 else levels[0],
        "interpolation": int(require("PIL.Image").Resampling[augment.interpolation.upper()]),
    }
    try:
        return tools.rand_augment_transform(augment.randaugment, settings)
    except (AssertionError, KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"augment.randaugment must be written as timm does; got {augment.randaugment!r} ({error}). "
            "Write for instance rand-m9-mstd0.5-inc1."
        ) from error


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Every global source of randomness starts from ``seed`` inside and goes on as before outside.

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
