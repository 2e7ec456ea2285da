"""The pipeline of images in files: decoded and augmented one by one, by workers if there are any."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from maxsup.core.errors import DataError
from maxsup.core.repro import mixed_seed
from maxsup.data.bad_files import LEFT_OUT, USED, BadFile, BadFileRecord
from maxsup.data.bundle import FileSplit, MemorySplit
from maxsup.data.optional_packages import require
from maxsup.data.pipelines.batches import Batch, BatchFinish, BatchPlan, Pipeline
from maxsup.data.pipelines.decoding import BadImageError, read_image
from maxsup.data.pipelines.transforms import Transform, evaluation_transform, seeded, training_transform

if TYPE_CHECKING:
    from maxsup.core.config import AugmentConfig


class StreamingPipeline(Pipeline):
    """Batches of a split whose images are read one by one.

    A file that cannot be read is replaced by the next one in training and left out in evaluation, which says so; more
    of them than ``tolerance`` end the run.
    """

    def __init__(
        self,
        split: MemorySplit | FileSplit,
        plan: BatchPlan,
        finish: BatchFinish,
        augment: AugmentConfig,
        *,
        is_training: bool,
        image_size: int | None,
        mean: tuple[float, ...],
        num_workers: int,
        tolerance: float,
        bad_files: Path | None,
    ) -> None:
        self.num_batches = plan.num_batches
        self._split, self._plan, self._finish = split, plan, finish
        self._is_training = is_training
        if isinstance(split, MemorySplit) and split.images.shape[1] not in (1, 3):
            raise ValueError(
                f"images must be grey or RGB to be augmented one by one; got {split.describe()}. "
                "Leave out crop_pct, random_resized_crop and randaugment."
            )
        size = image_size or _side(split)
        self._transform = (
            training_transform(augment, size, mean) if is_training else evaluation_transform(augment, size)
        )
        self._empty_shape = (0, len(mean), size, size)
        self._num_workers = num_workers
        self._record = BadFileRecord(bad_files, len(split), tolerance)
        self._attempts = min(len(split), int(tolerance * len(split)) + 2) if is_training else 1

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch; what comes before is not decoded."""
        steps = self._plan.steps(start)
        batches = self._plan.members(epoch, steps)
        wanted = [members[self._finish.needed(len(members))] for members in batches]
        samples = _Samples(self._split, self._transform, self._plan.seed, self._attempts)
        loader = DataLoader(
            samples,
            batch_sampler=wanted,
            num_workers=self._num_workers,
            collate_fn=_collated,
            worker_init_fn=begin_worker,
            multiprocessing_context=worker_context(self._num_workers),
            # A generator of its own: the global one belongs to the training loop.
            generator=torch.Generator().manual_seed(0),
        )
        self.num_missing = 0
        for step, members, indices, part in zip(steps, batches, wanted, sent(loader), strict=True):
            self._record.add(part.bad_files)
            num_missing = len(indices) - len(part.labels)
            if num_missing and self._is_training:
                first = part.bad_files[0].path
                raise DataError(f"images must be readable; got none from {first} on. Repair or remove them.")
            self.num_missing += num_missing
            # All processes get the same number of batches, if need be an empty one.
            images = torch.empty(self._empty_shape, dtype=torch.uint8) if part.images is None else part.images
            yield self._finish(images, part.labels, part.indices, size=len(members), epoch=epoch, step=step)
        if self.num_missing:
            warnings.warn(
                f"{self.num_missing} of {sum(map(len, wanted))} images could not be read and are missing from this "
                "evaluation.",
                stacklevel=2,
            )


@dataclass(frozen=True, eq=False)
class _Part:
    """What a worker sends: images as bytes, because floats would take four times as long to hand over."""

    images: Tensor | None
    labels: Tensor
    indices: Tensor
    bad_files: list[BadFile]


@dataclass(frozen=True, eq=False)
class _Sample:
    image: Tensor | None
    label: int
    index: int
    bad_files: list[BadFile]


class _Samples(Dataset[_Sample]):
    """Single images; what is random about one depends on seed, index, and the pass over the data."""

    def __init__(self, split: MemorySplit | FileSplit, transform: Transform, seed: int, attempts: int) -> None:
        self.split, self.transform, self.seed, self.attempts = split, transform, seed, attempts

    def __getitem__(self, wanted: tuple[int, int]) -> _Sample:
        index, number = wanted
        bad_files: list[BadFile] = []
        for attempt in range(self.attempts):
            taken = (index + attempt) % len(self.split)
            name = _name(self.split, taken)
            try:
                image, note = _image(self.split, taken)
                with seeded(mixed_seed(self.seed, "sample", number, index)):
                    pixels = self.transform(image)
            except BadImageError as error:
                bad_files.append(BadFile(name, LEFT_OUT, str(error)))
                continue
            if note:
                bad_files.append(BadFile(name, USED, note))
            return _Sample(pixels, int(self.split.labels[taken]), taken, bad_files)
        return _Sample(None, -1, index, bad_files)


def _image(split: MemorySplit | FileSplit, index: int) -> tuple[Any, str | None]:
    if isinstance(split, MemorySplit):
        pixels = split.images[index].permute(1, 2, 0).numpy()
        return require("PIL.Image").fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels), None
    source = split.samples[index][0]
    return read_image(split.opener(source) if split.opener else source)


def _name(split: MemorySplit | FileSplit, index: int) -> str:
    if isinstance(split, FileSplit) and split.opener is None:
        return str(split.samples[index][0])
    return f"image {index}"


def _collated(samples: list[_Sample]) -> _Part:
    read = [sample for sample in samples if sample.image is not None]
    images = torch.stack([sample.image for sample in read if sample.image is not None]) if read else None
    labels = torch.tensor([sample.label for sample in read], dtype=torch.int64)
    indices = torch.tensor([sample.index for sample in read], dtype=torch.int64)
    return _Part(images, labels, indices, [file for sample in samples for file in sample.bad_files])


def sent(loader: DataLoader[Any]) -> Iterator[Any]:
    """What workers send; an error among it leaves no worker behind."""
    if loader.num_workers == 0:
        yield from loader
        return
    parts = iter(loader)
    while True:
        try:
            part = next(parts)
        except StopIteration:
            return
        except Exception as error:
            # Frames of a traceback would keep the iterator, and with it workers that ignore being told to end: the
            # interpreter would wait for them forever. What happened in a worker is in the text of its error.
            del parts
            raise error.with_traceback(None) from None
        yield part


def worker_context(num_workers: int) -> str | None:
    """How worker processes are started: by a fork where that is usual and nobody chose otherwise.

    Workers live for an epoch. A fork takes milliseconds; Python 3.14's default imports torch in each of them.
    """
    is_usual = sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) is None
    return "fork" if num_workers and is_usual else None


def begin_worker(worker: int) -> None:
    """Leave signals to the training loop and streams to the threads that were printing, in a worker process."""
    # Ctrl-C and a cluster's SIGTERM reach the whole process group. The training loop answers them by saving; it still
    # needs its workers for that, and ends them itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Where a progress bar was printing at the moment of the fork, its lock stays locked here for ever, and the flush at
    # the end of this process would wait for it.
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is not None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def _side(split: MemorySplit | FileSplit) -> int:
    if isinstance(split, MemorySplit):
        height, width = split.images.shape[2:]
        if height == width:
            return int(height)
    raise ValueError(
        f"image_size must be given for images that are not all square; got None for {split.describe()}. "
        "Set data.image_size, for instance 224."
    )
