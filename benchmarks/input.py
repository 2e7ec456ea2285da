"""From JPEG files to a device: images a second of a core beside other loaders, and what is left for the main process.

The files are ``imagenet_samples/images`` under ``MAXSUP_DATA`` where that is present, else as many made-up ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from benchmarks.report import judged, lined_up
from maxsup.lab.bench.timing import interleaved_times, time_ratio
from maxsup.lab.core.config import Recipe
from maxsup.lab.data import DataBundle, FileSplit, Pipeline
from maxsup.lab.data.pipelines.batches import RawBatch
from maxsup.lab.data.registry import IMAGENET_MEAN, IMAGENET_STD, data_root
from maxsup.lab.training.builders import split_pipeline
from maxsup.lab.training.preprocessing import resolve_preprocessing

SIDE, BATCH_SIZE = 224, 32
# What a card usually gets.
DEVICE_BATCH = 256
NUM_MADE = 128
# Seconds of CPU time after which no further round begins.
BUDGET = 60.0


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Time of a batch from files, ours against torchvision's and timm's; CPU time of the main process an image."""
    with TemporaryDirectory() as folder:
        home, source = _images(Path(folder))
        loaders = _interleaved(home, 1 if is_quick else rounds)
        shares = _main_process(_our_pipeline(home), 3 if is_quick else rounds)
    rows = [[name, f"{BATCH_SIZE / min(seconds):.0f}"] for name, seconds in loaders.items()]
    show(f"\n{source}, random resized crop to {SIDE} and flip\n{lined_up(['loader', 'images/s a core'], rows)}")
    rows = [[name, f"{1e6 * np.median(seconds) / DEVICE_BATCH:.1f}"] for name, seconds in shares.items()]
    show(f"\nmain process, after the workers\n{lined_up(['where floats are made', 'CPU us an image'], rows)}")
    after = float(1e6 * np.median(shares["on the device"]) / DEVICE_BATCH)
    ratios = {name: time_ratio(loaders, "ours", name)._asdict() for name in loaders if name != "ours"}
    goals = [judged("CPU us of the main process an image", f"{SIDE} pixels", after, 20.0)]
    goals += [judged("time of a batch from files against", name, ratio, 1.0) for name, ratio in ratios.items()]
    numbers = {name: BATCH_SIZE / min(seconds) for name, seconds in loaders.items()}
    microseconds = {name: float(1e6 * np.median(seconds) / DEVICE_BATCH) for name, seconds in shares.items()}
    return {"files": source, "images_per_second": numbers, "main_process_us": microseconds, "goals": goals}


def _images(folder: Path) -> tuple[Path, str]:
    """A tree of folders of JPEG files, and what it holds."""
    real = data_root() / "imagenet_samples" / "images"
    if real.is_dir():
        return real, "1,000 photographs of ImageNet, shorter side at most 128"
    dice = np.random.default_rng(0)
    for index in range(NUM_MADE):
        place = folder / f"class{index % 4}"
        place.mkdir(exist_ok=True)
        coarse = Image.fromarray(dice.integers(0, 255, (8, 10, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.int16)
        noisy = (pixels + dice.integers(-12, 12, pixels.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(place / f"{index:03d}.jpg", quality=90)
    return folder, f"{NUM_MADE} made-up images of 500 x 375 (imagenet_samples is not under MAXSUP_DATA)"


def _our_pipeline(home: Path) -> Pipeline:
    paths = sorted(path for path in home.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    classes = {name: label for label, name in enumerate(sorted({path.parent.name for path in paths}))}
    split = FileSplit([(str(path), classes[path.parent.name]) for path in paths])
    recipe = resolve_preprocessing(
        Recipe.model_validate(
            {
                "data": {"name": f"folder:{home}", "image_size": SIDE},
                "augment": {"random_resized_crop": True, "flip": True},
                "batch_size": BATCH_SIZE,
                "channels_last": True,
            }
        )
    )
    names = tuple(classes)
    bundle = DataBundle("jpeg", len(names), names, split, split, split, IMAGENET_MEAN, IMAGENET_STD)
    return split_pipeline(recipe, bundle, split, is_training=True)


def _endless(epoch: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    while True:
        yield from epoch()


def _interleaved(home: Path, rounds: int) -> Mapping[str, list[float]]:
    """Seconds of a batch, from files to what is sent to a device, in this process and in turns."""
    from timm.data import ImageDataset, create_transform
    from timm.data.loader import fast_collate
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    to_floats = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD)]
    reference = v2.Compose([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), *to_floats])
    options = {"color_jitter": None, "interpolation": "bilinear", "use_prefetcher": True}
    timm = ImageDataset(str(home), transform=create_transform(SIDE, is_training=True, **options))
    torchvision = DataLoader(ImageFolder(str(home), reference), BATCH_SIZE, shuffle=True, drop_last=True)
    collated = DataLoader(timm, BATCH_SIZE, shuffle=True, drop_last=True, collate_fn=fast_collate)
    ours = _our_pipeline(home)
    loaders = {
        "ours": _endless(lambda: ours._read(0, 0)),
        "torchvision's reference": _endless(lambda: iter(torchvision)),
        "timm's, before its prefetcher": _endless(lambda: iter(collated)),
    }
    turns = {name: partial(next, each) for name, each in loaders.items()}
    return interleaved_times(turns, rounds=rounds, budget=BUDGET)


def _main_process(pipeline: Pipeline, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of this process for a batch that workers have read, in turns.

    ``meta`` takes the part of the device: its kernels are launched and do nothing. Pinning is one copy to memory that
    is used again.
    """
    raw = next(iter(pipeline._read(0, 0)))
    images, labels, indices = (
        part[:1].repeat(DEVICE_BATCH, *[1] * (part.dim() - 1)) for part in (raw.images, raw.labels, raw.indices)
    )
    raw = replace(raw, images=images, labels=labels, indices=indices, size=DEVICE_BATCH)
    pinned = torch.empty_like(raw.images)

    def sent(part: Tensor) -> Tensor:
        return (pinned.copy_(part) if part.shape == pinned.shape else part).to("meta")

    # As it arrives from a worker: in memory that this process has not touched.
    def arrived() -> RawBatch:
        return replace(raw, images=raw.images.clone())

    candidates: dict[str, Callable[[RawBatch], Any]] = {
        "on the host": pipeline._finish,
        "on the device": lambda batch: pipeline._finish(batch.on(sent)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, work in candidates.items():
            batch = arrived()
            start = time.process_time()
            work(batch)
            seconds[name].append(time.process_time() - start)
    return seconds
