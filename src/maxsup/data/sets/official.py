"""Published sets that torchvision reads and downloads; ``ROOT/<name>.npz`` takes their place where it is present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from maxsup.data.bundle import FileSplit, MemorySplit
from maxsup.data.optional_packages import require
from maxsup.data.registry import DATASETS, DataRequest, RawData, how_to_get, missing_data
from maxsup.data.sets.arrays import channels_first, read_npz


@dataclass(frozen=True)
class OfficialSet:
    """A data set of torchvision.

    ``splits`` are our names of its splits and theirs; a set without comes as arrays, which stay in memory.
    ``images`` and ``source`` are for people; ``files`` are what it is read from, under the data root.
    """

    name: str
    kind: str
    images: str
    source: str
    files: str
    splits: Mapping[str, str] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    can_download: bool = True

    @property
    def places(self) -> str:
        """What shows that the set is there: our file or its folder."""
        return f"{self.name}.npz or {self.files.partition('/{')[0]}"

    def load(self, request: DataRequest) -> RawData:
        """The splits of the set."""
        stored = request.root / f"{self.name}.npz"
        try:
            raw = read_npz(stored) if stored.is_file() else self._read(request)
        except (RuntimeError, OSError) as error:
            by_hand = "Fetch it by hand, and say with data.root (or MAXSUP_DATA) where it is."
            fix = how_to_get(request, error) if self.can_download else by_hand
            raise missing_data(request, f"{stored} or {request.root}/{self.files}", fix) from error
        return replace(raw, mean=self.mean, std=self.std)

    def _read(self, request: DataRequest) -> RawData:
        official = getattr(require("torchvision.datasets"), self.kind)
        # Stanford Cars refuses the argument in the versions that can no longer download it.
        options = {"download": request.download} if self.can_download else {}
        if self.splits is None:
            train, test = (official(request.root, train=flag, **options) for flag in (True, False))
            return RawData(_memory_split(train), _memory_split(test), tuple(train.classes))
        parts = {name: official(request.root, split=split, **options) for name, split in self.splits.items()}
        splits = {name: FileSplit(_samples(part)) for name, part in parts.items()}
        return RawData(splits["train"], splits["test"], tuple(parts["train"].classes), val=splits.get("val"))


_SETS = (
    OfficialSet(
        "fashion_mnist",
        "FashionMNIST",
        "60,000 + 10,000 of 1x28x28, 10 classes",
        "Xiao et al. 2017",
        "FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte",
    ),
    OfficialSet(
        "cifar10",
        "CIFAR10",
        "50,000 + 10,000 of 3x32x32, 10 classes",
        "Krizhevsky 2009",
        "cifar-10-batches-py/{data_batch_1..5, test_batch, batches.meta}",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    ),
    OfficialSet(
        "cifar100",
        "CIFAR100",
        "50,000 + 10,000 of 3x32x32, 100 classes",
        "Krizhevsky 2009",
        "cifar-100-python/{train, test, meta}",
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    ),
    OfficialSet(
        "flowers102",
        "Flowers102",
        "1,020 + 1,020 + 6,149 files, 102 classes",
        "Nilsback, Zisserman 2008",
        "flowers-102/{jpg/image_*.jpg, imagelabels.mat, setid.mat}",
        {"train": "train", "val": "val", "test": "test"},
    ),
    # The training labels are noisy on purpose.
    OfficialSet(
        "food101",
        "Food101",
        "75,750 + 25,250 files, 101 classes",
        "Bossard et al. 2014",
        "food-101/{images/<class>/*.jpg, meta/train.json, meta/test.json}",
        {"train": "train", "test": "test"},
    ),
    OfficialSet(
        "pets",
        "OxfordIIITPet",
        "3,680 + 3,669 files, 37 classes",
        "Oxford-IIIT Pet, Parkhi et al. 2012",
        "oxford-iiit-pet/{images/*.jpg, annotations/trainval.txt, annotations/test.txt}",
        {"train": "trainval", "test": "test"},
    ),
    OfficialSet(
        "stanford_cars",
        "StanfordCars",
        "8,144 + 8,041 files, 196 classes",
        "Krause et al. 2013",
        "stanford_cars/{cars_train/*.jpg, cars_test/*.jpg, cars_test_annos_withlabels.mat, devkit/cars_meta.mat, "
        "devkit/cars_train_annos.mat}",
        {"train": "train", "test": "test"},
        can_download=False,
    ),
)

for _set in _SETS:
    DATASETS.register(_set.name, images=_set.images, source=_set.source, places=_set.places)(_set.load)


def _memory_split(part: Any) -> MemorySplit:
    """CIFAR comes as arrays and lists, MNIST and its relatives as tensors."""
    return MemorySplit(channels_first(np.asarray(part.data), "torchvision"), torch.as_tensor(part.targets).long())


def _samples(part: Any) -> list[tuple[str, int]]:
    """Path and label of each image, without decoding any: torchvision keeps them under three different names."""
    if hasattr(part, "_samples"):
        return [(str(path), int(label)) for path, label in part._samples]
    paths = part._images if hasattr(part, "_images") else part._image_files
    return [(str(path), int(label)) for path, label in zip(paths, part._labels, strict=True)]
