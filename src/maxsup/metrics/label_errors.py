"""Likely label errors by confident learning (Northcutt, Jiang and Chuang 2021)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from maxsup.metrics.predictions import check_samples, labels_of_logits

_ROUNDING = 1e-6  # below its threshold by so much a probability still counts


class LabelErrors(NamedTuple):
    """Samples whose label is likely wrong, the likeliest first.

    Attributes:
        indices: Their rows.
        suggested: The class that each of them likely is.
        confidence: Probability of the given label.
    """

    indices: Tensor
    suggested: Tensor
    confidence: Tensor


@torch.no_grad()
def likely_label_errors(logits: Tensor, labels: Tensor) -> LabelErrors:
    """Return the samples that are confidently of another class than their label says.

    A sample is confidently of a class if its probability there is at least the mean probability of that class among the
    samples labelled so; of several classes the likeliest counts. The logits must be of samples that the model was not
    trained on.

    Example:
        >>> logits = 4 * torch.eye(2)[[0, 0, 0, 1, 1, 1]]
        >>> found = likely_label_errors(logits, torch.tensor([0, 0, 1, 1, 1, 1]))
        >>> found.indices, found.suggested
        (tensor([2]), tensor([0]))
    """
    labels = labels_of_logits(logits, labels)
    check_samples("logits", logits)
    probs = F.softmax(logits.detach().cpu().double(), dim=1)
    own = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
    size = labels.bincount(minlength=probs.shape[1])
    threshold = own.new_zeros(probs.shape[1]).index_add_(0, labels, own) / size
    # A class without samples has no threshold, and nan is never reached.
    is_confident = probs >= threshold - _ROUNDING
    suggested = probs.masked_fill(~is_confident, -1.0).argmax(dim=1)
    indices = (is_confident.any(dim=1) & (suggested != labels)).nonzero().squeeze(1)
    indices = indices[own[indices].sort(stable=True).indices]
    return LabelErrors(indices, suggested[indices], own[indices])
