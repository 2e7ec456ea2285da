"""CIFAR-10-LT: CIFAR-10 with exponentially fewer training images from class to class; the test split stays balanced.

Class ``k`` of 10 keeps ``int(5000 * imbalance ** (-k / 9))`` training images. A validation split is held out of these:
with ``val_share=0`` all of them are trained on, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from maxsup.lab.core.repro import mixed_seed
from maxsup.lab.data.registry import DATASETS, DataRequest, RawData


@DATASETS.register(
    "cifar10_lt",
    images="12,406 + 10,000 of 3x32x32, 10 classes",
    source="CIFAR-10, exponential profile",
    base="cifar10",
)
def cifar10_lt(request: DataRequest, *, imbalance: float = 100, subset_seed: int = 0) -> RawData:
    """CIFAR-10 with a long tail.

    Args:
        request: What is asked for.
        imbalance: Size of the largest class over that of the smallest; 10, 50 and 100 are usual.
        subset_seed: Decides which images of a class are kept. Subsets differ by more than methods do, so report it.
    """
    balanced = DATASETS["cifar10"](replace(request, name="cifar10"))
    kept = long_tail_subset(balanced.train.labels, imbalance, subset_seed)
    # The constants of the published long-tail code.
    mean, std = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
    return replace(balanced, train=balanced.train.subset(kept), mean=mean, std=std)


def long_tail_counts(num_largest: int, num_classes: int, imbalance: float) -> list[int]:
    """Images a class, from the largest to the smallest.

    Example:
        >>> long_tail_counts(5000, 10, 50)
        [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100]
    """
    if not imbalance >= 1:
        raise ValueError(f"imbalance must be at least 1; got {imbalance!r}. Usual: 10, 50 or 100.")
    return [int(num_largest * (1 / imbalance) ** (label / (num_classes - 1))) for label in range(num_classes)]


def long_tail_subset(labels: Tensor, imbalance: float, seed: int) -> Tensor:
    """Indices of a random subset of a balanced set with a long tail, in growing order."""
    counts = torch.bincount(labels)
    chosen = []
    for label, count in enumerate(long_tail_counts(int(counts.min()), len(counts), imbalance)):
        members = (labels == label).nonzero().flatten()
        generator = torch.Generator().manual_seed(mixed_seed(seed, "long tail", label))
        chosen.append(members[torch.randperm(len(members), generator=generator)[:count]])
    return torch.cat(chosen).sort().values


def shot_groups(train_counts: Sequence[int]) -> dict[str, list[int]]:
    """Classes by their number of training images: many above 100, low below 20, medium the rest.

    A group without classes is absent, because it has no accuracy.

    Example:
        >>> shot_groups([5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50])
        {'many': [0, 1, 2, 3, 4, 5, 6, 7], 'medium': [8, 9]}
    """
    groups: dict[str, list[int]] = {"many": [], "medium": [], "low": []}
    for label, count in enumerate(train_counts):
        groups["many" if count > 100 else "low" if count < 20 else "medium"].append(label)
    return {name: classes for name, classes in groups.items() if classes}
