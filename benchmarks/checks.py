"""Right before fast: every loss meets a float64 reference, value and gradient, before it is timed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.cases import Case
from benchmarks.peers import Candidate

# The true class has next to no probability, some, or all of it: a gradient may be wrong at only one of them.
SCALES = (0.05, 3.0, 30.0)
ALPHA = 0.1
FORMULAS = ("ce", "ls", "maxsup")
# In a large batch only the gradients of some rows are compared, spread from the first to the last.
CHECKED_ELEMENTS = 1 << 20
MIN_CHECKED_ROWS = 32
# Elements that float64 arithmetic works on at a time; they should fit the cache.
BLOCK_ELEMENTS = 1 << 16

# Loss and gradient (against its largest entry). Others may round more: torch's label smoothing loses two digits of a
# float32 gradient with many classes, and row arithmetic in bfloat16 has only three digits.
OUR_LIMITS = {"float32": (1e-5, 1e-4), "bfloat16": (1e-5, 8e-3)}
PEER_LIMITS = {"float32": (1e-4, 1e-3), "bfloat16": (5e-2, 5e-2)}


class Errors(NamedTuple):
    """Largest errors over all scales, relative."""

    loss: float
    gradient: float


class Reference(NamedTuple):
    """Loss of a batch, and the gradient of some of its rows."""

    loss: float
    gradient: Tensor


def errors(candidates: Sequence[Candidate], case: Case) -> dict[str, Errors]:
    """How far each loss is from the reference, by its name."""
    target = case.target()
    worst = {candidate.name: Errors(0.0, 0.0) for candidate in candidates}
    for scale in SCALES:
        logits = case.logits(scale)
        rows = _rows(logits.detach())
        num_checked = min(len(rows), max(MIN_CHECKED_ROWS, CHECKED_ELEMENTS // case.num_classes))
        chosen = torch.linspace(0, len(rows) - 1, num_checked).round().long()
        has_one_top = (rows[chosen] == rows[chosen].amax(dim=1, keepdim=True)).sum(dim=1) == 1
        expected = references(rows, target.reshape(-1), case.ignore_index, chosen)
        for candidate in candidates:
            loss, gradient = expected[candidate.formula]
            value = candidate.loss(logits, target)
            (own,) = torch.autograd.grad(value, logits)
            # Others may give a tie to any of its classes.
            compared = slice(None) if candidate.is_ours else has_one_top
            before = worst[candidate.name]
            worst[candidate.name] = Errors(
                max(before.loss, relative_error(value.detach(), torch.tensor(loss, dtype=torch.float64))),
                max(before.gradient, relative_error(_rows(own)[chosen][compared], gradient[compared])),
            )
    return worst


def relative_error(own: Tensor, exact: Tensor) -> float:
    """Largest difference in units of the largest exact entry; infinite where it is not a number.

    Example:
        >>> relative_error(torch.tensor([1.0, 4.5]), torch.tensor([1.0, 4.0], dtype=torch.float64))
        0.125
    """
    error = (own.double() - exact.double()).abs().max() / exact.abs().max()
    return float(error.nan_to_num(nan=math.inf))


def references(rows: Tensor, labels: Tensor, ignore_index: int, chosen: Tensor) -> dict[str, Reference]:
    """Closed forms in float64 of the mean loss, and of its gradient in the chosen rows."""
    counts = labels != ignore_index
    num_counted = int(counts.sum())
    num_rows = max(1, BLOCK_ELEMENTS // rows.shape[1])
    totals = dict.fromkeys(FORMULAS, 0.0)
    for block, block_labels in zip(rows.split(num_rows), labels.split(num_rows), strict=True):
        kept = block_labels != ignore_index
        for formula, total in _totals(block[kept].double(), block_labels[kept]).items():
            totals[formula] += total
    share = counts[chosen].double().unsqueeze(1) / num_counted
    gradients = _gradients(rows[chosen].double(), labels[chosen].where(counts[chosen], 0))
    return {formula: Reference(totals[formula] / num_counted, gradients[formula] * share) for formula in FORMULAS}


def is_right(candidate: Candidate, case: Case, found: Errors) -> bool:
    """Whether the errors are those of rounding."""
    limits = (OUR_LIMITS if candidate.is_ours else PEER_LIMITS)[case.dtype]
    return found.loss <= limits[0] and found.gradient <= limits[1]


def _rows(logits: Tensor) -> Tensor:
    return logits.movedim(1, -1).reshape(-1, logits.shape[1])


def _totals(z: Tensor, y: Tensor) -> dict[str, float]:
    true, mean, top = z.gather(1, y.unsqueeze(1)).sum(), z.mean(dim=1).sum(), z.amax(dim=1).sum()
    plain = float(z.logsumexp(dim=1).sum() - true)
    return {"ce": plain, "ls": plain + ALPHA * float(true - mean), "maxsup": plain + ALPHA * float(top - mean)}


def _gradients(z: Tensor, y: Tensor) -> dict[str, Tensor]:
    """A tie for the maximum goes to the first index."""
    one = z.new_ones(len(z), 1)
    plain = z.softmax(dim=1).scatter_add(1, y.unsqueeze(1), -one)
    centred = plain - ALPHA / z.shape[1]
    return {
        "ce": plain,
        "ls": centred.scatter_add(1, y.unsqueeze(1), ALPHA * one),
        "maxsup": centred.scatter_add(1, z.argmax(dim=1, keepdim=True), ALPHA * one),
    }
