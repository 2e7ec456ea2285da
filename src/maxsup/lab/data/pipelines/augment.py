"""Augmentation of whole batches: parameters are drawn for all images at once, pixels move in one operation.

Parameters are drawn for the whole global batch and each process takes its slice, so two processes together compute
exactly what one does.

Mixup and cutmix mix neighbours in a batch: 0 with 1, 2 with 3 and so on. The order of a batch is random already, so any
pairing is as good, and a process that holds both of a pair needs nothing from the others. One strength and one box
serve the whole batch, as in timm. Targets carry no label smoothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from maxsup.lab.core.repro import mixed_seed

# Usual random erasing (Zhong et al. 2020, as in timm): share of the area, aspect ratio, attempts to place a box.
_ERASED_SHARE = (0.02, 1 / 3)
_ERASED_ASPECT = (0.3, 1 / 0.3)
_ERASING_ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class Moves:
    """How each image of a batch is cropped, mirrored and rotated.

    ``tops`` and ``lefts`` are counted in the padded image; ``angles`` are degrees, counter-clockwise.
    """

    tops: Tensor
    lefts: Tensor
    flips: Tensor
    angles: Tensor | None = None

    def __getitem__(self, part: slice) -> Moves:
        angles = None if self.angles is None else self.angles[part]
        return Moves(self.tops[part], self.lefts[part], self.flips[part], angles)


def draw_moves(size: int, generator: Generator, *, padding: int, flip: bool, rotation: float) -> Moves:
    """Random crops of images padded on all sides, mirrored half the time, rotated by up to ``rotation`` degrees."""
    offsets = torch.randint(0, 2 * padding + 1, (2, size), generator=generator)
    flips = torch.rand(size, generator=generator) < (0.5 if flip else 0.0)
    angles = torch.empty(size).uniform_(-rotation, rotation, generator=generator) if rotation else None
    return Moves(offsets[0], offsets[1], flips, angles)


def move_images(images: Tensor, moves: Moves, padding: int) -> Tensor:
    """uint8 images after padding on all sides, crop, flip and rotation, in one gather; what is outside is black.

    Example:
        >>> image = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8).reshape(1, 1, 2, 2)
        >>> moves = Moves(torch.tensor([0]), torch.tensor([1]), torch.tensor([True]))
        >>> move_images(image, moves, padding=1)[0, 0]
        tensor([[0, 0],
                [2, 1]], dtype=torch.uint8)
    """
    batch, channels, height, width = images.shape
    # A rotation needs a black pixel to point at even where nothing is padded: the corner.
    border = max(padding, 1) if moves.angles is not None else padding
    padded = images.new_zeros(batch, channels, height + 2 * border, width + 2 * border)
    padded[:, :, border : border + height, border : border + width] = images
    rows, columns, is_outside = _crop_grid(moves, height, width)
    columns = torch.where(moves.flips.view(-1, 1, 1), width - 1 - columns, columns)
    rows = rows + (moves.tops + border - padding).view(-1, 1, 1)
    columns = columns + (moves.lefts + border - padding).view(-1, 1, 1)
    index = rows * padded.shape[-1] + columns
    if is_outside is not None:
        index.masked_fill_(is_outside, 0)
    index = index.view(batch, 1, height * width).expand(-1, channels, -1)
    return padded.flatten(2).gather(2, index).view(images.shape)


def _crop_grid(moves: Moves, height: int, width: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Row and column of the crop that each pixel is read from, and whether it lies outside."""
    rows, columns = torch.arange(height).view(1, -1, 1), torch.arange(width).view(1, 1, -1)
    if moves.angles is None:
        return rows, columns, None
    # Nearest pixel, as torchvision rotates by default: no colour appears that was not there.
    radians = torch.deg2rad(moves.angles).view(-1, 1, 1)
    cos, sin = radians.cos(), radians.sin()
    down, right = rows - (height - 1) / 2, columns - (width - 1) / 2
    from_rows = (sin * right + cos * down + height / 2).floor().long()
    from_columns = (cos * right - sin * down + width / 2).floor().long()
    is_outside = (from_rows < 0) | (from_rows >= height) | (from_columns < 0) | (from_columns >= width)
    return from_rows, from_columns, is_outside


@dataclass(frozen=True, eq=False)
class Jitter:
    """Factors of brightness, contrast and saturation, ``(3, B)``, and the order they are applied in."""

    factors: Tensor
    order: tuple[int, ...]

    def __getitem__(self, part: slice) -> Jitter:
        return Jitter(self.factors[:, part], self.order)


def draw_jitter(size: int, generator: Generator, strength: float) -> Jitter:
    """Factors within ``strength`` of 1, in an order drawn for the batch."""
    factors = torch.empty(3, size).uniform_(max(0.0, 1 - strength), 1 + strength, generator=generator)
    return Jitter(factors, tuple(torch.randperm(3, generator=generator).tolist()))


