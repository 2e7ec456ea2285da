"""The Triton kernels as operators of torch: values and gradient of the samples of a batch.

Forward reads the logits once and keeps five numbers a sample; backward reads them once more and writes the gradient,
with the upstream and the denominator taken from memory. A gradient that was made in forward would cost
one read and one write more to be scaled, would lose digits in fp16 before a loss scaler meets it, and could not be
exact for ``reduction="none"``.

As operators with fake kernels and an autograd formula of their own they are opaque to a compiler, and break no graph.
Triton itself is imported when the first one runs.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import laid_as, restored
from maxsup.losses.computing.closed_form import Factor, working_dtype
from maxsup.losses.device.layout import Layout, grid_of, launch_of, layout_of, samples_of, sizes_of, strides_as
from maxsup.losses.reduction import num_classes

PENALTIES = ("maxsup", "ls", "logit_penalty", "confidence_penalty", "poly1", "mbls")
"""Penalties that the kernels know."""
TOTAL_BLOCK = 1024


class Terms(NamedTuple):
    """What is computed of each sample, and which samples are left out."""

    ignore_index: int
    penalty: str
    margin: float
    z_loss: float


# The strength is in memory, or a number.
_INPUTS = "Tensor logits, Tensor target, Tensor? weight, Tensor? strength, float number"
_TERMS = "int ignore_index, str penalty, float margin, float z_loss"
_KEPT = "Tensor scales, Tensor statistics, Tensor top_indices, Tensor upstream, Tensor? denominator"


@torch.library.custom_op(
    "maxsup::row_values",
    mutates_args=(),
    schema=f"({_INPUTS}, {_TERMS}, int num_partials) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def row_values(
    logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor | None, number: float, *others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Values of all samples, how much each counts, what the gradient needs: statistics and top classes, and sums.

    The sums are those of values and of how much they count, in as many parts as are asked for: none, or what
    :func:`num_partials` says.
    """
    from maxsup.losses.device.kernels import statistics_kernel

    terms, layout, results = Terms(*others[:-1]), layout_of(logits), _fake_values(logits, target, *others)
    aligned, sizes = sizes_of(layout, layout.strides)
    target, target_strides = _beside(target, layout)
    with _device_of(logits):
        statistics_kernel[grid_of(layout.num_classes, layout.samples)](
            layout.tensor,
            target,
            None if weight is None else weight.contiguous(),
            number if strength is None else strength,
            *results,
            *sizes[:5],
            *target_strides,
            terms.ignore_index,
            IS_SUMMED=others[-1] > 0,
            IN_MEMORY=strength is not None,
            **_constants(layout, target, aligned, terms),
        )
    return results


