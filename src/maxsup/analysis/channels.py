"""Data that a model was not trained on, brought into the form that it was trained on."""

from __future__ import annotations

from dataclasses import replace

import torch

from maxsup.core.errors import DataError
from maxsup.data import DataBundle, MemorySplit, Split

_LUMA = (0.299, 0.587, 0.114)


def suited(other: DataBundle, own: DataBundle) -> DataBundle:
    """Other data with the channels, the size and the normalisation of the data a model was trained on."""
    num_channels = len(own.mean)
    train, val, test = (
        _with_channels(split, num_channels, other.name) for split in (other.train, other.val, other.test)
    )
    return replace(other, train=train, val=val, test=test, mean=own.mean, std=own.std)


def _with_channels(split: Split, num_channels: int, name: str) -> Split:
    has = split.images.shape[1] if isinstance(split, MemorySplit) else 3
    if has == num_channels:
        return split
    if not isinstance(split, MemorySplit) or (has, num_channels) not in {(1, 3), (3, 1)}:
        raise DataError(
            f"{name!r} must have the {num_channels} channels the model was trained on; got {has}. Choose other data."
        )
    if has == 1:
        return replace(split, images=split.images.expand(-1, 3, -1, -1).contiguous())
    # As Pillow converts colour to grey.
    shares = torch.tensor(_LUMA).view(1, 3, 1, 1)
    grey = torch.cat([(part * shares).sum(1, keepdim=True).round() for part in split.images.split(4096)])
    return replace(split, images=grey.to(torch.uint8))
