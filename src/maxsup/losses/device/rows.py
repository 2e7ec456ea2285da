"""The Triton kernels as operators of torch: values and gradient of the samples of a batch.

Forward reads the logits once and keeps five numbers a sample; backward reads them once more and writes the gradient,
with the upstream, the strength and the denominator taken from memory. A gradient that was made in forward would cost
one read and one write more to be scaled, would lose digits in fp16 before a loss scaler meets it, and could not be
exact for ``reduction="none"``.

As operators with fake kernels and an autograd formula of their own they are opaque to a compiler, and break no graph.
Triton itself is imported when the first one runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.blocks import laid_as, restored
from maxsup.losses.closed_form import Factor, working_dtype
from maxsup.losses.reduction import num_classes

PENALTIES = ("maxsup", "ls", "logit_penalty", "confidence_penalty", "poly1", "mbls")
"""Penalties that the kernels know."""
VECTOR = 8
# Beyond this a class cannot be addressed in 32 bits.
MAX_OFFSET = 2**31 - 1


class Launch(NamedTuple):
    """How a kernel goes through the samples."""

    rows: int
    block: int
    num_warps: int


def launch_of(num_classes: int, is_rows: bool, warp_size: int = 32) -> Launch:
    """Samples and classes in a tile, eight logits or more to a thread; none makes the compiler spill registers.

    Example:
        >>> launch_of(10, True), launch_of(1000, True)
        (Launch(rows=64, block=16, num_warps=4), Launch(rows=1, block=1024, num_warps=4))
        >>> launch_of(32000, True), launch_of(150, False)
        (Launch(rows=1, block=4096, num_warps=8), Launch(rows=128, block=16, num_warps=4))
    """
    rows, block = 128, 16
    if is_rows:
        block = min(max(16, 1 << (num_classes - 1).bit_length()), 4096)
        rows = max(1, 1024 // block)
    return Launch(rows, block, (256 if block == 4096 else 128) // warp_size)


class Layout(NamedTuple):
    """Logits ``(planes, classes, positions)`` in memory."""

    tensor: Tensor
    num_classes: int
    num_planes: int
    num_positions: int
    strides: tuple[int, int, int]
    is_rows: bool


def layout_of(logits: Tensor) -> Layout:
    """Where the samples of some logits are, without a copy unless their strides are those of no plane."""
    size = num_classes(logits)
    if logits.dim() == 1:
        return Layout(logits, size, 1, 1, (0, 0, logits.stride(0)), True)
    if logits.dim() == 2:
        is_rows = logits.stride(1) == 1 or logits.stride(0) != 1
        return Layout(logits, size, 1, logits.shape[0], (0, logits.stride(0), logits.stride(1)), is_rows)
    if logits.movedim(1, -1).is_contiguous() or logits[0].numel() > MAX_OFFSET:
        rows = laid_as(logits, is_rows=True)
        return Layout(rows, size, 1, rows.shape[0], (0, size, 1), True)
    planes = laid_as(logits, is_rows=False)
    return Layout(planes, size, planes.shape[0], planes.shape[2], (planes.stride(0), 1, planes.stride(1)), False)


class Terms(NamedTuple):
    """What is computed of each sample, and which samples are left out."""

    ignore_index: int
    penalty: str
    margin: float
    z_loss: float


_INPUTS = "Tensor logits, Tensor target, Tensor? weight, Tensor strength"
_TERMS = "int ignore_index, str penalty, float margin, float z_loss"


@torch.library.custom_op(
    "maxsup::row_values", mutates_args=(), schema=f"({_INPUTS}, {_TERMS}) -> (Tensor, Tensor, Tensor, Tensor)"
)
def row_values(
    logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor, *terms: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values of all samples, how much each counts, and what the gradient needs: statistics and top classes."""
    from maxsup.losses.device.kernels import statistics_kernel

    layout, results = layout_of(logits), _fake_values(logits, target)
    aligned, sizes = _sizes(layout, layout.strides)
    target, target_strides = _beside(target, layout)
    with _device_of(logits):
        statistics_kernel[_grid(layout)](
            layout.tensor,
            target,
            None if weight is None else weight.contiguous(),
            strength,
            *results,
            *sizes[:5],
            *target_strides,
            terms[0],
            **_constants(layout, target, aligned, Terms(*terms)),
        )
    return results


