"""Handwritten digits that come with scikit-learn: the default, because nothing has to be downloaded."""

from __future__ import annotations

import torch
from torch import Tensor

from maxsup.data.bundle import MemorySplit, stratified_split
from maxsup.data.optional_packages import require
from maxsup.data.registry import DATASETS, DataRequest, RawData

# scikit-learn brings no split: this share of each digit is the test split, by a seed that nothing changes.
_TEST_SHARE = 0.2


def digit_images() -> tuple[Tensor, Tensor]:
    """All 1,797 digits, uint8 ``(N, 1, 8, 8)``, and their labels."""
    stored = require("sklearn.datasets").load_digits()
    # Grey levels are 0..16 in the source.
    images = torch.from_numpy(stored.images).mul(255 / 16).round().to(torch.uint8)
    return images[:, None], torch.from_numpy(stored.target).long()


@DATASETS.register("digits", images="1,797 of 1x8x8, 10 classes", source="scikit-learn (UCI optdigits)")
def digits(request: DataRequest) -> RawData:
    """Grey digits of 8x8 pixels."""
    images, labels = digit_images()
    kept, held_out = stratified_split(labels, _TEST_SHARE, seed=0)
    everything = MemorySplit(images, labels)
    return RawData(everything.subset(kept), everything.subset(held_out), tuple("0123456789"))
