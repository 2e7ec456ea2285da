"""The way from a split to batches: whole batches at once for images in memory, workers for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.lab.data.bundle import FileSplit, MemorySplit
from maxsup.lab.data.pipelines.augment import Jitter, draw_jitter, draw_moves, move_images
from maxsup.lab.data.pipelines.batches import BatchPlan, Pipeline, RawBatch
from maxsup.lab.data.pipelines.streaming import StreamingPipeline
from maxsup.lab.data.pipelines.transforms import INTERPOLATION, check_effective


def build_pipeline(
    split: MemorySplit | FileSplit, plan: BatchPlan, *, tolerance: float = 0.001, bad_files: Path | None = None
) -> Pipeline:
    """Batches of a split; their content depends on seed and epoch only, not on workers, ranks or where one starts.

    Images in memory are augmented as whole batches. Files stream through workers, and so do images in memory where an
    augmentation only exists for single images (RandAugment, random resized crops, ``crop_pct``).

    Args:
        split: The images.
        plan: The settings.
        tolerance: Share of unreadable files up to which a run continues.
        bad_files: CSV file that lists them.

    Example:
        >>> from maxsup.lab.core.config import AugmentConfig
        >>> from maxsup.lab.data import load_data
        >>> data = load_data("digits")
        >>> plan = BatchPlan(
        ...     num_samples=len(data.train), batch_size=64, mean=data.mean, std=data.std, seed=0, is_training=True,
        ...     augment=AugmentConfig(crop_padding=1), image_size=None, num_classes=10,
        ... )
        >>> batches = build_pipeline(data.train, plan)
        >>> batch = next(batches.epoch(0))
        >>> batches.num_batches, tuple(batch.images.shape), batch.target.dtype
        (21, (64, 1, 8, 8), torch.int64)
    """
    augment = plan.augment
    check_effective(augment, is_training=plan.is_training)
    is_for_single_images = (augment.crop_pct or 1.0) < 1.0 or augment.interpolation == "lanczos"
    if plan.is_training:
        is_for_single_images |= augment.random_resized_crop or augment.random_crop or augment.randaugment is not None
    if isinstance(split, MemorySplit) and not is_for_single_images:
        return MemoryPipeline(split, plan)
    return StreamingPipeline(split, plan, tolerance, bad_files)


class MemoryPipeline(Pipeline):
    """Batches of a split in memory: resized, and augmented in training."""

    def __init__(self, split: MemorySplit, plan: BatchPlan) -> None:
        super().__init__(plan)
        self._split = split

    def _read(self, epoch: int, start: int) -> Iterator[RawBatch]:
        order = self._plan.order(epoch)
        for step in self._steps(start):
            members = order[self._plan.batch(step)]
            size, part = len(members), self._plan.needed_part(len(members))
            indices, jitter = members[part], None
            # index_select copies whole images; indexing with brackets goes pixel by pixel, five times as slow.
            images = self._resize(self._split.images.index_select(0, indices))
            if self._plan.is_training:
                images, jitter = self._augment(images, size, part, self._plan.generator("augment", epoch, step))
            yield RawBatch(images, self._split.labels[indices], indices, size, epoch, step, jitter)

    def _augment(
        self, images: Tensor, size: int, part: slice, generator: torch.Generator
    ) -> tuple[Tensor, Jitter | None]:
        """Moved images, and how their colours are to be changed."""
        config, jitter = self._plan.augment, None
        if config.crop_padding or config.flip or config.rotation:
            moves = draw_moves(size, generator, padding=config.crop_padding, flip=config.flip, rotation=config.rotation)
            images = move_images(images, moves[part], config.crop_padding)
        if config.color_jitter:
            jitter = draw_jitter(size, generator, config.color_jitter)[part]
        return images, jitter

    def _resize(self, images: Tensor) -> Tensor:
        side = self._plan.image_size
        if side is None or images.shape[2:] == (side, side):
            return images
        mode = self._plan.augment.interpolation or INTERPOLATION
        smoothly = {} if mode == "nearest" else {"antialias": True, "align_corners": False}
        return F.interpolate(images, (side, side), mode=mode, **smoothly)
