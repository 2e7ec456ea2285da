"""Data from Python code instead of a registered name: arrays, a torch ``Dataset``, or a bundle of ours.

It is stored as one ``.npz`` file whose name is a digest of its content. Runs find it from any process, now and later,
and other data makes another experiment.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from maxsup.core.errors import DataError
from maxsup.lab.data.bundle import DataBundle, MemorySplit, stratified_split

PythonData: TypeAlias = "DataBundle | Dataset[Any] | Sequence[Any]"
"""A bundle, a Dataset of ``(image, label)``, ``(images, labels)``, or a pair of the last two: training and test."""

TEST_SHARE = 0.2
"""Share of every class that is held out as the test split where there is none."""

_Arrays: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.int64]]"


def data_name(data: str | PythonData, folder: str | Path) -> str:
    """The name under which a recipe finds data; data made in Python is written into ``folder`` first.

    Images are stored in 8 bits. Floats must be from 0 to 1, because recipes normalise by themselves. Tensors are
    ``(N, C, H, W)``, numpy arrays ``(N, H, W)`` or ``(N, H, W, C)``. A missing test split is held out by a fixed seed:
    :data:`TEST_SHARE` of every class.

    Example:
        >>> data_name("digits", "runs")
        'digits'
    """
    if isinstance(data, str):
        return data
    arrays = _named_arrays(data)
    digest = hashlib.blake2b(digest_size=4)
    for key, values in arrays.items():
        digest.update(f"{key} {values.dtype} {values.shape}".encode())
        digest.update(np.ascontiguousarray(values).data)
    path = Path(folder).resolve() / f"data-{digest.hexdigest()}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **arrays)  # type: ignore[arg-type]
        os.replace(part, path)
    return f"arrays:{path}"


def _named_arrays(data: PythonData) -> dict[str, NDArray[Any]]:
    if isinstance(data, DataBundle):
        splits = {"train": data.train, "val": data.val, "test": data.test}
        parts = {name: _of_split(split, data.name) for name, split in splits.items() if len(split)}
        names: Sequence[str] = data.class_names
    else:
        train: Any = data
        if _is_pair(train) and all(isinstance(part, Dataset) or _is_pair(part) for part in train):
            train, test = train
            parts = {"train": _of_part(train), "test": _of_part(test)}
        else:
            images, labels = _of_part(train)
            kept, held_out = stratified_split(torch.from_numpy(labels), TEST_SHARE, seed=0)
            indices = {"train": kept.numpy(), "test": held_out.numpy()}
            parts = {name: (images[chosen], labels[chosen]) for name, chosen in indices.items()}
        num_classes = 1 + max(int(labels.max(initial=-1)) for _, labels in parts.values())
        given = getattr(train, "classes", None)
        names = [str(name) for name in given] if given is not None and len(given) == num_classes else []
    arrays: dict[str, NDArray[Any]] = {}
    for name, (images, labels) in parts.items():
        arrays |= {f"{name}_images": images, f"{name}_labels": labels}
    return arrays | ({"class_names": np.array(names)} if names else {})


def _is_pair(data: Any) -> bool:
    return isinstance(data, tuple | list) and len(data) == 2


def _of_split(split: Any, name: str) -> _Arrays:
    if not isinstance(split, MemorySplit):
        raise DataError(
            f"a bundle must hold its images in memory to be given as data; got {split.describe()}. Give its name, "
            f"{name!r}, instead.",
            code="bad-arrays",
        )
    return np.ascontiguousarray(split.images.permute(0, 2, 3, 1).numpy()), split.labels.numpy()


def _of_part(part: Any) -> _Arrays:
    if isinstance(part, Dataset):
        images, labels = _collect(part)
    elif _is_pair(part):
        images, labels = part
    else:
        raise DataError(
            f"data must be a name, (images, labels), a torch Dataset, a pair of these for training and test, or a "
            f"DataBundle; got {type(part).__name__}. Write for instance data=(images, labels).",
            code="bad-arrays",
        )
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise DataError(
            f"labels must be whole numbers, one an image; got {numbers.dtype} {numbers.shape}. Count "
            f"classes from 0 on.",
            code="bad-arrays",
        )
    pixels = _bytes(images)
    if len(pixels) != len(numbers):
        raise DataError(
            f"labels must be one an image; got {len(numbers)} for {len(pixels)} images. Correct them.",
            code="bad-arrays",
        )
    return pixels, numbers.astype(np.int64)


def _collect(dataset: Dataset[Any]) -> tuple[Any, list[int]]:
    # A Dataset may make its samples when it is asked, and need not say that there are no more.
    items: Any = map(dataset.__getitem__, range(len(dataset))) if hasattr(dataset, "__len__") else dataset
    images: list[Any] = []
    labels = []
    for image, label, *_ in items:
        images.append(image if isinstance(image, torch.Tensor) else np.asarray(image))
        labels.append(int(label))
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) != 1:
        raise DataError(
            f"images of a Dataset must have one shape; got {', '.join(map(str, shapes[:2])) or 'no image'}. Save them "
            "as files, one folder a class, and give folder:PATH.",
            code="bad-arrays",
        )
    return torch.stack(images) if isinstance(images[0], torch.Tensor) else np.stack(images), labels


def _bytes(images: Any) -> NDArray[np.uint8]:
    """Images as ``(N, H, W, C)`` in 8 bits."""
    is_tensor = isinstance(images, torch.Tensor)
    values = images.detach().cpu().numpy() if is_tensor else np.asarray(images)
    if values.ndim not in (3, 4):
        raise DataError(
            f"images must be (N, C, H, W) as a tensor, (N, H, W) or (N, H, W, C) as an array; got {values.shape}. "
            "Reshape them.",
            code="bad-arrays",
        )
    if values.ndim == 4:
        is_first, is_last = values.shape[1] <= 4, values.shape[3] <= 4
        # If the size does not tell where the channels are, tensors have them first and arrays last.
        is_channels_first = is_tensor if is_first == is_last else is_first
        if is_channels_first:
            values = values.transpose(0, 2, 3, 1)
    if values.dtype == np.bool_:
        values = values.astype(np.float32)
    if np.issubdtype(values.dtype, np.floating):
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        if not (low >= 0.0 and high <= 1.0):
            raise DataError(
                f"images must be uint8, or floats from 0 to 1; got floats from {low:.3g} to {high:.3g}. Leave out the "
                "normalisation, which is the recipe's, or divide by 255.",
                code="bad-arrays",
            )
        values = np.rint(values * 255)
    elif values.size and not (values.min() >= 0 and values.max() <= 255):
        raise DataError(
            f"images must be from 0 to 255; got {values.min()} to {values.max()}. Scale them.", code="bad-arrays"
        )
    return np.ascontiguousarray(values.astype(np.uint8))
