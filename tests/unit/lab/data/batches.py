"""Pipelines of small pictures, and when two of them give the same."""

from typing import Any

import torch

from maxsup.lab.core.config import AugmentConfig
from maxsup.lab.data import Batch, BatchPlan, Split

FIELDS = ("images", "target", "labels", "indices")
SETTINGS = {
    "batch_size": 4,
    "mean": (0.5,) * 3,
    "std": (0.25,) * 3,
    "seed": 3,
    "is_training": True,
    "augment": AugmentConfig(flip=True),
    "image_size": 16,
    "num_classes": 3,
}


def plan_for(split: Split, **options: Any) -> BatchPlan:
    """The settings above, with other options."""
    return BatchPlan(num_samples=len(split), **(SETTINGS | options))


def assert_equal_batches(first: list[Batch], second: list[Batch]) -> None:
    """Everything in every batch, to the bit."""
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for name in FIELDS:
            assert torch.equal(getattr(one, name), getattr(other, name)), name


def joined_batches(parts: list[list[Batch]]) -> list[Batch]:
    """What several processes see together, step by step."""
    return [
        Batch(*(torch.cat([getattr(part, name) for part in step]) for name in FIELDS))
        for step in zip(*parts, strict=True)
    ]
