"""The pipeline of images with masks: read, scaled and cropped one by one, by workers if there are any."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from maxsup.core.errors import DataError
from maxsup.core.repro import mixed_seed
from maxsup.data.bundle import MaskSplit
from maxsup.data.pipelines.batches import Batch, BatchFinish, BatchPlan, Pipeline
from maxsup.data.pipelines.streaming import begin_worker, sent, worker_context
from maxsup.dense.checks import check_dense
from maxsup.dense.transforms import Bytes, Cutout, TrainingCutout, resized_image, scaled_sides

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig, DenseConfig

_Wanted = list[tuple[int, int]]
"""Index of each image of a batch, and the pass over the data that it belongs to."""


@dataclass(frozen=True, eq=False)
class ScaledBatch(Batch):
    """An image to be evaluated, at several scales too.

    Args:
        views: ``(1, C, h, w)`` each, one for every factor that was asked for, scaled from the image as it was read.
    """

    views: tuple[Tensor, ...] = ()


class MaskPipeline(Pipeline):
    """Batches of a split whose images have masks.

    Training gives square crops with labels of the same size, int64 ``(B, S, S)``. Evaluation gives every image whole, a
    batch each, and its labels in the size they were drawn in, ``(1, H, W)``, whatever size the image was scaled to.
    An image or a mask that cannot be used ends the run: a wrong label would go unnoticed.

    Args:
        split: The images.
        dense: How images are scaled, and cropped for training.
        image_size: Side of the training crop.
        augment: Says whether training crops are mirrored.
        **others: As of :func:`maxsup.data.build_pipeline`.
    """

    def __init__(
        self,
        split: MaskSplit,
        *,
        batch_size: int,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        seed: int,
        is_training: bool,
        augment: AugmentConfig,
        image_size: int | None,
        num_classes: int,
        dense: DenseConfig,
        num_steps: int | None = None,
        num_workers: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
        channels_last: bool = False,
    ) -> None:
        check_dense(augment, image_size, is_training=is_training)
        self._split, self._resize, self._num_workers = split, dense.resize, num_workers
        self._scales: tuple[float, ...] = ()
        if is_training and image_size is not None:
            self._cutout: TrainingCutout | None = TrainingCutout(dense, augment.flip, image_size)
        else:
            # Images of any size, one for each process at a time.
            self._cutout, batch_size, num_steps, drop_last = None, world_size, None, False
        plan = BatchPlan(len(split), batch_size, seed, is_training, drop_last, rank, world_size, num_steps)
        finished = augment if is_training else None
        self._plan, self._finish = plan, BatchFinish(plan, mean, std, finished, num_classes, channels_last)
        self.num_batches = plan.num_batches
        if not is_training and plan.num_batches:
            # The last images may be fewer than the processes: some get none of them, and no empty batch either.
            last = plan.batch(plan.num_batches - 1)
            own = plan.own(last.stop - last.start)
            self.num_batches -= own.start == own.stop

    def at_scales(self, scales: Sequence[float]) -> MaskPipeline:
        """The same evaluation whose batches are :class:`ScaledBatch`; factors are on the size that images have here."""
        if self._cutout is not None:
            raise ValueError(f"pipeline must be for evaluation to be seen at {tuple(scales)}; got one for training.")
        scaled = copy.copy(self)
        scaled._scales = tuple(scales)
        return scaled

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch; what comes before is not read."""
        if not 0 <= start <= self.num_batches:
            raise ValueError(f"start must be from 0 to {self.num_batches}; got {start!r}. It counts batches.")
        steps = range(start, self.num_batches)
        batches = self._plan.members(epoch, steps)
        wanted = [members[self._plan.own(len(members))] for members in batches]
        loader: DataLoader[_Part] = DataLoader(
            _Parts(self._split, self._resize, self._scales, self._cutout, self._plan.seed),
            # What is asked for are whole batches.
            batch_size=None,
            sampler=wanted,
            num_workers=self._num_workers,
            worker_init_fn=begin_worker,
            multiprocessing_context=worker_context(self._num_workers),
            # A generator of its own: the global one belongs to the training loop.
            generator=torch.Generator().manual_seed(0),
        )
        for step, members, part in zip(steps, batches, sent(loader), strict=True):
            if part.error is not None:
                raise DataError(part.error)
            yield self._batch(part, len(members), epoch, step)

    def _batch(self, part: _Part, size: int, epoch: int, step: int) -> Batch:
        labels = part.masks.long()
        batch, *views = (
            self._finish(images, labels, part.indices, size=size, epoch=epoch, step=step)
            for images in (part.images, *part.views)
        )
        # What was filled up is 0 to the network, not the value that black has once it is normalised.
        for image, (height, width) in zip(batch.images, part.extents, strict=True):
            image[:, height:] = 0
            image[:, :, width:] = 0
        if not self._scales:
            return batch
        return ScaledBatch(
            batch.images, batch.target, batch.labels, batch.indices, tuple(view.images for view in views)
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """What a worker sends: bytes, because floats and wide integers would take many times as long to hand over.

    An error is sent as its sentence; one raised in a worker would arrive with a traceback in it.
    """

    images: Tensor
    masks: Tensor
    indices: Tensor
    extents: list[tuple[int, int]]
    views: list[Tensor] = field(default_factory=list)
    error: str | None = None


class _Parts(Dataset[_Part]):
    """Batches of images with masks; what is random about an image depends on seed, pass and index."""

    def __init__(
        self, split: MaskSplit, resize: int | None, scales: tuple[float, ...], cutout: TrainingCutout | None, seed: int
    ) -> None:
        self.split, self.resize, self.scales, self.cutout, self.seed = split, resize, scales, cutout, seed

    def __getitem__(self, wanted: _Wanted) -> _Part:
        # Processes get the same number of training batches, if need be an empty one.
        side = self.cutout.size if self.cutout else 0
        nothing = Cutout(np.empty((side, side, 3), np.uint8), np.empty((side, side), np.uint8), side, side)
        error = None
        try:
            read = [self._read(index, number) for index, number in wanted]
        except DataError as problem:
            wanted, read, error = [], [], str(problem)
        cutouts = [cutout for cutout, _ in read]
        stacked = cutouts or [nothing]
        return _Part(
            images=_channels_first([each.pixels for each in stacked])[: len(cutouts)],
            masks=torch.from_numpy(np.stack([each.mask for each in stacked]))[: len(cutouts)],
            indices=torch.tensor([index for index, _ in wanted], dtype=torch.int64),
            extents=[(each.height, each.width) for each in cutouts],
            views=[view for _, views in read for view in views],
            error=error,
        )

    def _read(self, index: int, number: int) -> tuple[Cutout, list[Tensor]]:
        image, mask, _ = self.split.reader(self.split.samples[index])
        if self.cutout is not None:
            return self.cutout(image, mask, np.random.default_rng(mixed_seed(self.seed, "sample", number, index))), []
        # From the image itself each time: what is scaled twice is blurred twice.
        scaled = {
            scale: resized_image(image, scaled_sides(image.size, self.resize, scale)) for scale in (1.0, *self.scales)
        }
        views = [_channels_first([scaled[scale]]) for scale in self.scales]
        return Cutout(scaled[1.0], mask, *scaled[1.0].shape[:2]), views


def _channels_first(images: Sequence[Bytes]) -> Tensor:
    return torch.from_numpy(np.stack([pixels.transpose(2, 0, 1) for pixels in images]))
