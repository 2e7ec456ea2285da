"""``F.cross_entropy`` itself, which every loss becomes at strength 0 and in evaluation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import Unpack

from maxsup.losses.reduction import (
    HALF,
    Reduction,
    ReductionOptions,
    at_least_one_if_zero,
    check_options,
    class_axis,
    num_classes,
    raise_if_out_of_range,
    reduced_loss,
    single,
    whole,
)
from maxsup.losses.shards.loss import refuse_split, split_loss, split_of


def plain_cross_entropy(
    input: Tensor,
    target: Tensor,
    label_smoothing: float = 0.0,
    /,
    *,
    group: Any = None,
    vocab_start: int | None = None,
    **options: Unpack[ReductionOptions],
) -> Tensor:
    """``F.cross_entropy`` to the bit, with ``num_items``, ``empty`` and ``z_loss``; ignored rows may hold nan."""
    if group is not None or vocab_start is not None or type(input) is not Tensor or type(target) is not Tensor:
        split = split_of(input, target, group, vocab_start)
        if split is not None and label_smoothing == 0:
            return split_loss(split, 0.0, "none", **options)
        if group is not None:
            refuse_split("label_smoothing")
        input, target = whole(input), whole(target)
    check_options(input, target, **options)
    weight, ignore_index, reduction, num_items, empty, z_loss = Reduction(**options)
    if z_loss != 0:
        if label_smoothing != 0:
            raise ValueError(
                f"label_smoothing must be 0 beside a z_loss; got {label_smoothing!r} and z_loss={z_loss!r}. "
                "Use label_smoothing_cross_entropy, which takes both."
            )
        return reduced_loss(input, target, lambda rows, target: (-F.log_softmax(rows, dim=-1), None), **options)
    if not target.is_floating_point():
        target = target.long()
        if input.requires_grad:
            valid = (target != ignore_index).unsqueeze(class_axis(input))
            input = torch.where(valid, input, 0)
    if weight is not None:
        weight = weight.to(input.dtype)

    def torch_loss(mode: str) -> Tensor:
        try:
            return F.cross_entropy(
                input, target, weight, ignore_index=ignore_index, reduction=mode, label_smoothing=label_smoothing
            )
        except (IndexError, RuntimeError):
            raise_if_out_of_range(target, ignore_index, num_classes(input))
            raise

    if reduction != "mean":
        return torch_loss(reduction)
    if num_items is not None:
        num_items = single(num_items)
        # Summed in float32: in fp16 the sum may overflow before it is divided.
        total = torch_loss("none").sum(dtype=torch.float32) if input.dtype in HALF else torch_loss("sum")
        return (total / (at_least_one_if_zero(num_items) if empty == "zero" else num_items)).to(input.dtype)
    if empty == "nan" or target.is_floating_point():
        return torch_loss("sum" if empty == "zero" and target.numel() == 0 else "mean")
    if target.numel() == 0:
        return torch_loss("sum")
    # If nothing counts, all rows become zeros of class 0 and the result is multiplied by 0, which keeps the graph.
    valid = target != ignore_index
    is_counted = valid.any()
    if weight is not None:
        # Labels out of range are reported later, when torch raises.
        labels = target.where(valid, 0).clamp(0, len(weight) - 1)
        is_counted = (weight[labels] * valid).any()
        weight = weight.where(is_counted, 1)
    target = target.where(is_counted, 0)
    input = torch.where((valid & is_counted).unsqueeze(class_axis(input)), input, 0)
    return torch_loss("mean") * is_counted
