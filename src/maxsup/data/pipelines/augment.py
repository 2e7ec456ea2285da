"""Augmentation of whole batches: parameters are drawn for all images at once, pixels move in one operation.

A parameter is drawn for the whole global batch and a process takes its slice, so that two processes do together
exactly what one does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from maxsup.core.repro import mixed_seed

# Usual random erasing (Zhong et al. 2020, as in timm): share of the area, aspect ratio, attempts to place a box.
_ERASED_SHARE = (0.02, 1 / 3)
_ERASED_ASPECT = (0.3, 1 / 0.3)
_ERASING_ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class Moves:
    """How each image of a batch is moved; one entry an image.

    Args:
        tops: Rows cut off above the crop, counted in the padded image.
        lefts: Columns cut off left of it.
        flips: Whether left and right change places.
        angles: Rotation of the crop in degrees, counter-clockwise; None for no rotation at all.
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


def moved(images: Tensor, moves: Moves, padding: int) -> Tensor:
    """uint8 images after crop, flip and rotation, in one gather; what comes from outside is black.

    ``padding`` pixels are put around before the crop.

    Example:
        >>> image = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8).reshape(1, 1, 2, 2)
        >>> moves = Moves(torch.tensor([0]), torch.tensor([1]), torch.tensor([True]))
        >>> moved(image, moves, padding=1)[0, 0]
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
    """Row and column of the crop that each pixel is read from, and whether it lies outside of it."""
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


def jittered(images: Tensor, jitter: Jitter) -> Tensor:
    """Images, of values up to 255, in other brightness, contrast and saturation; the definitions are torchvision's."""
    images = images.float()
    for kind in jitter.order:
        factor = jitter.factors[kind].view(-1, 1, 1, 1)
        if kind == 0:
            other = torch.zeros(())
        elif kind == 1:
            other = _grey(images).mean((1, 2, 3), keepdim=True)
        else:
            other = _grey(images)
        images = torch.lerp(other.expand_as(images), images, factor).clamp_(0, 255)
    return images


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    return (images * torch.tensor([0.2989, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def draw_boxes(size: int, generator: Generator, chance: float, height: int, width: int) -> Tensor:
    """Boxes to erase, ``(size, 4)``: top, left, bottom, right; an empty one where nothing is erased."""
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
    """Fill boxes of normalised images with normal noise, in place; the noise of an image depends on its index."""
    for position in (boxes[:, 2] > boxes[:, 0]).nonzero().flatten().tolist():
        top, left, bottom, right = boxes[position].tolist()
        generator = torch.Generator().manual_seed(mixed_seed(seed, "erase", epoch, int(indices[position])))
        images[position, :, top:bottom, left:right].normal_(generator=generator)
    return images
