"""Published sets that torchvision reads and downloads; ``ROOT/<name>.npz`` takes their place where it is present."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from maxsup.data.bundle import FileSplit, MemorySplit
from maxsup.data.optional_packages import require
from maxsup.data.registry import DATASETS, DataRequest, RawData, how_to_get, missing_data
from maxsup.data.sets.arrays import channels_first, read_npz


@DATASETS.register(
    "fashion_mnist",
    images="60,000 + 10,000 of 1x28x28, 10 classes",
    source="Xiao et al. 2017",
    places="fashion_mnist.npz or FashionMNIST/raw",
)
def fashion_mnist(request: DataRequest) -> RawData:
    """Grey pictures of clothes."""
    return _in_memory(request, "FashionMNIST", "FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte")


@DATASETS.register(
    "cifar10",
    images="50,000 + 10,000 of 3x32x32, 10 classes",
    source="Krizhevsky 2009",
    places="cifar10.npz or cifar-10-batches-py",
)
def cifar10(request: DataRequest) -> RawData:
    """Small colour photographs of ten kinds of things."""
    files = "cifar-10-batches-py/{data_batch_1..5, test_batch, batches.meta}"
    raw = _in_memory(request, "CIFAR10", files)
    return replace(raw, mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))


@DATASETS.register(
    "cifar100",
    images="50,000 + 10,000 of 3x32x32, 100 classes",
    source="Krizhevsky 2009",
    places="cifar100.npz or cifar-100-python",
)
def cifar100(request: DataRequest) -> RawData:
    """Small colour photographs of a hundred kinds of things."""
    raw = _in_memory(request, "CIFAR100", "cifar-100-python/{train, test, meta}")
    return replace(raw, mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762))


@DATASETS.register(
    "flowers102",
    images="1,020 + 1,020 + 6,149 files, 102 classes",
    source="Nilsback, Zisserman 2008",
    places="flowers102.npz or flowers-102",
)
def flowers102(request: DataRequest) -> RawData:
    """Flowers, with the official validation split."""
    files = "flowers-102/{jpg/image_*.jpg, imagelabels.mat, setid.mat}"
    return _in_files(request, "Flowers102", files, {"train": "train", "val": "val", "test": "test"})


@DATASETS.register(
    "food101",
    images="75,750 + 25,250 files, 101 classes",
    source="Bossard et al. 2014",
    places="food101.npz or food-101",
)
def food101(request: DataRequest) -> RawData:
    """Dishes; the training labels are noisy on purpose."""
    files = "food-101/{images/<class>/*.jpg, meta/train.json, meta/test.json}"
    return _in_files(request, "Food101", files, {"train": "train", "test": "test"})


@DATASETS.register(
    "pets",
    images="3,680 + 3,669 files, 37 classes",
    source="Oxford-IIIT Pet, Parkhi et al. 2012",
    places="pets.npz or oxford-iiit-pet",
)
def pets(request: DataRequest) -> RawData:
    """Breeds of cats and dogs."""
    files = "oxford-iiit-pet/{images/*.jpg, annotations/trainval.txt, annotations/test.txt}"
    return _in_files(request, "OxfordIIITPet", files, {"train": "trainval", "test": "test"})


@DATASETS.register(
    "stanford_cars",
    images="8,144 + 8,041 files, 196 classes",
    source="Krause et al. 2013",
    places="stanford_cars.npz or stanford_cars",
)
def stanford_cars(request: DataRequest) -> RawData:
    """Makes, models and years of cars; the official download is gone."""
    files = (
        "stanford_cars/{cars_train/*.jpg, cars_test/*.jpg, cars_test_annos_withlabels.mat, "
        "devkit/cars_meta.mat, devkit/cars_train_annos.mat}"
    )
    return _in_files(request, "StanfordCars", files, {"train": "train", "test": "test"}, can_download=False)


def _in_memory(request: DataRequest, kind: str, files: str) -> RawData:
    def read() -> RawData:
        official = getattr(require("torchvision.datasets"), kind)
        train, test = (official(request.root, train=flag, download=request.download) for flag in (True, False))
        return RawData(_memory_split(train), _memory_split(test), tuple(train.classes))

    return _stored_or(request, files, read, can_download=True)


def _memory_split(part: Any) -> MemorySplit:
    """CIFAR comes as arrays and lists, MNIST and its relatives as tensors."""
    return MemorySplit(channels_first(np.asarray(part.data), "torchvision"), torch.as_tensor(part.targets).long())


def _in_files(
    request: DataRequest, kind: str, files: str, names: dict[str, str], *, can_download: bool = True
) -> RawData:
    def read() -> RawData:
        official = getattr(require("torchvision.datasets"), kind)
        # Stanford Cars refuses the argument in the versions that can no longer download it.
        options = {"download": request.download} if can_download else {}
        parts = {name: official(request.root, split=split, **options) for name, split in names.items()}
        splits = {name: FileSplit(_samples(part)) for name, part in parts.items()}
        return RawData(splits["train"], splits["test"], tuple(parts["train"].classes), val=splits.get("val"))

    return _stored_or(request, files, read, can_download=can_download)


def _samples(part: Any) -> list[tuple[str, int]]:
    """Path and label of each image, without decoding any: torchvision keeps them under three different names."""
    if hasattr(part, "_samples"):
        return [(str(path), int(label)) for path, label in part._samples]
    paths = part._images if hasattr(part, "_images") else part._image_files
    return [(str(path), int(label)) for path, label in zip(paths, part._labels, strict=True)]


def _stored_or(request: DataRequest, files: str, read: Callable[[], RawData], *, can_download: bool) -> RawData:
    stored = request.root / f"{request.name}.npz"
    if stored.is_file():
        return read_npz(stored)
    try:
        return read()
    except (RuntimeError, OSError) as error:
        by_hand = "Fetch it by hand, and say with --data-root (or MAXSUP_DATA) where it is."
        fix = how_to_get(request, error) if can_download else by_hand
        raise missing_data(request, f"{stored} or {request.root}/{files}", fix) from error