@row_values.register_fake
def _fake_values(logits: Tensor, target: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    num_samples, dtype = logits.numel() // num_classes(logits), working_dtype(logits)
    values = logits.new_empty(num_samples, dtype=dtype)
    # Log-sum-exp, classes present, top logit, what the penalty keeps, and the mass of probability targets.
    statistics = logits.new_empty((5 if target.is_floating_point() else 4, num_samples), dtype=dtype)
    partials = logits.new_empty((2, others[-1]), dtype=dtype)
    return values, torch.empty_like(values), statistics, torch.empty_like(values, dtype=torch.int32), partials


@torch.library.custom_op(
    "maxsup::row_total",
    mutates_args=(),
    schema="(Tensor partials, Tensor? num_items, float? number, bool is_mean, bool is_zero_if_empty)"
    " -> (Tensor, Tensor)",
)
def row_total(
    partials: Tensor,
    num_items: Tensor | None,
    number: float | None,
    is_mean: bool,
    is_zero_if_empty: bool,
) -> tuple[Tensor, Tensor]:
    """Sum of all values, or their mean and its denominator: a number of items, or how much the samples count."""
    from maxsup.losses.device.kernels import total_kernel

    loss, denominator = _fake_total(partials)
    with _device_of(partials):
        total_kernel[(1,)](
            partials,
            number if num_items is None else num_items,
            loss,
            denominator,
            partials.shape[1],
            IN_MEMORY=num_items is not None,
            IS_MEAN=is_mean,
            IS_ZERO_IF_EMPTY=is_zero_if_empty,
            IS_DOUBLE=partials.dtype == torch.float64,
            BLOCK=TOTAL_BLOCK,
            num_warps=4,
        )
    return loss, denominator


@row_total.register_fake
def _fake_total(partials: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    # Two tensors and no view of one: who divides a loss in place must not meet what backward has saved.
    return partials.new_empty(()), partials.new_empty(())


@torch.library.custom_op(
    "maxsup::row_gradient",
    mutates_args=(),
    schema=f"({_INPUTS}, {_KEPT}, {_TERMS}) -> Tensor",
)
def row_gradient(logits: Tensor, *others: Any) -> Tensor:
    """Gradient of ``upstream / denominator`` times the values; the upstream is one number, or one a sample."""
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    write_gradient(layout, out, *others)
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


@row_gradient.register_fake
def _fake_gradient(logits: Tensor, *others: Any) -> Tensor:
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


@torch.library.custom_op(
    "maxsup::overwrite_rows",
    mutates_args=("logits",),
    schema=f"({_INPUTS.replace('Tensor logits', 'Tensor(a!) logits')}, {_KEPT}, {_TERMS}) -> ()",
)
def overwrite_rows(logits: Tensor, *others: Any) -> None:
    """The same gradient, of rows, in the memory of the logits."""
    write_gradient(layout_of(logits), logits, *others)


@overwrite_rows.register_fake
def _(logits: Tensor, *others: Any) -> None:
    return None


def write_gradient(
    layout: Layout,
    out: Tensor,
    target: Tensor,
    weight: Tensor | None,
    strength: Tensor | None,
    number: float,
    scales: Tensor,
    statistics: Tensor,
    top_indices: Tensor,
    upstream: Tensor,
    denominator: Tensor | None,
    *terms: Any,
) -> None:
    """Write the gradient to ``out``: memory of the shape of the logits as they are laid out, or theirs."""
    from maxsup.losses.device.kernels import gradient_kernel

    aligned, sizes = sizes_of(layout, strides_as(out, layout))
    target, target_strides = _beside(target, layout)
    with _device_of(out):
        gradient_kernel[grid_of(layout.num_classes, layout.samples)](
            layout.tensor,
            target,
            None if weight is None else weight.contiguous(),
            number if strength is None else strength,
            scales,
            statistics,
            top_indices,
            upstream,
            denominator,
            out,
            *sizes,
            *target_strides,
            upstream.stride(0) if upstream.dim() > 0 else 0,
            terms[0],
            IN_MEMORY=strength is not None,
            **_constants(layout, target, aligned, Terms(*terms)),
        )


def num_partials(logits: Tensor) -> int:
    """Programs of :func:`row_values`, each of which leaves its part of the sums."""
    return math.prod(grid_of(num_classes(logits), samples_of(logits)))


def number_on(logits: Tensor, value: Factor) -> tuple[Tensor | None, float]:
    """A number in the memory of the logits' device, or one that comes with the launch of a kernel."""
    dtype = working_dtype(logits)
    if isinstance(value, Tensor):
        return value.to(logits.device, dtype, non_blocking=True), 0.0
    if dtype == torch.float32 and not torch.compiler.is_compiling():
        return None, float(value)
    # A launch takes numbers in single precision, and a compiler takes them for constants.
    return logits.new_full((), value, dtype=dtype), 0.0


def overwrite_with_gradient(logits: Tensor, labels: Tensor, strength: Factor, mass: Tensor, terms: Terms) -> Tensor:
    """Values of rows; the gradient of their sum, in which every row counts ``mass``, takes the place of the logits."""
    inputs = (labels, None, *number_on(logits, strength))
    values, *kept, _ = row_values(logits, *inputs, *terms, 0)
    overwrite_rows(logits, *inputs, *kept, mass, None, *terms)
    return values


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:4], *output[1:4])
    ctx.number, *ctx.terms = inputs[4:-1]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, upstream: Tensor, *others: None) -> tuple[Tensor | None, ...]:
    inputs, kept = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
    gradient = row_gradient(*inputs, ctx.number, *kept, upstream.contiguous(), None, *ctx.terms)
    return gradient, None, None, None, None, *(None for _ in ctx.terms), None


row_values.register_autograd(_backward, setup_context=_keep)


def _beside(target: Tensor, layout: Layout) -> tuple[Tensor, tuple[int, int, int]]:
    """Targets as the logits are laid out, and their strides."""
    if not target.is_floating_point():
        return target.reshape(-1), (layout.num_positions, 1, 0)
    if target.dim() > 2:
        target = laid_as(target, layout.is_rows)
    return target, strides_as(target, layout)


def _constants(layout: Layout, target: Tensor, aligned: str, terms: Terms) -> dict[str, Any]:
    # AMD's data-centre GPUs have wider warps.
    launch = launch_of(layout.num_classes, layout.is_rows, 64 if torch.version.hip else 32)
    return {
        "PENALTY": terms.penalty,
        "MARGIN": terms.margin,
        "Z_LOSS": terms.z_loss,
        "IS_SOFT": target.is_floating_point(),
        "ALIGNED": aligned,
        "IS_DOUBLE": layout.tensor.dtype == torch.float64,
        "ROWS": launch.rows,
        "BLOCK": launch.block,
        "num_warps": launch.num_warps,
        "enable_fp_fusion": True,  # the default differs between versions of Triton
    }


def _device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Triton starts its kernels on the current device."""
    return nullcontext() if tensor.device.type == "cpu" else getattr(torch, tensor.device.type).device(tensor.device)
