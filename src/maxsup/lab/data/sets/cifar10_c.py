"""CIFAR-10-C: the corrupted test images of CIFAR-10, with its clean training images.

All cells have the same size, so the mean over the test split is the published mean over the 15 x 5 cells. ``factors``
name the cell of each image (``corruption`` is a position in the option ``corruptions``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from maxsup.core.errors import DataError
from maxsup.lab.data.bundle import MemorySplit
from maxsup.lab.data.corruptions.catalogue import CORRUPTIONS, SEVERITIES, check_cell, corrupt
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, missing_data
from maxsup.lab.data.sets.arrays import channels_first

_URL = "https://zenodo.org/records/2535967"


@DATASETS.register(
    "cifar10_c",
    images="50,000 + 750,000 of 3x32x32, 10 classes",
    source="Hendrycks, Dietterich 2019; 15 x 5 cells",
    places="CIFAR-10-C",
    base="cifar10",
)
def cifar10_c(
    request: DataRequest,
    *,
    corruptions: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
    is_generated: bool = False,
) -> RawData:
    """CIFAR-10 with a corrupted test split.

    Args:
        request: What is asked for.
        corruptions: Names; the usual 15 by default, 4 more exist.
        severities: From 1 to 5.
        is_generated: Compute them from the test images instead of reading the official files. The result is close to
            the published pixels, not equal.
    """
    for name, severity in product(corruptions, severities):
        check_cell(name, severity)
    clean = DATASETS["cifar10"](replace(request, name="cifar10"))
    assert isinstance(clean.test, MemorySplit)
    labels = clean.test.labels
    if not is_generated:
        _check_files(request, corruptions)
        labels = torch.from_numpy(_official(request.root, "labels", 1).astype(np.int64))
    cells = list(product(range(len(corruptions)), severities))
    # Filled in place: all cells together take gigabytes.
    images = torch.empty((len(cells), len(labels), *clean.test.images.shape[1:]), dtype=torch.uint8)
    for cell, (number, severity) in zip(images, cells, strict=True):
        name = corruptions[number]
        cell[:] = (
            corrupt(clean.test.images, name, severity)
            if is_generated
            else channels_first(_official(request.root, name, severity), f"{name}.npy")
        )
    numbers, strengths = torch.tensor(cells, dtype=torch.int64).repeat_interleave(len(labels), 0).unbind(1)
    factors = {"corruption": numbers, "severity": strengths}
    test = MemorySplit(images.flatten(0, 1), labels.repeat(len(cells)), factors)
    # The constants of the published CIFAR-10-C code.
    mean, std = (0.491, 0.482, 0.446), (0.247, 0.243, 0.261)
    return replace(clean, test=test, mean=mean, std=std)


def _official(root: Path, name: str, severity: int) -> NDArray[np.uint8]:
    """One severity of an official file, which holds five blocks one behind the other."""
    path = root / "CIFAR-10-C" / f"{name}.npy"
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path} must be a plain .npy array; got {error}. Unpack {_URL} again.", code="damaged-file"
        ) from error
    size, rest = divmod(len(stored), len(SEVERITIES))
    if rest or stored.dtype != np.uint8:
        raise DataError(
            f"{path} must hold uint8 in 5 blocks; got {stored.dtype} {stored.shape}. Unpack {_URL} again.",
            code="damaged-file",
        )
    return np.array(stored[(severity - 1) * size : severity * size])


def _check_files(request: DataRequest, corruptions: Sequence[str]) -> None:
    home = request.root / "CIFAR-10-C"
    files = [f"{name}.npy" for name in (*corruptions, "labels")]
    if missing := [file for file in files if not (home / file).is_file()]:
        fix = f"Unpack CIFAR-10-C.tar of {_URL}, or set data.options.is_generated=true to make similar ones."
        raise missing_data(request, f"{home}/{{{', '.join(missing)}}}", fix)
