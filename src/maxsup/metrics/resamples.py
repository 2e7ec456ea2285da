"""Draws with replacement as counts, and metrics of a resample that do not follow from a tally."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from maxsup.metrics.calibration import NUM_BINS, class_gaps
from maxsup.metrics.predictions import checked_labels
from maxsup.metrics.separation import MIN_TOTAL, ClassSeparation, SeparationSums, unit_blocks

# Classwise calibration needs the probabilities of all classes, so at most this many groups of samples are drawn instead
# of single samples. Their number, not their size, determines how well the spread of the resamples is known: to 2 %.
MAX_GROUPS = 1000
# Resamples at a time.
BATCH = 50


def counts(num_samples: int, num_resamples: int, seed: int) -> Iterator[Tensor]:
    """How often each sample is drawn, one vector per resample."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(num_resamples):
        rows = torch.randint(num_samples, (num_samples,), generator=generator)
        yield rows.bincount(minlength=num_samples).double()


def class_counts(labels: Tensor, num_resamples: int, seed: int) -> Iterator[Tensor]:
    """The same, with the number of samples of each class kept."""
    generator = torch.Generator().manual_seed(seed)
    ordered, order = labels.cpu().sort(stable=True)
    _, place, size = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    first, size = (size.cumsum(0) - size)[place], size[place]
    for _ in range(num_resamples):
        share = torch.rand(len(order), generator=generator, dtype=torch.float64)
        drawn = (first + (share * size).long()).bincount(minlength=len(order)).double()
        yield torch.zeros_like(drawn).index_copy_(0, order, drawn)


def classwise_gaps(
    logits: Tensor, labels: Tensor, num_resamples: int, seed: int, num_bins: int = NUM_BINS
) -> Iterator[Tensor]:
    """What each class and bin adds to the error of a resample; above ``MAX_GROUPS`` samples, groups are drawn."""
    num_samples, num_classes = logits.shape
    num_groups = min(num_samples, MAX_GROUPS)
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    gaps = torch.zeros(num_groups, num_classes * num_bins)
    size = torch.zeros(num_groups, dtype=torch.float64)
    for group, rows in enumerate(order.tensor_split(num_groups)):
        sums = torch.zeros(num_classes * num_bins, dtype=torch.float64)
        for cells, gained, _ in class_gaps(logits[rows.to(logits.device)], labels[rows.to(labels.device)], num_bins):
            sums.index_add_(0, cells, gained)
        gaps[group] = sums
        size[group] = len(rows)
    drawn = torch.stack(list(counts(num_groups, num_resamples, seed)))
    for batch in drawn.split(BATCH):
        yield from (batch.float() @ gaps).double() / (num_classes * (batch @ size)).unsqueeze(1)


@torch.no_grad()
def separation_statistic(
    features: Tensor, labels: Tensor, estimate: ClassSeparation, *, has_self_pairs: bool = True
) -> Callable[[Tensor], ClassSeparation]:
    """Class separation of a resample from its counts, to first order.

    A resample repeats samples, and a repeated one is at distance 0 from itself, so that pairs from a resample are not
    like pairs of new samples. Therefore the two means change by each sample's mean cosine with the others of its class
    and with all other classes; a pair is two samples, hence the factor 2.
    """
    labels = checked_labels(labels, len(features))
    sums = SeparationSums()
    sums.update(features, labels)
    classes, place, size = labels.unique(return_inverse=True, return_counts=True)
    per_class = sums.vectors[classes]
    means = per_class / size.unsqueeze(1)
    everything = means.sum(dim=0)
    own, cross = torch.zeros(2, len(labels), dtype=torch.float64)
    for rows, block in unit_blocks(features):
        part = place[rows]
        with_own = torch.einsum("ij,ij->i", block, per_class[part])
        own[rows] = with_own - block.square().sum(dim=1)
        cross[rows] = block @ everything - with_own / size[part]
    size = size[place].double()
    own *= 2.0 / size / (size if has_self_pairs else size - 1).clamp(min=1.0)
    own[size < 2] = 0.0
    cross *= 2.0 / size
    num_paired = len(classes) if has_self_pairs else int((labels.bincount() > 1).sum())
    num_pairs = len(classes) ** 2 - (len(classes) - num_paired)

    def statistic(drawn: Tensor) -> ClassSeparation:
        change = drawn - 1.0
        of_own = float(change @ own)
        within = estimate.within - of_own / max(1, num_paired)
        total = estimate.total - (of_own + float(change @ cross)) / max(1, num_pairs)
        return ClassSeparation(within, total, 1.0 - within / total if total > MIN_TOTAL else float("nan"))

    return statistic
