"""Small batches in few calls into torch, which count more there than the passes over the logits.

This is the paper's own form (``app:grad``): cross-entropy to a signed target, ``y + alpha/K - alpha 1_argmax`` for
MaxSup, which autograd differentiates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from maxsup.losses.computing.blocks import NARROW_ROW
from maxsup.losses.computing.closed_form import FusedPenalty, add_one, working_dtype

if TYPE_CHECKING:
    from maxsup.losses.computing.fused import Call

# Batches up to this number of logits are small; fewer of them in narrow rows, of which torch's softmax is slow.
SMALL_NUMEL, SMALL_NARROW_NUMEL = 64 * 1024, 8 * 1024
# Label smoothing of a target that does not sum to 1 is not cross-entropy to a smoothed target.
MASS_ERROR = 1e-6


def is_small(input: Tensor) -> bool:
    """Whether calls take more time than passes over the logits; never in a compiler, which fuses them."""
    if torch.compiler.is_compiling() or not input.is_cpu:
        return False
    is_narrow = input.dim() == 2 and input.shape[1] < NARROW_ROW
    return input.dim() > 1 and input.numel() <= (SMALL_NARROW_NUMEL if is_narrow else SMALL_NUMEL)


def all_count(labels: Tensor, ignore_index: int) -> bool:
    """Whether no label is ignored; may be False if some label is out of range."""
    return int(labels.min()) >= 0 if ignore_index < 0 else bool((labels != ignore_index).all())


def small_loss(input: Tensor, call: Call, penalty: FusedPenalty) -> Tensor | None:
    """The loss of a small batch; None where this form does not serve it."""
    if penalty.signed is None or call.z_loss != 0 or call.num_items is not None or not is_small(input):
        return None
    if isinstance(call.strength, Tensor) and call.strength.dim() > 0:
        return None
    logits, target = input.to(working_dtype(input)), call.target
    size, num_counted = logits.shape[1], logits.numel() // logits.shape[1]
    valid: Tensor | None = None
    scale: Tensor | None = None
    is_soft = target.is_floating_point()
    if is_soft:
        target = target.to(logits.dtype)
        low, high = target.sum(1).aminmax()
        if call.weight is not None or not max(1 - float(low), float(high) - 1) <= MASS_ERROR:  # true of nan too
            return None
    else:
        target = target.long().unsqueeze(1)
        if not all_count(target, call.ignore_index):
            valid = target != call.ignore_index
            target, num_counted = target * valid, int(valid.sum())
            if num_counted == 0:
                return None
        if call.weight is not None:
            scale = call.weight.to(logits.dtype)[target.squeeze(1)]
            scale = scale if valid is None else scale.where(valid.squeeze(1), 0)
    is_mean = call.reduction == "mean"
    unit = 1 / num_counted if is_mean and scale is None else 1.0
    strength = float(call.strength) * unit
    if is_soft:
        signed = torch.rsub(target, -strength / size, alpha=unit)
    else:
        signed = torch.full_like(logits, -strength / size)
        add_one(signed, 1, target, -unit)
    penalty.signed(signed, logits.detach(), target, strength)
    products = F.log_softmax(logits, 1) * signed
    if scale is None and valid is None:
        loss = probe = products.sum(1) if call.reduction == "none" else products.sum()
    else:
        values = probe = products.sum(1)  # also of ignored samples, which may hold anything
        if valid is not None:  # 0 times an infinite upstream gradient would be nan
            values = values.where(valid.squeeze(1), 0)
        if scale is not None and is_mean:
            scale = scale / scale.sum()
            probe = probe.detach() * scale
        if call.reduction == "none":
            loss = values if scale is None else values * scale
        else:
            loss = values.sum() if scale is None else values.reshape(-1).dot(scale.reshape(-1))
    total = probe if probe.dim() == 0 else probe.detach().sum()
    return loss if math.isfinite(total.item()) else None
