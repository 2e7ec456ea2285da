"""The pipeline of images in files: decoded and augmented one by one, in worker processes if there are any."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from maxsup.core.errors import DataError
from maxsup.core.installation import imported
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.core.signals import stop_signals
from maxsup.lab.data.bad_files import LEFT_OUT, USED, BadFile, BadFileRecord
from maxsup.lab.data.bundle import FileSplit, MemorySplit
from maxsup.lab.data.pipelines.batches import Batch, BatchPlan, Pipeline
from maxsup.lab.data.pipelines.decoding import BadImageError, read_image
from maxsup.lab.data.pipelines.transforms import Transform, evaluation_transform, seed_transforms, training_transform

T = TypeVar("T")


class StreamingPipeline(Pipeline):
    """Batches of a split whose images are read one by one.

    Training replaces an unreadable file by the next one. Evaluation leaves it out and warns. If the share of unreadable
    files exceeds ``tolerance``, the run ends.
    """

    def __init__(
        self, split: MemorySplit | FileSplit, plan: BatchPlan, tolerance: float, bad_files: Path | None
    ) -> None:
        super().__init__(plan)
        if isinstance(split, MemorySplit) and split.images.shape[1] not in (1, 3):
            raise ValueError(
                f"images must be grey or RGB to be augmented one by one; got {split.describe()}. "
                "Leave out crop_pct, random_resized_crop and randaugment."
            )
        size = plan.image_size or _side(split)
        self._empty_shape = (0, len(plan.mean), size, size)
        self._record = BadFileRecord(bad_files, len(split), tolerance)
        if plan.is_training:
            transform, attempts = training_transform(plan.augment, size, plan.mean), int(tolerance * len(split)) + 2
        else:
            transform, attempts = evaluation_transform(plan.augment, size), 1
        self._parts = _Parts(split, transform, plan.seed, min(len(split), attempts))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches ``start``, ``start + 1``, ... of an epoch; nothing is decoded for those before."""
        self.num_missing = num_read = 0
        for step, size, part in stream_batches(self._parts, self._plan, epoch, self._steps(start)):
            self._record.add(part.bad_files)
            if part.num_missing and self._plan.is_training:
                first = part.bad_files[0].path
                raise DataError(
                    f"images must be readable; got none from {first} on. Repair or remove them.", code="unreadable-file"
                )
            self.num_missing += part.num_missing
            num_read += len(part.labels)
            # All processes get the same number of batches, if need be an empty one.
            images = torch.empty(self._empty_shape, dtype=torch.uint8) if part.images is None else part.images
            yield self._finish(images, part.labels, part.indices, size, epoch, step)
        if self.num_missing:
            warnings.warn(
                f"{self.num_missing} of {self.num_missing + num_read} images could not be read and are missing from "
                "this evaluation.",
                stacklevel=2,
            )


@dataclass(frozen=True, eq=False)
class _Part:
    """What a worker sends: images as bytes, because floats would take four times as long to hand over."""

    images: Tensor | None
    labels: Tensor
    indices: Tensor
    num_missing: int
    bad_files: list[BadFile]


class _Parts(Dataset[_Part]):
    """Batches of single images; the randomness of an image depends on seed, index, and the pass over the data."""

    def __init__(self, split: MemorySplit | FileSplit, transform: Transform, seed: int, attempts: int) -> None:
        self.split, self.transform, self.seed, self.attempts = split, transform, seed, attempts

    def __getitem__(self, wanted: list[tuple[int, int]]) -> _Part:
        bad_files: list[BadFile] = []
        read = [found for index, number in wanted if (found := self._read_one(index, number, bad_files))]
        indices = torch.tensor([index for index, _ in read], dtype=torch.int64)
        images = torch.stack([image for _, image in read]) if read else None
        return _Part(images, self.split.labels[indices], indices, len(wanted) - len(read), bad_files)

    def _read_one(self, index: int, number: int, bad_files: list[BadFile]) -> tuple[int, Tensor] | None:
        """The image at ``index``, or the next readable one, with its index."""
        for attempt in range(self.attempts):
            taken = (index + attempt) % len(self.split)
            try:
                image, note = self._image(taken)
                with seed_transforms(mixed_seed(self.seed, "sample", number, index)):
                    pixels = self.transform(image)
            except BadImageError as error:
                bad_files.append(BadFile(self._name(taken), LEFT_OUT, str(error)))
                continue
            if note:
                bad_files.append(BadFile(self._name(taken), USED, note))
            return taken, pixels
        return None

    def _image(self, index: int) -> tuple[Any, str | None]:
        if isinstance(self.split, MemorySplit):
            pixels = self.split.images[index].permute(1, 2, 0).numpy()
            return imported("PIL.Image").fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels), None
        source = self.split.samples[index][0]
        return read_image(self.split.opener(source) if self.split.opener else source)

    def _name(self, index: int) -> str:
        if isinstance(self.split, FileSplit) and self.split.opener is None:
            return str(self.split.samples[index][0])
        return f"image {index}"


def stream_batches(parts: Dataset[T], plan: BatchPlan, epoch: int, steps: range) -> Iterator[tuple[int, int, T]]:
    """Batch by batch: its step, the size of the global batch, and the part of it that this process needs."""
    batches = plan.members(epoch, steps)
    wanted = [members[plan.needed_part(len(members))] for members in batches]
    # The parts have no name here: the traceback of an error would keep them, and with them the workers.
    for step, members, part in zip(steps, batches, _load_batch(parts, wanted, plan.num_workers), strict=True):
        yield step, len(members), part


def _load_batch(parts: Dataset[T], wanted: Sequence[Any], num_workers: int) -> Iterator[T]:
    """``parts[each]`` for each that is wanted, from worker processes; an error leaves no worker behind."""
    # Workers live for an epoch. A fork takes milliseconds; Python 3.14's default imports torch in each of them. It is
    # taken where it is usual and nobody chose another way to start processes.
    can_fork = sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) is None
    loader = DataLoader(
        parts,
        # What is asked for are whole batches.
        batch_size=None,
        sampler=wanted,
        num_workers=num_workers,
        worker_init_fn=begin_worker,
        multiprocessing_context="fork" if num_workers and can_fork else None,
        # A generator of its own: the global one belongs to the training loop.
        generator=torch.Generator().manual_seed(0),
    )
    if num_workers == 0:
        yield from loader
        return
    iterator = iter(loader)
    while True:
        try:
            part = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            # The frames of a traceback would keep the iterator alive, and with it workers that ignore requests to end:
            # the interpreter would wait for them forever. The text of the error says what happened in the worker.
            del iterator
            raise error.with_traceback(None) from None
        yield part


def begin_worker(worker: int) -> None:
    """In a worker process, leave signals to the training loop and streams to the threads that were printing."""
    # Ctrl-C, a cluster's SIGTERM and the end of a terminal reach the whole process group. The training loop answers
    # them by saving; it still needs its workers for that, and ends them itself.
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)
    # If a progress bar was printing at the moment of the fork, its lock stays locked here for ever, and the flush at
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
