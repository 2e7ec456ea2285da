"""Check the targets of a batch on their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import double_smoothing, index_with_probabilities, other_convention
from maxsup.doctor.criterion import Smoother

# Labels commonly used for missing labels.
_USUAL_IGNORE = (-100, -1, 255)
_SUM_TOLERANCE = 1e-2
# A mixed label of two classes has no zero either, so only many equal rows tell smoothing from mixing.
_MIN_ROWS_OF_TWO_CLASSES = 16


def examine_labels(
    labels: Tensor, num_classes: int, ignore_index: int, weight: Any = None, *, is_empty_fine: bool = False
) -> Iterator[Finding]:
    """Check flat class indices. With ``is_empty_fine``, a batch without targets is allowed."""
    is_counted = labels != ignore_index
    is_outside = is_counted & ((labels < 0) | (labels >= num_classes))
    if not is_counted.any():
        if not is_empty_fine:
            what = f"All {len(labels)} targets are ignore_index={ignore_index}" if len(labels) else "The batch is empty"
            fix = 'Drop such batches, or use MaxSupLoss(empty="zero"), whose 0 keeps the graph for other processes.'
            yield Finding("all_ignored", "error", f"{what}: the mean over nothing is nan.", fix)
    elif is_outside.any():
        yield _label_range_finding(labels, is_outside, num_classes, ignore_index)
    elif weight is not None:
        weights = torch.as_tensor(weight).detach().cpu()
        if tuple(weights.shape) == (num_classes,):
            if not bool((weights >= 0).all()) or not bool(weights.isfinite().all()):
                sentence = f"Class weights must be finite and not negative; the smallest is {float(weights.min())}."
                yield Finding("class_weights", "error", sentence, "Weigh a class with a positive number.")
            elif not bool((weights[labels[is_counted]] > 0).any()):
                count = len(labels[is_counted].unique())
                sentence = f"Every class in the batch has weight 0 ({count} classes): the mean is nan."
                yield Finding("class_weights", "error", sentence, "Give some class in every batch a weight above 0.")


def _label_range_finding(labels: Tensor, is_outside: Tensor, num_classes: int, ignore_index: int) -> Finding:
    values = labels[is_outside].unique()
    first, count = int(values[0]), int(is_outside.sum())
    if len(values) == 1 and (first in _USUAL_IGNORE or first < 0):
        what = f"{count} of {len(labels)} targets are {first}, which is no class while ignore_index={ignore_index}."
        return Finding("ignore_index", "error", what, f"Use ignore_index={first} to ignore these targets.")
    fix = "Check the label mapping, or make the classifier wider."
    if first == num_classes and len(values) == 1 and int(labels[labels != ignore_index].min()) == 1:
        fix = "Labels seem to count from 1: use targets - 1."
    where = f"(first: {int(labels[is_outside][0])} in sample {int(is_outside.nonzero()[0])})"
    what = f"{count} of {len(labels)} targets lie outside the classes 0 to {num_classes - 1} {where}."
    return Finding("label_range", "error", what, fix)


def examine_probabilities(probs: Tensor, ignore_index: int, smoothing: list[Smoother] | None) -> Iterator[Finding]:
    """Check probability targets ``(M, K)``. ``smoothing`` describes the loss, None if it is unknown."""
    if ignore_index >= 0:
        yield index_with_probabilities(f"ignore_index={ignore_index} is set, and probability targets")
    kept = probs[probs.sum(dim=1) != 0]
    if not bool((probs >= 0).all()):
        sentence = f"Target probabilities must not be negative or nan; got {float(probs[~(probs >= 0)][0]):.3g}."
        yield Finding("target_range", "error", sentence, "Check how targets are made.")
    elif len(kept) == 0:
        sentence = f"All {len(probs)} targets are rows of zeros, so no sample counts."
        yield Finding("all_ignored", "warning", sentence, "Drop such batches.")
    elif (worst := float((kept.sum(dim=1) - 1).abs().max())) > _SUM_TOLERANCE:
        sentence = f"Target probabilities must sum to 1 in every row; the worst is off by {worst:.3g}."
        fix = "Divide each row by its sum. Several classes at once need a sigmoid loss; MaxSup is not defined for it."
        yield Finding("target_sum", "error", sentence, fix)
    else:
        yield from _examine_floor(kept, smoothing)


def _examine_floor(probs: Tensor, smoothing: list[Smoother] | None) -> Iterator[Finding]:
    minima = probs.min(dim=1, keepdim=True).values.double()
    smallest, largest = float(minima.min()), float(minima.max())
    num_rows, size = probs.shape
    if smallest <= 0 or (size == 2 and num_rows < _MIN_ROWS_OF_TWO_CLASSES):
        return
    at_floor = (probs - minima <= 1e-3 * minima).sum(dim=1)
    is_common = largest - smallest <= 1e-3 * largest and bool((at_floor >= size - 2).all())
    if not is_common or (num_rows < 2 and size < 5):
        shown = f"row minima are {smallest:.3g} to {largest:.3g}"
        sentence = f"No target probability is 0 ({shown}): they are a teacher's, or each row is smoothed differently."
        yield Finding("soft_targets", "note", sentence, "Leave it if that is meant.")
        return
    over_all, over_others, convention = size * smallest, (size - 1) * smallest, _convention(smallest, size)
    spread = f"{smallest:.4g} with K={size}, which is "
    if convention == "k-1":
        spread += f"{over_others:.4g} over the K - 1 other classes, the same as alpha={over_all:.4g} over all K"
    else:
        spread += f"alpha={over_all:.4g} over all K classes"
    if convention is None:
        spread += f", or {over_others:.4g} over the K - 1 others"
    fix = "Switch smoothing off where targets are made, for instance Mixup(label_smoothing=0)."
    active = [one for one in smoothing or [] if one.strength > 0]
    if active:
        yield double_smoothing(f"their maker (none is below {spread})", active[0].described, fix)
    elif smoothing is None:
        what = f"Targets are smoothed already: no probability is below {spread}. A loss that smooths would do so again."
        yield Finding("smoothed_targets", "warning", what, fix)
    elif convention == "k-1":
        yield other_convention("Smoothing of the targets", over_others, size)


def _convention(floor: float, size: int) -> str | None:
    """Return the convention in which the strength is a round number. Both give the same targets."""
    tolerance = min(1e-4, floor / 4)
    for step in (0.05, 0.01):
        over_all, over_others = (
            abs(value - step * round(value / step)) <= tolerance for value in (size * floor, (size - 1) * floor)
        )
        if over_all != over_others:
            return "k" if over_all else "k-1"
    return None
