"""The pipeline of images with masks: read, scaled and cropped one by one, in worker processes if there are any."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from maxsup.core.errors import DataError
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.pipelines.batches import Batch, BatchPlan, Pipeline, RawBatch
from maxsup.lab.data.pipelines.streaming import PartLoader
from maxsup.lab.segmentation.checks import check_dense
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.transforms import Bytes, Cutout, TrainingCutout, resize_image, scale_sides

if TYPE_CHECKING:
    from maxsup.lab.core.config import DenseConfig


@dataclass(frozen=True, eq=False)
class ScaledBatch(Batch):
    """An image to be evaluated, at several scales too.

    Args:
        views: ``(1, C, h, w)`` each, one for every factor that was asked for, scaled from the image as it was read.
    """

    views: tuple[Tensor, ...] = ()


class MaskPipeline(Pipeline):
    """Batches of a split whose images have masks.

    Training gives square crops with labels of the same size, int64 ``(B, S, S)``. Evaluation gives one whole image a
    batch, with labels at the size of the mask, ``(1, H, W)``, whatever size the image is scaled to. An image or a mask
    that cannot be used ends the run: a wrong label would go unnoticed.

    Args:
        split: The images.
        plan: The settings; ``image_size`` is the side of the training crop.
        dense: How images are scaled, and cropped for training.
    """

    def __init__(self, split: MaskSplit, plan: BatchPlan, dense: DenseConfig) -> None:
        check_dense(plan.augment, plan.image_size, is_training=plan.is_training)
        if not plan.is_training:
            # Images of any size, one for each process at a time.
            plan = replace(plan, batch_size=plan.world_size)
        super().__init__(plan)
        side = plan.image_size if plan.is_training else None
        cutout = None if side is None else TrainingCutout(dense, plan.augment.flip, side)
        self._parts = _Parts(split, dense.resize, cutout, plan.seed)
        self._loader = PartLoader(self._parts, plan.num_workers)
        if not plan.is_training and plan.num_batches:
            # Fewer images than processes may be left at the end. A process without one gets no empty batch either.
            last = plan.batch(plan.num_batches - 1)
            own = plan.own_part(last.stop - last.start)
            self.num_batches -= own.start == own.stop

    def at_scales(self, scales: Sequence[float]) -> MaskPipeline:
        """Return the same evaluation with batches that are :class:`ScaledBatch`, at scales relative to this size."""
        if self._plan.is_training:
            raise ValueError(f"pipeline must be for evaluation to be seen at {tuple(scales)}; got one for training.")
        scaled = copy.copy(self)
        scaled._parts = replace(self._parts, scales=tuple(scales))
        scaled._loader = PartLoader(scaled._parts, self._plan.num_workers)
        return scaled

    def _read(self, epoch: int, start: int) -> Iterator[RawBatch]:
        steps = self._steps(start)
        for step, part in zip(steps, self._loader.load(self._plan.needed(epoch, steps)), strict=True):
            if isinstance(part, str):
                raise DataError(part, code="bad-masks")
            size, views, extents = self._plan.size(step), tuple(part.views), tuple(part.extents)
            yield RawBatch(part.images, part.masks, part.indices, size, epoch, step, views=views, extents=extents)

    def _finish(self, raw: RawBatch) -> Batch:
        """The batch with black padding and, for an evaluation at several scales, its views."""
        batch = super()._finish(raw)
        views = tuple(self._laid_out(self._normalised(view)) for view in raw.views)
        # Padding is 0 to the network, not the value that black has once it is normalised.
        for image, (height, width) in zip(batch.images, raw.extents, strict=True):
            image[:, height:] = 0
            image[:, :, width:] = 0
        if self._parts.scales:
            return ScaledBatch(batch.images, batch.target, batch.labels, batch.indices, views)
        return batch


@dataclass(frozen=True, eq=False)
class _Part:
    """What a worker sends: bytes, because floats and wide integers would take many times as long to hand over."""

    images: Tensor
    masks: Tensor
    indices: Tensor
    extents: list[tuple[int, int]]
    views: list[Tensor]


@dataclass(frozen=True, eq=False)
class _Parts(Dataset[_Part | str]):
    """Batches of images with masks; the randomness of an image depends on seed, index, and the pass over the data.

    In place of a batch with a bad file comes the sentence of the error, which would arrive with a traceback in it if a
    worker raised it.
    """

    split: MaskSplit
    resize: int | None
    cutout: TrainingCutout | None
    seed: int
    scales: tuple[float, ...] = ()

    def __getitem__(self, wanted: list[tuple[int, int]]) -> _Part | str:
        try:
            read = [self._read_one(index, number) for index, number in wanted]
        except DataError as error:
            return str(error)
        # All processes get the same number of training batches, if need be an empty one.
        side = self.cutout.size if self.cutout else 0
        images = torch.empty(0, 3, side, side, dtype=torch.uint8)
        masks = torch.empty(0, side, side, dtype=torch.uint8)
        if read:
            images = _channels_first([cutout.pixels for cutout, _ in read])
            masks = torch.from_numpy(np.stack([cutout.mask for cutout, _ in read]))
        indices = torch.tensor([index for index, _ in wanted], dtype=torch.int64)
        extents = [(cutout.height, cutout.width) for cutout, _ in read]
        return _Part(images, masks, indices, extents, [view for _, views in read for view in views])

    def _read_one(self, index: int, number: int) -> tuple[Cutout, list[Tensor]]:
        image, mask, _ = self.split.reader(self.split.samples[index])
        if self.cutout is not None:
            return self.cutout(image, mask, np.random.default_rng(mixed_seed(self.seed, "sample", number, index))), []
        # From the image itself each time: what is scaled twice is blurred twice.
        scaled = {
            scale: resize_image(image, scale_sides(image.size, self.resize, scale)) for scale in (1.0, *self.scales)
        }
        views = [_channels_first([scaled[scale]]) for scale in self.scales]
        return Cutout(scaled[1.0], mask, *scaled[1.0].shape[:2]), views


def _channels_first(images: Sequence[Bytes]) -> Tensor:
    return torch.from_numpy(np.stack([pixels.transpose(2, 0, 1) for pixels in images]))
