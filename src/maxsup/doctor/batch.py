"""Check a batch of logits and targets before it goes into a loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from maxsup.core.finding import Finding
from maxsup.doctor.common_findings import softmax_before_loss
from maxsup.doctor.criterion import Smoother, ignored_label, smoothers
from maxsup.doctor.targets import examine_labels, examine_probabilities
from maxsup.losses.first_step import normalized_rows
from maxsup.losses.reduction import HALF, class_axis, class_rows, described, finite_mean, num_classes, sample_shape

# Logits of a healthy network are never this low; bfloat16 rounds -1e4 up.
_LOWEST_LOGIT = -1e3


def examine_batch(
    logits: Any,
    targets: Any,
    *,
    num_classes: int | None = None,
    ignore_index: int | None = None,
    weight: Any = None,
    criterion: Any = None,
) -> list[Finding]:
    """Check a batch, as the loss would get it, and return the findings.

    Args:
        logits: ``(K,)``, ``(N, K)`` or ``(N, K, d1, ...)``, a tensor or anything ``torch.as_tensor`` takes.
        targets: Class indices, or probabilities of the shape of ``logits``.
        num_classes: Expected number of classes, if known.
        ignore_index: Label of samples to ignore; by default that of the criterion, else -100.
        weight: Class weights; by default those of the criterion, if any.
        criterion: The loss, as :func:`examine_criterion` takes it, to find targets that are smoothed twice.

    Example:
        >>> [finding] = examine_batch(torch.eye(3).softmax(dim=1), torch.tensor([0, 1, 2]))
        >>> finding.topic, finding.advice
        ('softmax_before_loss', 'Give the loss the input of the softmax; it applies the softmax itself.')
        >>> examine_batch(5 * torch.eye(3), torch.tensor([0, 1, 2]))
        []
    """
    scores, target = torch.as_tensor(logits).detach().cpu(), torch.as_tensor(targets).detach().cpu()
    if scores.dim() == 0 or scores.shape[class_axis(scores)] == 0 or not scores.is_floating_point():
        sentence = f"Logits are {described(scores)}, not floating-point scores with an axis of one class or more."
        return [Finding("logits_dtype", "error", sentence, "Give the raw outputs of the classifier.")]
    smoothing = [] if criterion is None else smoothers(criterion)
    if ignore_index is None:
        ignore_index = ignored_label(smoothing)
    if weight is None:
        weight = next((one.weight for one in smoothing if one.weight is not None), None)
    kind, target, complaint = _target_kind(scores, target)
    found = [*_examine_sizes(scores, num_classes, weight), *complaint]
    rows = class_rows(scores)
    if kind == "labels":
        labels = target.reshape(-1).long()
        is_empty_fine = any(one.empty == "zero" for one in smoothing)
        found += examine_labels(labels, rows.shape[1], ignore_index, weight, is_empty_fine=is_empty_fine)
        is_counted = labels != ignore_index
        held = torch.zeros_like(rows, dtype=torch.bool)
        valid = is_counted & (labels >= 0) & (labels < rows.shape[1])
        held[valid, labels[valid]] = True
    elif kind == "probabilities":
        probs = class_rows(target)
        found += examine_probabilities(probs, ignore_index, None if criterion is None else smoothing)
        is_counted, held = probs.sum(dim=1) != 0, probs > 0
    else:
        is_counted, held = torch.ones(len(rows), dtype=torch.bool), torch.zeros_like(rows, dtype=torch.bool)
    return [*found, *_examine_rows(rows, held, is_counted, smoothing, is_half=scores.dtype in HALF)]


def examine_accumulation(targets: Sequence[Any], *, ignore_index: int = -100) -> list[Finding]:
    """Check whether the micro-batches of one optimiser step hold unequal numbers of ``targets``.

    If they do, the mean over each micro-batch weighs targets unequally.

    Example:
        >>> [finding] = examine_accumulation([torch.tensor([1, 2, 0, 1]), torch.tensor([1, -100, -100, -100])])
        >>> finding.sentence
        'The 2 micro-batches of a step hold 1 to 4 targets that count: in a mean, a target of the smallest weighs 4
        times one of the largest.'
    """
    counts = [_num_targets(torch.as_tensor(part), ignore_index) for part in targets]
    few, many = min(counts, default=0), max(counts, default=0)
    if few == many:
        return []
    effect = "the mean of the smallest is nan"
    if few:
        effect = f"in a mean, a target of the smallest weighs {many / few:.3g} times one of the largest"
    sentence = f"The {len(counts)} micro-batches of a step hold {few} to {many} targets that count: {effect}."
    fix = f"Call the loss with num_items={sum(counts)}, the number in the whole step; do not divide by micro-batches."
    return [Finding("accumulation_denominator", "warning", sentence, fix)]


def _num_targets(target: Tensor, ignore_index: int) -> int:
    """Count the targets that the mean divides by. Every row of probabilities counts, as in torch."""
    if target.is_floating_point() and target.dim() > 1:
        return target.numel() // max(num_classes(target), 1)
    return int((target != ignore_index).sum())


def _examine_sizes(scores: Tensor, expected: int | None, weight: Any) -> Iterator[Finding]:
    size = num_classes(scores)
    if expected is not None and size != expected:
        shape, axis = tuple(scores.shape), class_axis(scores)
        fix = "Make the classifier as wide as the number of classes."
        if shape[-1] == expected:
            fix = "Move the classes to axis 1, for instance logits.movedim(-1, 1)."
        sentence = f"Logits of shape {shape} have {size} classes on axis {axis}, not {expected}."
        yield Finding("num_classes", "error", sentence, fix)
    if weight is not None and (shape := tuple(torch.as_tensor(weight).shape)) != (size,):
        sentence = f"Class weights have shape {shape} for {size} classes."
        yield Finding("class_weights", "error", sentence, "Give one weight per class.")


def _target_kind(scores: Tensor, target: Tensor) -> tuple[str, Tensor, list[Finding]]:
    """Return the kind of the targets, the targets in the expected dtype, and a finding if they had another."""
    is_float = target.is_floating_point()
    if tuple(target.shape) == sample_shape(scores):
        if not is_float and target.dtype != torch.bool:
            return "labels", target, []
        sentence = f"Class indices are stored as {described(target)}, which losses read as probabilities."
        complaint = Finding("label_dtype", "error", sentence, "Use targets.long().")
        is_whole = bool((target == target.round()).all()) if is_float else True
        return ("labels" if is_whole else "unknown"), target, [complaint]
    if target.shape == scores.shape:
        if is_float:
            return "probabilities", target, []
        sentence = f"One-hot targets are stored as {described(target)}, which losses read as class indices."
        complaint = Finding("label_dtype", "error", sentence, "Use targets.float(), or targets.argmax(dim=1).")
        return "probabilities", target.float(), [complaint]
    fix = "Check that both come from the same samples."
    if scores.dim() > 2 and tuple(target.shape) in (scores.shape[:-1], scores.shape):
        fix = "Move the classes to axis 1, for instance logits.movedim(-1, 1), or flatten both."
    elif target.dim() == 2 and tuple(target.shape) == (len(scores), 1):
        fix = "Use targets.squeeze(1)."
    kinds = f"class indices, {sample_shape(scores)}, nor probabilities, {tuple(scores.shape)}"
    sentence = f"Targets of shape {tuple(target.shape)} are neither {kinds}, for these logits."
    return "unknown", target, [Finding("target_shape", "error", sentence, fix)]


def _examine_rows(
    rows: Tensor, held: Tensor, is_counted: Tensor, smoothing: list[Smoother], *, is_half: bool
) -> Iterator[Finding]:
    """Check the logits of samples that are not ignored. ``held`` marks the classes with target probability."""
    # Ignored samples may hold any value.
    is_broken = (rows.isnan() | (rows == math.inf)) & is_counted.unsqueeze(1)
    if is_broken.any():
        position = int(is_broken.any(dim=1).nonzero()[0])
        value = float(rows[position][is_broken[position]][0])
        sentence = f"{_share(is_broken)} are nan or inf (first: {value} in sample {position}), and so is the loss."
        fix = "Lower the learning rate, clip the gradient, or look for a division or a logarithm in the model."
        yield Finding("non_finite_logits", "error", sentence, fix)
    is_masked = (rows == -math.inf) & is_counted.unsqueeze(1)
    if is_masked.any():
        yield from _examine_masks(is_masked, held, smoothing)
    yield from _examine_low_logits(rows[is_counted], smoothing)
    if not is_broken.any():
        yield from _examine_softmax(rows[is_counted], is_half=is_half)


def _examine_masks(is_masked: Tensor, held: Tensor, smoothing: list[Smoother]) -> Iterator[Finding]:
    is_lost = (is_masked & held).any(dim=1)
    if is_lost.any():
        samples = f"{int(is_lost.sum())} of {len(is_lost)} samples (first: sample {int(is_lost.nonzero()[0])})"
        sentence = f"The target of {samples} is a class whose logit is -inf, so their loss is inf."
        fix = "Do not mask a class that is a target, or give these samples the ignore index."
        yield Finding("masked_target", "error", sentence, fix)
    spread = next((one for one in smoothing if one.breaks_on_masks and one.strength > 0), None)
    what = f"{_share(is_masked)} are -inf"
    if spread is not None:
        sentence = f"{what}, and {spread.described} gives each of them a share of the target: the loss is inf."
        yield Finding("masked_classes", "error", sentence, "Use MaxSupLoss, which leaves masked classes out.")
    else:
        sentence = f"{what}: masked classes. MaxSup leaves them out; torch's label_smoothing makes the loss inf."
        yield Finding("masked_classes", "note", sentence, "Nothing to do with the losses of this package.")


def _examine_low_logits(rows: Tensor, smoothing: list[Smoother]) -> Iterator[Finding]:
    is_low = (rows <= _LOWEST_LOGIT) & ~rows.isinf()
    uses_mean = any(one.strength > 0 for one in smoothing)
    if not is_low.any() or (smoothing and not uses_mean):  # in plain cross-entropy any low number masks a class
        return
    mean, lowest = finite_mean(rows[is_low.any(dim=1)].double()).min(), rows[is_low].min()
    sentence = (
        f"{_share(is_low)} are {_LOWEST_LOGIT:g} or less (lowest: {lowest:.3g}), like classes masked with a number: "
        f"the mean of logits in MaxSup and label smoothing falls to {mean:.3g}."
    )
    fix = "Mask with -inf, which the losses of this package leave out. If nothing is masked, the network has diverged."
    yield Finding("finite_masks", "error" if uses_mean else "warning", sentence, fix)


def _examine_softmax(rows: Tensor, *, is_half: bool) -> Iterator[Finding]:
    kind = normalized_rows(rows, is_half=is_half)
    if kind == "probabilities":
        what = "Logits are probabilities: none is negative and every row sums to 1"
        yield softmax_before_loss(f"{what}. A second softmax makes the gradient small.")
    elif kind == "log-probabilities":
        sentence = "Logits are log-probabilities: logsumexp of every row is 0."
        fix = "Harmless: cross-entropy and MaxSup do not depend on a shift. Leave log_softmax out to save a pass."
        yield Finding("log_softmax_before_loss", "note", sentence, fix)


def _share(mask: Tensor) -> str:
    return f"{int(mask.sum())} of {mask.numel()} logits"
