"""Published sets that torchvision reads and downloads; ``ROOT/<name>.npz`` takes their place where it is present."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from maxsup.core.installation import imported
from maxsup.lab.data.bundle import FileSplit, MemorySplit
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData, how_to_get, missing_data
from maxsup.lab.data.sets.arrays import channels_first, read_npz

# Class of torchvision; images and source for people.
_SETS = {
    "fashion_mnist": ("FashionMNIST", "60,000 + 10,000 of 1x28x28, 10 classes", "Xiao et al. 2017"),
    "cifar10": ("CIFAR10", "50,000 + 10,000 of 3x32x32, 10 classes", "Krizhevsky 2009"),
    "cifar100": ("CIFAR100", "50,000 + 10,000 of 3x32x32, 100 classes", "Krizhevsky 2009"),
    "flowers102": ("Flowers102", "1,020 + 1,020 + 6,149 files, 102 classes", "Nilsback, Zisserman 2008"),
    # The training labels are noisy on purpose.
    "food101": ("Food101", "75,750 + 25,250 files, 101 classes", "Bossard et al. 2014"),
    "pets": ("OxfordIIITPet", "3,680 + 3,669 files, 37 classes", "Oxford-IIIT Pet, Parkhi et al. 2012"),
    "stanford_cars": ("StanfordCars", "8,144 + 8,041 files, 196 classes", "Krause et al. 2013"),
}
# What they are read from, under the data root.
_FILES = {
    "fashion_mnist": "FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte",
    "cifar10": "cifar-10-batches-py/{data_batch_1..5, test_batch, batches.meta}",
    "cifar100": "cifar-100-python/{train, test, meta}",
    "flowers102": "flowers-102/{jpg/image_*.jpg, imagelabels.mat, setid.mat}",
    "food101": "food-101/{images/<class>/*.jpg, meta/train.json, meta/test.json}",
    "pets": "oxford-iiit-pet/{images/*.jpg, annotations/trainval.txt, annotations/test.txt}",
    "stanford_cars": "stanford_cars/{cars_train/*.jpg, cars_test/*.jpg, cars_test_annos_withlabels.mat, "
    "devkit/cars_meta.mat, devkit/cars_train_annos.mat}",
}
# Our names of their splits and theirs; the other sets come as arrays, which stay in memory.
_SPLITS = {
    "flowers102": {"train": "train", "val": "val", "test": "test"},
    "food101": {"train": "train", "test": "test"},
    "pets": {"train": "trainval", "test": "test"},
    "stanford_cars": {"train": "train", "test": "test"},
}
_STATISTICS = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
_BY_HAND = ("stanford_cars",)


def _load(request: DataRequest) -> RawData:
    name = request.name
    stored = request.root / f"{name}.npz"
    try:
        raw = read_npz(stored) if stored.is_file() else _read_one(request)
    except (RuntimeError, OSError) as error:
        by_hand = "Fetch it by hand, and say with data.root (or MAXSUP_DATA) where it is."
        fix = by_hand if name in _BY_HAND else how_to_get(request, error)
        raise missing_data(request, f"{stored} or {request.root}/{_FILES[name]}", fix) from error
    mean, std = _STATISTICS.get(name, (None, None))
    return replace(raw, mean=mean, std=std)


def _read_one(request: DataRequest) -> RawData:
    official = getattr(imported("torchvision.datasets"), _SETS[request.name][0])
    # Stanford Cars refuses the argument in the versions that can no longer download it.
    options = {} if request.name in _BY_HAND else {"download": request.download}
    if request.name not in _SPLITS:
        train, test = (official(request.root, train=flag, **options) for flag in (True, False))
        return RawData(_memory_split(train), _memory_split(test), tuple(train.classes))
    parts = {name: official(request.root, split=split, **options) for name, split in _SPLITS[request.name].items()}
    splits = {name: FileSplit(_samples(part)) for name, part in parts.items()}
    return RawData(splits["train"], splits["test"], tuple(parts["train"].classes), val=splits.get("val"))


for _name, (_, _images, _source) in _SETS.items():
    _folder = _FILES[_name].partition("/{")[0]
    DATASETS.register(_name, images=_images, source=_source, places=f"{_name}.npz or {_folder}")(_load)


def _memory_split(part: Any) -> MemorySplit:
    """CIFAR comes as arrays and lists, MNIST and its relatives as tensors."""
    return MemorySplit(channels_first(np.asarray(part.data), "torchvision"), torch.as_tensor(part.targets).long())


def _samples(part: Any) -> list[tuple[str, int]]:
    """Path and label of each image, without decoding any: torchvision keeps them under three different names."""
    if hasattr(part, "_samples"):
        pairs = part._samples
    else:
        paths = part._images if hasattr(part, "_images") else part._image_files
        pairs = zip(paths, part._labels, strict=True)
    return [(str(path), int(label)) for path, label in pairs]
