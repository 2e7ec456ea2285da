"""Mixup and cutmix of whole batches.

Neighbours in a batch are mixed with each other: 0 with 1, 2 with 3 and so on. The order of a batch is random already,
so this is as good as any pairing, and a process that holds both of a pair needs nothing from the others. One strength
and one box hold for the whole batch, as in timm. Targets carry no label smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Mix:
    """How a batch is mixed: ``share`` of an image stays; a ``box`` (top, left, bottom, right) means cutmix."""

    share: float
    box: tuple[int, int, int, int] | None = None


def draw_mix(seed: int, mixup: float, cutmix: float, height: int, width: int) -> Mix:
    """A strength from Beta(a, a), with a the one of mixup or of cutmix; where both are on, either half the time.

    Their parameters are 0 where they are off.
    """
    dice = np.random.default_rng(seed)
    is_cutmix = cutmix > 0 and (mixup == 0 or dice.random() < 0.5)
    parameter = cutmix if is_cutmix else mixup
    share = float(dice.beta(parameter, parameter))
    if not is_cutmix:
        return Mix(share)
    side = (1 - share) ** 0.5
    reach_down, reach_right = int(height * side) // 2, int(width * side) // 2
    row, column = int(dice.integers(height)), int(dice.integers(width))
    top, bottom = max(row - reach_down, 0), min(row + reach_down, height)
    left, right = max(column - reach_right, 0), min(column + reach_right, width)
    # The part of the box that is inside the image, not the strength that was drawn, is what the image lost.
    return Mix(1 - (bottom - top) * (right - left) / (height * width), (top, left, bottom, right))


def mixed(images: Tensor, labels: Tensor, mix: Mix, num_classes: int) -> tuple[Tensor, Tensor]:
    """Mixed images and the mixed one-hot labels, ``(B, K)``.

    Example:
        >>> images, target = mixed(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1]), Mix(0.75), 2)
        >>> images.flatten().tolist(), target.tolist()
        ([0.25, 0.75], [[0.75, 0.25], [0.25, 0.75]])
    """
    partners = partner_positions(len(images))
    one_hot = F.one_hot(labels, num_classes).float()
    target = torch.lerp(one_hot[partners], one_hot, mix.share)
    if mix.box is None:
        return torch.lerp(images[partners], images, mix.share), target
    top, left, bottom, right = mix.box
    images = images.clone()
    images[:, :, top:bottom, left:right] = images[partners, :, top:bottom, left:right]
    return images, target


def partner_positions(size: int) -> Tensor:
    """Who is mixed with whom; the last of an odd number stays alone.

    Example:
        >>> partner_positions(5)
        tensor([1, 0, 3, 2, 4])
    """
    positions = torch.arange(size)
    return torch.where(positions ^ 1 < size, positions ^ 1, positions)
