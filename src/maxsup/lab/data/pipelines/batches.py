"""What a pipeline gives, in which order, and what every pipeline does to a batch at the end.

Order and randomness are functions of seed, epoch, step and index. No state passes from one batch to the next, so an
epoch that is entered anywhere continues exactly as if it had been run from its start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.pipelines.augment import Jitter, draw_boxes, draw_mix, erase_, jitter_colours, mix_images
from maxsup.lab.data.pipelines.feeding import fed

if TYPE_CHECKING:
    from maxsup.lab.core.config import AugmentConfig

_HOST = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Batch:
    """The images of one step.

    Args:
        images: float32, ``(B, C, H, W)``, normalised.
        target: What to train on: int64 ``(B,)``, or float ``(B, K)`` where images are mixed.
        labels: int64 ``(B,)``, never mixed. For images with masks, target and labels are per pixel, ``(B, H, W)``, in
            evaluation at the size of the mask.
        indices: Position of each image in the split.
    """

    images: Tensor
    target: Tensor
    labels: Tensor
    indices: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class RawBatch:
    """What a process reads of a global batch: pixels as bytes, because floats take four times as long to hand over.

    Args:
        images: uint8, ``(B, C, H, W)``.
        labels: One an image, or uint8 masks.
        indices: Position of each image in the split; it stays on the host.
        size: Size of the global batch.
        epoch: Epoch of the batch.
        step: Its place there.
        jitter: Colours that are still to be changed.
        views: The same images at other scales.
        extents: Height and width of each image, where the rest is padding.
    """

    images: Tensor
    labels: Tensor
    indices: Tensor
    size: int
    epoch: int
    step: int
    jitter: Jitter | None = None
    views: tuple[Tensor, ...] = ()
    extents: tuple[tuple[int, int], ...] = ()

    def on(self, move: Callable[[Tensor], Tensor]) -> RawBatch:
        """The batch with everything that the device needs moved there."""
        jitter = None if self.jitter is None else Jitter(move(self.jitter.factors), self.jitter.order)
        images, labels, *views = (move(part) for part in (self.images, self.labels, *self.views))
        return replace(self, images=images, labels=labels, jitter=jitter, views=tuple(views))


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The settings of a pipeline, and which samples of its split are in which batch.

    ``num_samples`` is the size of the split, ``batch_size`` that of the global batch: each process gets a slice, which
    can be empty if the last batch has fewer samples than there are processes. ``mean`` and ``std`` are those of each
    channel. With ``is_training``, order and augmentation are drawn by ``seed``; an evaluation is one pass over all
    samples. A training epoch has ``num_steps`` batches if it is not one pass; with ``drop_last`` it leaves out a last
    batch that is not full. ``image_size`` is the side that the model wants; None leaves images in memory as they are.
    """

    num_samples: int
    batch_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    seed: int
    is_training: bool
    augment: AugmentConfig
    image_size: int | None
    num_classes: int
    num_steps: int | None = None
    num_workers: int = 0
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    channels_last: bool = False

    @property
    def num_batches(self) -> int:
        """Batches an epoch."""
        full, rest = divmod(self.num_in_epoch, self.batch_size)
        return full + bool(rest and not (self.drop_last and self.is_training))

    @property
    def num_in_epoch(self) -> int:
        """Samples an epoch."""
        if self.num_steps is None or not self.is_training:
            return self.num_samples
        return self.num_steps * self.batch_size

    @property
    def is_mixed(self) -> bool:
        """Whether images are mixed with each other."""
        return self.is_training and (self.augment.mixup > 0 or self.augment.cutmix > 0)

    def order(self, epoch: int) -> Tensor:
        """The samples of an epoch, in its order."""
        if not self.is_training:
            return torch.arange(self.num_samples)
        passes = self.passes(epoch)
        shuffled = [
            torch.randperm(self.num_samples, generator=self.generator("order", number))
            for number in range(int(passes[0]), int(passes[-1]) + 1)
        ]
        skipped = epoch * len(passes) % self.num_samples
        return torch.cat(shuffled)[skipped : skipped + len(passes)]

    def passes(self, epoch: int) -> Tensor:
        """The pass over the data that each sample of an epoch belongs to; its augmentation depends on that number."""
        length = self.num_in_epoch
        return torch.arange(epoch * length, (epoch + 1) * length) // self.num_samples

    def size(self, step: int) -> int:
        """Number of images in a global batch."""
        place = self.batch(step)
        return place.stop - place.start

    def needed(self, epoch: int, steps: range) -> Iterator[list[tuple[int, int]]]:
        """Index and pass of every sample that this process reads, batch by batch."""
        order, passes = self.order(epoch), self.passes(epoch)
        for step in steps:
            place, part = self.batch(step), self.needed_part(self.size(step))
            yield list(zip(order[place][part].tolist(), passes[place][part].tolist(), strict=True))

    def batch(self, step: int) -> slice:
        """Position of a global batch in the order."""
        return slice(step * self.batch_size, min((step + 1) * self.batch_size, self.num_in_epoch))

    def own_part(self, size: int) -> slice:
        """This process's part of a global batch of ``size``."""
        return slice(size * self.rank // self.world_size, size * (self.rank + 1) // self.world_size)

    def needed_part(self, size: int) -> slice:
        """The part of a global batch that this process reads: its own part, and the partners it is mixed with."""
        own = self.own_part(size)
        return slice(own.start // 2 * 2, min((own.stop + 1) // 2 * 2, size)) if self.is_mixed else own

    def generator(self, *parts: str | int) -> torch.Generator:
        """A generator whose numbers depend on the seed and on ``parts``."""
        return torch.Generator().manual_seed(mixed_seed(self.seed, *parts))


class Pipeline(ABC):
    """Batches of a split, epoch by epoch.

    Attributes:
        num_batches: Batches an epoch.
        num_missing: Images that were left out of the last evaluated epoch because they could not be read.
    """

    num_missing: int = 0

    def __init__(self, plan: BatchPlan) -> None:
        if plan.batch_size < plan.world_size:
            raise ValueError(
                f"batch_size must be at least the number of processes; got {plan.batch_size} for {plan.world_size}. "
                "It is the size of the global batch."
            )
        if plan.is_training and plan.num_samples == 0:
            raise ValueError("split must have at least one image to train on; got none. Lower val_share.")
        if plan.is_training and plan.num_batches == 0:
            raise ValueError(
                f"batch_size must be at most the number of samples where the last batch is dropped; got "
                f"{plan.batch_size} for {plan.num_samples}. Choose a smaller batch_size or drop_last=False."
            )
        self.num_batches = plan.num_batches
        self._plan = plan
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def epoch(self, epoch: int, start: int = 0, device: torch.device = _HOST) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch on a device; nothing is read for those before.

        A device is sent bytes, one batch ahead, and makes floats of them itself.
        """
        return (self._finish(raw) for raw in fed(self._read(epoch, start), device))

    @abstractmethod
    def _read(self, epoch: int, start: int) -> Iterator[RawBatch]:
        """What this process needs of the batches from ``start`` on."""

    def _steps(self, start: int) -> range:
        if not 0 <= start <= self.num_batches:
            raise ValueError(f"start must be from 0 to {self.num_batches}; got {start!r}. It counts batches.")
        return range(start, self.num_batches)

    def _finish(self, raw: RawBatch) -> Batch:
        """The batch of this process, normalised, erased and mixed, from what it needed of a global batch."""
        plan, labels, indices = self._plan, raw.labels.long(), raw.indices
        images, target = self._normalised(raw.images, raw.jitter), labels
        height, width = images.shape[2:]
        needed, own = plan.needed_part(raw.size), plan.own_part(raw.size)
        if plan.is_training and plan.augment.random_erasing > 0:
            generator = plan.generator("boxes", raw.epoch, raw.step)
            boxes = draw_boxes(raw.size, generator, plan.augment.random_erasing, height, width)
            erase_(images, boxes[needed], indices, plan.seed, raw.epoch)
        if plan.is_mixed:
            seed = mixed_seed(plan.seed, "mix", raw.epoch, raw.step)
            mix = draw_mix(seed, plan.augment.mixup, plan.augment.cutmix, height, width)
            images, target = mix_images(images, labels, mix, plan.num_classes)
            kept = slice(own.start - needed.start, own.stop - needed.start)
            images, target, labels, indices = (part[kept] for part in (images, target, labels, indices))
        return Batch(self._laid_out(images), target, labels, indices)

    def _normalised(self, images: Tensor, jitter: Jitter | None = None) -> Tensor:
        """Normalised float32 images of bytes, on their device."""
        if images.device not in self._constants:
            scale = 1 / (255 * torch.tensor(self._plan.std).view(1, -1, 1, 1))
            shift = torch.tensor(self._plan.mean).view(1, -1, 1, 1) * 255 * scale
            self._constants[images.device] = scale.to(images.device), shift.to(images.device)
        scale, shift = self._constants[images.device]
        if jitter is not None:
            images = jitter_colours(images, jitter)
        # On a host, arithmetic that differs from channel to channel is several times slower where channels come last.
        images = images.contiguous() if images.device.type == "cpu" else images
        return images.to(torch.float32, copy=True).mul_(scale).sub_(shift)

    def _laid_out(self, images: Tensor) -> Tensor:
        memory_format = torch.channels_last if self._plan.channels_last else torch.contiguous_format
        return images.contiguous(memory_format=memory_format)
