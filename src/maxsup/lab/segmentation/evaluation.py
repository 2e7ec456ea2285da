"""Evaluation of segmenters: plain numbers of whole masks, through one view of an image or several.

A view is an image at a scale, mirrored or not; every scale is made from the image as it was read. Its logits come from
the whole image or from a sliding window (logits of overlapping windows are averaged). Probabilities of all views are
averaged at the original size of the mask; with one view that is the ordinary evaluation.

With many classes and large masks these probabilities take the most memory: once for one view, twice for several, beside
the logits of a view.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from maxsup.core.errors import DataError, NonFiniteError
from maxsup.lab.data import IGNORED_LABEL
from maxsup.lab.models.inference import autocast, evaluation_mode
from maxsup.lab.segmentation.pipeline import MaskPipeline, ScaledBatch
from maxsup.metrics import ConfusionSums

if TYPE_CHECKING:
    from maxsup.lab.core.config import Recipe

MULTI_SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)

_NUM_ROWS = 64
"""Rows of a mask that are normalised at a time, to keep temporary memory small."""


@dataclass(frozen=True)
class Views:
    """How an image is looked at: at ``scales`` of the size in the recipe, and with ``has_flip`` also mirrored.

    A sliding window has sides of ``window`` and moves by ``stride``; without one, images are evaluated whole.

    Example:
        >>> len(Views(MULTI_SCALES, has_flip=True))
        12
    """

    scales: tuple[float, ...] = (1.0,)
    has_flip: bool = False
    window: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        if not self.scales or min(self.scales) <= 0:
            raise ValueError(f"scales must be factors above 0; got {self.scales!r}. Usual: {MULTI_SCALES}.")

    def __len__(self) -> int:
        return len(self.scales) * (1 + self.has_flip)


def recipe_views(recipe: Recipe, scales: Sequence[float] = (1.0,), has_flip: bool = False) -> Views:
    """Return the views a recipe asks for; several scales and mirroring are for evaluation after training."""
    if recipe.dense.evaluation == "whole":
        return Views(tuple(scales), has_flip)
    return Views(tuple(scales), has_flip, recipe.data.image_size, recipe.dense.stride)


@torch.no_grad()
def log_probabilities(
    model: Callable[[Tensor], Tensor], images: Sequence[Tensor], size: Sequence[int], views: Views
) -> Tensor:
    """Return the log of the mean probabilities over all views, at ``size``, that of the masks.

    ``images`` are the same images ``(B, C, h, w)`` at every scale of the views.
    """
    total: Tensor | None = None
    for scaled, _ in zip(images, views.scales, strict=True):
        for is_mirrored in (False, True)[: 1 + views.has_flip]:
            # Only the total has a name here: with many classes, a view that lives on takes a gigabyte.
            if total is None:
                total = _view_log_probabilities(model, scaled, size, views, is_mirrored)
            else:
                torch.logaddexp(total, _view_log_probabilities(model, scaled, size, views, is_mirrored), out=total)
    assert total is not None
    return total.sub_(math.log(len(views))) if len(views) > 1 else total


def evaluate_masks(
    model: nn.Module,
    pipeline: MaskPipeline,
    *,
    num_classes: int,
    views: Views,
    split: str = "val",
    precision: str = "float32",
    is_sharded: bool = False,
    on_batch: Callable[[], None] | None = None,
    on_prediction: Callable[[int, Tensor], None] | None = None,
) -> tuple[dict[str, Any], ConfusionSums]:
    """Return pixel accuracy, class accuracy, mean intersection over union and NLL of a whole split.

    The model stays in the mode it came in. ``split`` is the name for the result and for messages. With ``is_sharded``
    each process has its own part of the split, and counts are summed over processes. ``on_batch`` is called after each
    image, ``on_prediction`` with the position of an image in its split and its predicted classes ``(H, W)``.

    Returns:
        ``split``, ``n`` (images), ``missing``, ``accuracy``, ``class_accuracy``, ``miou``, ``majority_miou`` (that of
        predicting the commonest class everywhere) and ``nll``; and the counts they come from.
    """
    device = next(model.parameters()).device
    sums = ConfusionSums(num_classes, IGNORED_LABEL)
    # Sum of the NLL, pixels it is over, images.
    totals = torch.zeros(3, dtype=torch.float64)
    with evaluation_mode(model), torch.no_grad(), autocast(device, precision):
        for batch in (pipeline if views.scales == (1.0,) else pipeline.at_scales(views.scales)).epoch(0, device=device):
            scaled = batch.views if isinstance(batch, ScaledBatch) else (batch.images,)
            labels = batch.labels
            found = log_probabilities(model, scaled, labels.shape[-2:], views)
            # A logit that is nan or inf makes all classes of its pixel nan.
            if found[:, 0].isnan().any():
                raise NonFiniteError(
                    f"logits must be finite; got nan or inf on split {split!r}. Evaluate earlier weights, or "
                    "train with a lower learning rate.",
                    code="non-finite-logits",
                )
            predictions = found.argmax(dim=1)
            sums.update(predictions, labels)
            nll = F.nll_loss(found, labels, ignore_index=IGNORED_LABEL, reduction="sum")
            num_pixels = int((labels != IGNORED_LABEL).sum())
            totals += torch.tensor([float(nll), num_pixels, len(labels)], dtype=totals.dtype)
            if on_prediction is not None:
                for index, prediction in zip(batch.indices.tolist(), predictions.cpu(), strict=True):
                    on_prediction(index, prediction)
            if on_batch is not None:
                on_batch()
    if is_sharded:
        sums.sync(device)
        totals = totals.to(device)
        torch.distributed.all_reduce(totals)
    nll_sum, num_pixels, num_images = totals.tolist()
    if not num_pixels:
        raise DataError(
            f"masks of split {split!r} must have at least one labelled pixel; got {int(num_images)} images without. "
            "Correct the masks, or the ignored label.",
            code="bad-masks",
        )
    if sums.num_present == 1:
        warnings.warn(
            f"masks of split {split!r} hold one class only, so its numbers say little. If {IGNORED_LABEL} stands for a "
            "class in them, write another number.",
            stacklevel=2,
        )
    result = {
        "split": split,
        "n": int(num_images),
        "missing": pipeline.num_missing,
        **sums.compute(),
        "majority_miou": sums.majority_miou(),
        "nll": nll_sum / num_pixels,
    }
    return result, sums


def _view_log_probabilities(
    model: Callable[[Tensor], Tensor], images: Tensor, size: Sequence[int], views: Views, is_mirrored: bool
) -> Tensor:
    """Return log-probabilities of one view on the grid of the masks."""
    found = F.interpolate(
        _logits(model, images, views, is_mirrored), size=tuple(size), mode="bilinear", align_corners=False
    )
    for rows in found.split(_NUM_ROWS, dim=2):
        rows.copy_(rows.log_softmax(dim=1))
    return found


def _logits(model: Callable[[Tensor], Tensor], images: Tensor, views: Views, is_mirrored: bool) -> Tensor:
    images = images.flip(-1) if is_mirrored else images
    if views.window is None or views.stride is None:
        logits = model(images).float()
    else:
        logits = _through_window(model, images, views.window, views.stride)
    return logits.flip(-1) if is_mirrored else logits


def _through_window(model: Callable[[Tensor], Tensor], images: Tensor, window: int, stride: int) -> Tensor:
    """Return the logits of an image of any size from windows of one size; a smaller image is padded."""
    height, width = images.shape[-2:]
    filled = F.pad(images, (0, max(0, window - width), 0, max(0, window - height)))
    total: Tensor | None = None
    count = torch.zeros(filled.shape[-2:], device=images.device)
    for top in _starts(filled.shape[-2], window, stride):
        for left in _starts(filled.shape[-1], window, stride):
            place = (..., slice(top, top + window), slice(left, left + window))
            logits = model(filled[place]).float()
            if total is None:
                total = logits.new_zeros(*logits.shape[:2], *filled.shape[-2:])
            total[place] += logits
            count[place] += 1
    assert total is not None
    return total.div_(count)[..., :height, :width]


def _starts(length: int, window: int, stride: int) -> list[int]:
    """Return starts of windows that cover everything; the last one is flush with the end.

    Example:
        >>> _starts(10, 4, 3), _starts(11, 4, 3), _starts(4, 4, 3)
        ([0, 3, 6], [0, 3, 6, 7], [0])
    """
    last = length - window
    return [*range(0, last, stride), last]
