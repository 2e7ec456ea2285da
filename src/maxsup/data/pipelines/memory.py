"""The pipeline of images in memory: whole batches at once, no workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.core.repro import mixed_seed
from maxsup.data.bundle import MemorySplit
from maxsup.data.pipelines.augment import draw_jitter, draw_moves, jittered, moved
from maxsup.data.pipelines.batches import Batch, BatchFinish, BatchPlan, Pipeline
from maxsup.data.pipelines.transforms import INTERPOLATION

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig


class MemoryPipeline(Pipeline):
    """Batches of a split in memory, augmented in training; else images only get the right size."""

    def __init__(
        self,
        split: MemorySplit,
        plan: BatchPlan,
        finish: BatchFinish,
        augment: AugmentConfig,
        *,
        is_training: bool,
        image_size: int | None,
    ) -> None:
        self.num_batches = plan.num_batches
        self._split, self._plan, self._finish, self._augment = split, plan, finish, augment
        self._is_training = is_training
        self._size = None if image_size in (None, *_common_side(split)) else image_size

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch."""
        order = self._plan.order(epoch)
        for step in self._plan.steps(start):
            members = order[self._plan.batch(step)]
            size, part = len(members), self._finish.needed(len(members))
            indices = members[part]
            # index_select copies whole images; indexing with brackets goes pixel by pixel, five times as slow.
            images = self._resized(self._split.images.index_select(0, indices))
            if self._is_training:
                images = self._augmented(images, size, part, epoch, step)
            yield self._finish(images, self._split.labels[indices], indices, size=size, epoch=epoch, step=step)

    def _augmented(self, images: Tensor, size: int, part: slice, epoch: int, step: int) -> Tensor:
        config = self._augment
        generator = torch.Generator().manual_seed(mixed_seed(self._plan.seed, "augment", epoch, step))
        if config.crop_padding or config.flip or config.rotation:
            moves = draw_moves(size, generator, padding=config.crop_padding, flip=config.flip, rotation=config.rotation)
            images = moved(images, moves[part], config.crop_padding)
        if config.color_jitter:
            images = jittered(images, draw_jitter(size, generator, config.color_jitter)[part])
        return images

    def _resized(self, images: Tensor) -> Tensor:
        if self._size is None:
            return images
        mode = self._augment.interpolation or INTERPOLATION
        smoothly = {} if mode == "nearest" else {"antialias": True, "align_corners": False}
        return F.interpolate(images, (self._size, self._size), mode=mode, **smoothly)


def _common_side(split: MemorySplit) -> tuple[int, ...]:
    """The side of square images; nothing for others."""
    height, width = split.images.shape[2:]
    return (height,) if height == width else ()