@row_values.register_fake
def _fake_values(logits: Tensor, target: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    num_samples, dtype = logits.numel() // num_classes(logits), working_dtype(logits)
    values = logits.new_empty(num_samples, dtype=dtype)
    # Log-sum-exp, classes present, top logit, what the penalty keeps, and the mass of probability targets.
    statistics = logits.new_empty((5 if target.is_floating_point() else 4, num_samples), dtype=dtype)
    return values, torch.empty_like(values), statistics, torch.empty_like(values, dtype=torch.int32)


@torch.library.custom_op(
    "maxsup::row_gradient",
    mutates_args=(),
    schema=f"({_INPUTS}, Tensor scales, Tensor statistics, Tensor top_indices, Tensor upstream, Tensor? denominator, "
    f"{_TERMS}) -> Tensor",
)
def row_gradient(logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor, *others: Any) -> Tensor:
    """Gradient of ``upstream / denominator`` times the values; the upstream is one number, or one a sample."""
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    write_gradient(layout, out, target, weight, strength, *others)
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


@row_gradient.register_fake
def _fake_gradient(logits: Tensor, *others: Any) -> Tensor:
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


def write_gradient(
    layout: Layout,
    out: Tensor,
    target: Tensor,
    weight: Tensor | None,
    strength: Tensor,
    scales: Tensor,
    statistics: Tensor,
    top_indices: Tensor,
    upstream: Tensor,
    denominator: Tensor | None,
    *terms: Any,
) -> None:
    """Write the gradient to ``out``: memory of the shape of the logits as they are laid out, or theirs."""
    from maxsup.losses.device.kernels import gradient_kernel

    aligned, sizes = _sizes(layout, _strides(out, layout))
    target, target_strides = _beside(target, layout)
    with _device_of(out):
        gradient_kernel[_grid(layout)](
            layout.tensor,
            target,
            None if weight is None else weight.contiguous(),
            strength,
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
            **_constants(layout, target, aligned, Terms(*terms)),
        )


def strength_on(logits: Tensor, strength: Factor) -> Tensor:
    """A strength in the memory of the logits' device."""
    dtype = working_dtype(logits)
    if isinstance(strength, Tensor):
        return strength.to(logits.device, dtype, non_blocking=True)
    # full, not tensor: a number goes to the device with the kernel that writes it, and nobody waits for a copy.
    return logits.new_full((), strength, dtype=dtype)


def overwrite_with_gradient(logits: Tensor, labels: Tensor, strength: Tensor, mass: Tensor, terms: Terms) -> Tensor:
    """Values of rows; the gradient of their sum, in which every row counts ``mass``, takes the place of the logits."""
    values, *kept = row_values(logits, labels, None, strength, *terms)
    write_gradient(layout_of(logits), logits, labels, None, strength, *kept, mass, None, *terms)
    return values


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:4], *output[1:])
    ctx.terms = inputs[4:]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, upstream: Tensor, *others: None) -> tuple[Tensor | None, ...]:
    gradient = row_gradient(*ctx.saved_tensors, upstream.contiguous(), None, *ctx.terms)
    return gradient, None, None, None, *(None for _ in ctx.terms)


row_values.register_autograd(_backward, setup_context=_keep)


def _beside(target: Tensor, layout: Layout) -> tuple[Tensor, tuple[int, int, int]]:
    """Targets as the logits are laid out, and their strides."""
    if not target.is_floating_point():
        return target.reshape(-1), (layout.num_positions, 1, 0)
    if target.dim() > 2:
        target = laid_as(target, layout.is_rows)
    return target, _strides(target, layout)


def _strides(tensor: Tensor, layout: Layout) -> tuple[int, int, int]:
    """Strides of planes, positions and classes of a tensor that is laid out as some logits are."""
    if tensor.dim() == 1:
        return 0, 0, tensor.stride(0)
    if tensor.dim() == 2:
        return 0, tensor.stride(0), tensor.stride(1)
    return tensor.stride(0), tensor.stride(2), tensor.stride(1)


def _sizes(layout: Layout, *strides: tuple[int, int, int]) -> tuple[str, list[int]]:
    """Which sizes are multiples of ``VECTOR``, and all of them, those divided by it."""
    every = (layout.strides, *strides)
    sizes = [layout.num_classes, layout.num_positions, *(stride for part in every for stride in part)]
    aligned = "none"
    if all(part[2] == 1 for part in every):
        divided, aligned = [0, *range(2, len(sizes), 3), *range(3, len(sizes), 3)], "classes"
    elif all(part[1] == 1 for part in every):
        divided, aligned = [1, *range(2, len(sizes), 3), *range(4, len(sizes), 3)], "positions"
    else:
        divided = []
    if any(sizes[index] % VECTOR for index in divided):
        return "none", sizes
    return aligned, [size // VECTOR if index in divided else size for index, size in enumerate(sizes)]


def _grid(layout: Layout) -> tuple[int, int]:
    rows = launch_of(layout.num_classes, layout.is_rows).rows
    return (-(-layout.num_positions // rows), layout.num_planes)


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