def jitter_colours(images: Tensor, jitter: Jitter) -> Tensor:
    """Images with values up to 255 in other brightness, contrast and saturation, by torchvision's definitions."""
    images = images.float()
    for kind in jitter.order:
        factor = jitter.factors[kind].view(-1, 1, 1, 1)
        other = images.new_zeros(()) if kind == 0 else _grey(images)
        if kind == 1:
            other = other.mean((1, 2, 3), keepdim=True)
        images = torch.lerp(other.expand_as(images), images, factor).clamp_(0, 255)
    return images


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    shares = torch.tensor([0.2989, 0.587, 0.114]).to(images.device, non_blocking=True)
    return (images * shares.view(1, 3, 1, 1)).sum(1, keepdim=True)


def draw_boxes(size: int, generator: Generator, chance: float, height: int, width: int) -> Tensor:
    """Boxes to erase, ``(size, 4)``: top, left, bottom, right; empty where nothing is erased."""
    shape = (size, _ERASING_ATTEMPTS)
    area = torch.empty(shape).uniform_(*_ERASED_SHARE, generator=generator) * height * width
    log_aspect = torch.empty(shape).uniform_(*map(math.log, _ERASED_ASPECT), generator=generator)
    tall = (area * log_aspect.exp()).sqrt().round().long()
    wide = (area / log_aspect.exp()).sqrt().round().long()
    place = torch.rand((2, size), generator=generator)
    is_erased = torch.rand(size, generator=generator) < chance
    fits = (tall < height) & (wide < width)
    first = fits.int().argmax(1, keepdim=True)
    tall, wide = tall.gather(1, first)[:, 0], wide.gather(1, first)[:, 0]
    top = (place[0] * (height - tall + 1)).long()
    left = (place[1] * (width - wide + 1)).long()
    boxes = torch.stack([top, left, top + tall, left + wide], 1)
    return boxes * (is_erased & fits.any(1)).long()[:, None]


def erase_(images: Tensor, boxes: Tensor, indices: Tensor, seed: int, epoch: int) -> Tensor:
    """Fill boxes of normalised images with normal noise, in place; the noise of an image depends on its index.

    ``boxes`` and ``indices`` are on the host. The noise is drawn where the images are, so a GPU draws other numbers
    than a CPU: numbers drawn on the host would have to be sent, at four bytes a pixel.
    """
    generator = torch.Generator(images.device)
    for image, index, (top, left, bottom, right) in zip(images, indices.tolist(), boxes.tolist(), strict=True):
        if bottom > top:
            generator.manual_seed(mixed_seed(seed, "erase", epoch, index))
            image[:, top:bottom, left:right].normal_(generator=generator)
    return images


@dataclass(frozen=True)
class Mix:
    """``share`` of each image stays; with a ``box`` (top, left, bottom, right) it is cutmix."""

    share: float
    box: tuple[int, int, int, int] | None = None


def draw_mix(seed: int, mixup: float, cutmix: float, height: int, width: int) -> Mix:
    """A mix with a strength from Beta(a, a), where a is ``mixup`` or ``cutmix``; 0 is off, both on is half and half."""
    random = np.random.default_rng(seed)
    is_cutmix = cutmix > 0 and (mixup == 0 or random.random() < 0.5)
    parameter = cutmix if is_cutmix else mixup
    share = float(random.beta(parameter, parameter))
    if not is_cutmix:
        return Mix(share)
    side = (1 - share) ** 0.5
    reach_down, reach_right = int(height * side) // 2, int(width * side) // 2
    row, column = int(random.integers(height)), int(random.integers(width))
    top, bottom = max(row - reach_down, 0), min(row + reach_down, height)
    left, right = max(column - reach_right, 0), min(column + reach_right, width)
    # The part of the box that is inside the image, not the strength that was drawn, is what the image lost.
    return Mix(1 - (bottom - top) * (right - left) / (height * width), (top, left, bottom, right))


def mix_images(images: Tensor, labels: Tensor, mix: Mix, num_classes: int) -> tuple[Tensor, Tensor]:
    """Mixed images and the mixed one-hot labels, ``(B, K)``.

    Example:
        >>> images, target = mix_images(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1]), Mix(0.75), 2)
        >>> images.flatten().tolist(), target.tolist()
        ([0.25, 0.75], [[0.75, 0.25], [0.25, 0.75]])
    """
    partners = partner_positions(len(images), images.device)
    one_hot = images.new_zeros(len(labels), num_classes).scatter_(1, labels.unsqueeze(1), 1.0)
    target = torch.lerp(one_hot[partners], one_hot, mix.share)
    if mix.box is None:
        return torch.lerp(images[partners], images, mix.share), target
    top, left, bottom, right = mix.box
    images = images.clone()
    images[:, :, top:bottom, left:right] = images[partners, :, top:bottom, left:right]
    return images, target


def partner_positions(size: int, device: torch.device | None = None) -> Tensor:
    """The partner of each position; the last of an odd number stays alone.

    Example:
        >>> partner_positions(5)
        tensor([1, 0, 3, 2, 4])
    """
    positions = torch.arange(size, device=device)
    return torch.where(positions ^ 1 < size, positions ^ 1, positions)
