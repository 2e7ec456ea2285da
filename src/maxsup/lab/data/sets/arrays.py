"""Images in one ``.npz`` file that any user may write.

``train_images`` and ``test_images`` are uint8, ``(N, H, W)`` or ``(N, H, W, C)``; ``train_labels`` and
``test_labels`` are integers from 0 on; ``val_images``, ``val_labels`` and ``class_names`` are optional. Nothing in the
file is ever unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxsup.core.errors import DataError
from maxsup.core.npz import NpzFile
from maxsup.lab.data.bundle import MemorySplit
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, local_path, missing_data

_KEYS = ("train_images", "train_labels", "test_images", "test_labels")
_VAL_KEYS = ("val_images", "val_labels")


@DATASETS.register("arrays", images="your arrays", source="an .npz file of yours", argument="PATH")
def arrays(request: DataRequest) -> RawData:
    """An ``.npz`` file; a relative path is looked for here and under the data root."""
    path = local_path(request.argument, request.root)
    if not path.is_file():
        raise missing_data(request, str(path), f"Write one with numpy.savez: {', '.join(_KEYS)}, class_names.")
    return read_npz(path)


def read_npz(path: Path) -> RawData:
    """The splits of an ``.npz`` file."""
    try:
        stored = NpzFile(path)
        if missing := [key for key in _KEYS if key not in stored.names]:
            raise DataError(
                f"{path} must hold {', '.join(_KEYS)}; got no {missing[0]}. Add it with numpy.savez.", code="bad-arrays"
            )
        for key in ("train_images", "test_images"):  # before memory is taken for them
            _check_images(*stored.kind(key), path)
        keys = (*_KEYS, *_VAL_KEYS) if set(_VAL_KEYS) <= set(stored.names) else _KEYS
        found = [stored.read(key) for key in keys]
        names = stored.read("class_names") if "class_names" in stored.names else None
    except DataError:
        raise
    except Exception as error:  # a broken archive has many ways to say so
        raise DataError(
            f"{path} must be an .npz file of plain arrays; got {error}. Write it again.", code="bad-arrays"
        ) from error
    pairs = zip(found[::2], found[1::2], strict=True)
    train, test, *val = (MemorySplit(channels_first(images, path), _labels(labels, path)) for images, labels in pairs)
    num_classes = 1 + max((int(split.labels.max()) for split in (train, test) if len(split)), default=-1)
    class_names = tuple(str(name) for name in (range(num_classes) if names is None else names))
    return RawData(train, test, class_names, val[0] if val else None)


def channels_first(images: NDArray[np.uint8], path: Path | str) -> torch.Tensor:
    """``(N, H, W)`` or ``(N, H, W, C)`` as a tensor ``(N, C, H, W)``."""
    _check_images(images.shape, images.dtype, path)
    if images.ndim == 3:
        images = images[..., None]
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _check_images(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path | str) -> None:
    if dtype != np.uint8 or len(shape) not in (3, 4):
        raise DataError(
            f"images in {path} must be uint8 (N, H, W) or (N, H, W, C); got {dtype} {shape}. "
            "Scale them to 0..255 and round.",
            code="bad-arrays",
        )


def _labels(labels: NDArray[np.int64], path: Path) -> torch.Tensor:
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"labels in {path} must be integers; got {labels.dtype}. Number the classes from 0 on.", code="bad-arrays"
        )
    return torch.from_numpy(labels.astype(np.int64))
