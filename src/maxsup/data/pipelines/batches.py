"""What a pipeline gives, in which order, and what both kinds of pipeline do to a batch at the end.

Order and randomness are functions of seed, epoch, step and index. Nothing is carried from batch to batch, so an epoch
can be entered anywhere and gives the same as if it had been run from its start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maxsup.core.repro import mixed_seed
from maxsup.data.pipelines.augment import draw_boxes, erase_
from maxsup.data.pipelines.mixing import draw_mix, mixed

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's worth of images.

    Args:
        images: float32, ``(B, C, H, W)``, normalised.
        target: What to train on: int64 ``(B,)``, or float ``(B, K)`` where images are mixed.
        labels: int64 ``(B,)``, never mixed. Of images with masks, target and labels are those of their pixels,
            ``(B, H, W)``, in evaluation at the size of the mask.
        indices: Where in the split each image is.
    """

    images: Tensor
    target: Tensor
    labels: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return len(self.labels)


class Pipeline(ABC):
    """Batches of a split, epoch by epoch.

    Attributes:
        num_batches: Batches an epoch.
        num_missing: Images of the last evaluated epoch that could not be read and were left out.
    """

    num_batches: int
    num_missing: int = 0

    @abstractmethod
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch; those before are skipped without work."""


@dataclass(frozen=True)
class BatchPlan:
    """Which samples are in which batch, and which of them are this process's.

    Args:
        num_samples: Samples of the split.
        batch_size: Of the global batch, over all processes.
        seed: Seed of the order.
        is_shuffled: Whether every epoch has an order of its own.
        drop_last: Whether to leave out a last batch that is not full.
        rank: Number of this process.
        world_size: Number of processes.
        num_steps: Batches an epoch, taken from an endless row of shuffled passes; an epoch is one pass by default.

    Example:
        >>> plan = BatchPlan(10, 4, seed=0, is_shuffled=False, drop_last=False, rank=1, world_size=2)
        >>> plan.num_batches, plan.order(0)[plan.batch(2)].tolist(), plan.own(2)
        (3, [8, 9], slice(1, 2, None))
    """

    num_samples: int
    batch_size: int
    seed: int
    is_shuffled: bool
    drop_last: bool
    rank: int
    world_size: int
    num_steps: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size < self.world_size:
            raise ValueError(
                f"batch_size must be at least the number of processes; got {self.batch_size} for {self.world_size}. "
                "It is the size of the global batch."
            )
        if self.is_shuffled and self.num_samples == 0:
            raise ValueError("split must have at least one image to train on; got none. Lower val_share.")
        if self.is_shuffled and self.num_batches == 0:
            raise ValueError(
                f"batch_size must be at most the number of samples where the last batch is dropped; got "
                f"{self.batch_size} for {self.num_samples}. Choose a smaller batch_size or drop_last=False."
            )

    @property
    def num_batches(self) -> int:
        """Batches an epoch."""
        if self.num_steps is not None:
            return self.num_steps
        full, rest = divmod(self.num_samples, self.batch_size)
        return full + bool(rest and not self.drop_last)

    def order(self, epoch: int) -> Tensor:
        """The samples of an epoch, in its order."""
        if not self.is_shuffled:
            return torch.arange(self.num_samples)
        passes = self.passes(epoch)
        whole = torch.cat([self._whole_pass(number) for number in range(int(passes[0]), int(passes[-1]) + 1)])
        skipped = 0 if self.num_steps is None else epoch * len(passes) % self.num_samples
        return whole[skipped : skipped + len(passes)]

    def passes(self, epoch: int) -> Tensor:
        """Which pass over the data each sample of an epoch belongs to; what is random about it depends on that.

        Example:
            >>> plan = BatchPlan(5, 2, 0, is_shuffled=True, drop_last=False, rank=0, world_size=1, num_steps=3)
            >>> plan.passes(0).tolist(), plan.passes(1).tolist()
            ([0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 2, 2])
        """
        if self.num_steps is None:
            return torch.full((self.num_samples,), epoch)
        length = self.num_steps * self.batch_size
        return torch.arange(epoch * length, (epoch + 1) * length) // self.num_samples

    def members(self, epoch: int, steps: range) -> list[list[tuple[int, int]]]:
        """Index and pass of every sample, batch by batch."""
        pairs = list(zip(self.order(epoch).tolist(), self.passes(epoch).tolist(), strict=True))
        return [pairs[self.batch(step)] for step in steps]

    def _whole_pass(self, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(mixed_seed(self.seed, "order", number))
        return torch.randperm(self.num_samples, generator=generator)

    def steps(self, start: int) -> range:
        """The steps of an epoch from ``start`` on."""
        if not 0 <= start <= self.num_batches:
            raise ValueError(f"start must be from 0 to {self.num_batches}; got {start!r}. It counts batches.")
        return range(start, self.num_batches)

    def batch(self, step: int) -> slice:
        """Where in the order a global batch is."""
        end = self.num_samples if self.num_steps is None else self.num_steps * self.batch_size
        return slice(step * self.batch_size, min((step + 1) * self.batch_size, end))

    def own(self, size: int) -> slice:
        """This process's part of a global batch of ``size``."""
        return slice(size * self.rank // self.world_size, size * (self.rank + 1) // self.world_size)

    def needed(self, size: int, is_mixed: bool) -> slice:
        """The part of a global batch that has to be read: the own part, and the partners it is mixed with."""
        own = self.own(size)
        return slice(own.start // 2 * 2, min((own.stop + 1) // 2 * 2, size)) if is_mixed else own


class BatchFinish:
    """The end of both pipelines: normalisation, random erasing, mixing; ``augment`` is None in evaluation."""

    def __init__(
        self,
        plan: BatchPlan,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        augment: AugmentConfig | None,
        num_classes: int,
        channels_last: bool,
    ) -> None:
        self.plan = plan
        self.num_classes = num_classes
        self.chance = augment.random_erasing if augment else 0.0
        self.mixup, self.cutmix = (augment.mixup, augment.cutmix) if augment else (0.0, 0.0)
        self.is_mixed = self.mixup > 0 or self.cutmix > 0
        self._scale = 1 / (255 * torch.tensor(std).view(1, -1, 1, 1))
        self._shift = torch.tensor(mean).view(1, -1, 1, 1) * 255 * self._scale
        self._format = torch.channels_last if channels_last else torch.contiguous_format

    def needed(self, size: int) -> slice:
        """The part of a global batch that has to be read by this process."""
        return self.plan.needed(size, self.is_mixed)

    def __call__(self, images: Tensor, labels: Tensor, indices: Tensor, *, size: int, epoch: int, step: int) -> Batch:
        """The batch of this process, from the part of a global batch of ``size`` that was needed for it.

        ``images`` have values up to 255, ``(B, C, H, W)``.
        """
        images = images.to(torch.float32, copy=True).mul_(self._scale).sub_(self._shift)
        height, width = images.shape[2:]
        needed, own = self.needed(size), self.plan.own(size)
        if self.chance > 0:
            generator = torch.Generator().manual_seed(mixed_seed(self.plan.seed, "boxes", epoch, step))
            boxes = draw_boxes(size, generator, self.chance, height, width)
            erase_(images, boxes[needed], indices, self.plan.seed, epoch)
        target = labels
        if self.is_mixed:
            mix = draw_mix(mixed_seed(self.plan.seed, "mix", epoch, step), self.mixup, self.cutmix, height, width)
            images, target = mixed(images, labels, mix, self.num_classes)
            kept = slice(own.start - needed.start, own.stop - needed.start)
            images, target, labels, indices = (part[kept] for part in (images, target, labels, indices))
        # Last: arithmetic that differs from channel to channel is several times slower on channels-last images.
        return Batch(images.contiguous(memory_format=self._format), target, labels, indices)
