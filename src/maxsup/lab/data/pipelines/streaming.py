"""The pipeline of images in files: decoded and augmented one by one, in worker processes if there are any."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from maxsup.core.errors import DataError
from maxsup.core.installation import imported
from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.core.signals import stop_signals
from maxsup.lab.data.bad_files import LEFT_OUT, USED, BadFile, BadFileRecord
from maxsup.lab.data.bundle import FileSplit, MemorySplit
from maxsup.lab.data.pipelines.batches import BatchPlan, Pipeline, RawBatch
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
        self._parts = PartLoader(_Parts(split, transform, plan.seed, min(len(split), attempts)), plan.num_workers)

    def _read(self, epoch: int, start: int) -> Iterator[RawBatch]:
        self.num_missing = num_read = 0
        steps = self._steps(start)
        for step, part in zip(steps, self._parts.load(self._plan.needed(epoch, steps)), strict=True):
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
            yield RawBatch(images, part.labels, part.indices, self._plan.size(step), epoch, step)
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
        # As decoders give them, colours last: a copy of memory each, where reordering takes a fifth of the time.
        images = torch.stack([image.permute(1, 2, 0) for _, image in read]).permute(0, 3, 1, 2) if read else None
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


class PartLoader(Generic[T]):
    """Gives parts of a data set, from worker processes if there are any; they live as long as the loader.

    Only one pass at a time: a new one ends the one before.
    """

    def __init__(self, parts: Dataset[T], num_workers: int) -> None:
        self._order = _Order()
        self._loader: DataLoader[T] = DataLoader(
            parts,
            # What is asked for are whole batches.
            batch_size=None,
            sampler=self._order,
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            worker_init_fn=begin_worker,
            multiprocessing_context="fork" if num_workers and _can_fork() else None,
            # A generator of its own: the global one belongs to the training loop.
            generator=torch.Generator().manual_seed(0),
        )
        # Workers ignore requests to end, so an interpreter that leaves with them alive would wait for ever.
        weakref.finalize(self, _end_workers, self._loader)

    def load(self, wanted: Iterable[Any]) -> Iterator[T]:
        """``parts[each]`` for each that is wanted; a pass that does not reach its end leaves no worker behind."""
        self._order.wanted = wanted
        iterator, is_over = iter(self._loader), False
        try:
            while not is_over:
                if self._order.wanted is not wanted:
                    raise RuntimeError("a pass over the data must not go on after a newer one has begun.")
                part = next(iterator, None)
                if part is None:
                    is_over = True
                else:
                    yield part
        except Exception as error:
            # The text of the error says what happened in the worker; frames would only keep things alive.
            raise (error.with_traceback(None) if self._loader.num_workers else error) from None
        finally:
            if not is_over and self._order.wanted is wanted:
                _end_workers(self._loader)


class _Order:
    """What a pass wants, in its order."""

    wanted: Iterable[Any] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.wanted)


def _can_fork() -> bool:
    # A fork takes milliseconds; Python 3.14's default imports torch in each worker. It is taken where it is usual and
    # nobody chose another way to start processes.
    return sys.platform == "linux" and multiprocessing.get_start_method(allow_none=True) is None


def _end_workers(loader: DataLoader[Any]) -> None:
    if loader._iterator is not None:
        loader._iterator._shutdown_workers()  # type: ignore[attr-defined]
        loader._iterator = None


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
