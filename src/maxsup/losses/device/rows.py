"""The Triton kernels as operators of torch: values and gradient of the samples of a batch.

Forward reads the logits once and keeps five numbers per sample; backward reads them once more, takes the upstream
gradient and the denominator from memory, and writes the gradient; ``loss.py`` says why not in forward.

As operators with fake kernels and their own autograd formula they are opaque to a compiler and break no graph. Triton
itself is imported when the first one runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.computing.blocks import laid_as, restored
from maxsup.losses.computing.closed_form import Factor, working_dtype
from maxsup.losses.device.layout import Layout, launch_of, layout_of, sizes_of, strides_of
from maxsup.losses.reduction import num_classes, single

PENALTIES = ("maxsup", "ls", "mbls")
PARTIALS_BLOCK = 1024
"""How many sums of programs are added up at a time."""
NO_REDUCTION = ("none", None, None, False)
"""Arguments that ask for the values of the samples and no loss."""


class Terms(NamedTuple):
    """What is computed for each sample, and which samples are left out."""

    ignore_index: int
    penalty: str
    margin: float
    z_loss: float


# The strength and the number of items are tensors or plain numbers.
_INPUTS = "Tensor logits, Tensor target, Tensor? weight, Tensor? strength, float number"
_TERMS = "int ignore_index, str penalty, float margin, float z_loss"
_KEPT = "Tensor scales, Tensor statistics, Tensor top_indices, Tensor upstream, Tensor? denominator"
_REDUCTION = "str reduction, Tensor? num_items, float? items, bool is_zero_if_empty"


def row_values_now(
    logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor | None, number: float,
    ignore_index: int, penalty: str, margin: float, z_loss: float,
    reduction: str, num_items: Tensor | None, items: float | None, is_zero_if_empty: bool, has_entropy: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Values of the samples, what the gradient needs (weights, statistics, top classes), the loss and its denominator.

    With the reduction ``"none"`` the loss is empty, otherwise the values are. A mean is divided by the number of items,
    or by the sum of the weights of the samples. The last row of the statistics may be the entropy of each sample.
    """
    from maxsup.losses.device.kernels import statistics_kernel

    layout, results = layout_of(logits), _empty_results(logits, target, reduction, has_entropy)
    aligned, sizes = sizes_of(layout, layout.tensor)
    target, target_strides = _beside(target, layout)
    constants = _constants(layout, target, aligned, penalty, margin, z_loss) | {
        "REDUCTION": reduction,
        "IS_ZERO_IF_EMPTY": is_zero_if_empty,
        "PARTIALS": PARTIALS_BLOCK,
        "IN_MEMORY": _place_of(strength),
        "ITEMS_IN_MEMORY": num_items is not None,
        "HAS_ENTROPY": has_entropy,
    }
    grid = layout.grid
    with _device_of(logits):
        statistics_kernel[grid](
            layout.tensor, target, None if weight is None else weight.contiguous(),
            number if strength is None else strength, items if num_items is None else num_items,
            *results, results[0].new_empty((2, grid[0] * grid[1])), _finished_programs(logits.device),
            *sizes[:5], *target_strides, ignore_index, **constants,
        )  # fmt: skip
    return results


# In the registered form an operator is opaque to a compiler and seen by whatever watches operators.
row_values = torch.library.custom_op(
    "maxsup::row_values",
    row_values_now,
    mutates_args=(),
    schema=f"({_INPUTS}, {_TERMS}, {_REDUCTION}, bool has_entropy=False) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)


@row_values.register_fake
def _(
    logits: Tensor, target: Tensor, weight: Any, strength: Any, number: Any,
    ignore_index: Any, penalty: Any, margin: Any, z_loss: Any, reduction: str, num_items: Any, items: Any, empty: Any,
    has_entropy: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    return _empty_results(logits, target, reduction, has_entropy)


def _empty_results(logits: Tensor, target: Tensor, reduction: str, has_entropy: bool) -> tuple[Tensor, ...]:
    num_samples, dtype, is_reduced = logits.numel() // num_classes(logits), working_dtype(logits), reduction != "none"
    scales = logits.new_empty(num_samples, dtype=dtype)
    values = logits.new_empty(0 if is_reduced else num_samples, dtype=dtype)
    # Log-sum-exp, numbers of classes present and beyond a margin, top logit, the mass of probability targets, entropy.
    num_statistics = 4 + target.is_floating_point() + has_entropy
    statistics = logits.new_empty((num_statistics, num_samples), dtype=dtype)
    # Two tensors and not views of one: dividing the loss in place must not change what backward has saved.
    shape = () if is_reduced else 0
    loss, denominator = scales.new_empty(shape), scales.new_empty(shape)
    return values, scales, statistics, torch.empty_like(scales, dtype=torch.int32), loss, denominator


_FINISHED: dict[tuple[torch.device, int], Tensor] = {}


def _finished_programs(device: torch.device) -> Tensor:
    """A counter at 0, which a launch leaves at 0; one per stream, on which launches run one after the other."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():  # a graph may be replayed on any stream
        return torch.zeros((), dtype=torch.int32, device=device)
    stream = 0 if device.type == "cpu" else getattr(torch, device.type).current_stream(device).stream_id
    if (device, stream) not in _FINISHED:
        _FINISHED[device, stream] = torch.zeros((), dtype=torch.int32, device=device)
    return _FINISHED[device, stream]


def row_gradient_now(
    logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor | None, number: float,
    scales: Tensor, statistics: Tensor, top_indices: Tensor, upstream: Tensor, denominator: Tensor | None,
    ignore_index: int, penalty: str, margin: float, z_loss: float,
) -> Tensor:  # fmt: skip
    """Gradient of ``upstream / denominator`` times the values; ``upstream`` is one number, or one per sample."""
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    _write_gradient(
        layout, out, target, weight, strength, number, scales, statistics, top_indices,
        upstream, denominator, ignore_index, penalty, margin, z_loss,
    )  # fmt: skip
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


row_gradient = torch.library.custom_op(
    "maxsup::row_gradient", row_gradient_now, mutates_args=(), schema=f"({_INPUTS}, {_KEPT}, {_TERMS}) -> Tensor"
)


@row_gradient.register_fake
def _(logits: Tensor, *others: Any) -> Tensor:
    layout = layout_of(logits)
    out = torch.empty_like(layout.tensor, memory_format=torch.contiguous_format)
    return restored(out, layout.is_rows, logits) if logits.dim() > 2 else out


@torch.library.custom_op(
    "maxsup::overwrite_rows",
    mutates_args=("logits",),
    schema=f"({_INPUTS.replace('Tensor logits', 'Tensor(a!) logits')}, {_KEPT}, {_TERMS}) -> ()",
)
def overwrite_rows(
    logits: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor | None, number: float,
    scales: Tensor, statistics: Tensor, top_indices: Tensor, upstream: Tensor, denominator: Tensor | None,
    ignore_index: int, penalty: str, margin: float, z_loss: float,
) -> None:  # fmt: skip
    """The same gradient of rows, written over the logits."""
    _write_gradient(
        layout_of(logits), logits, target, weight, strength, number, scales, statistics, top_indices,
        upstream, denominator, ignore_index, penalty, margin, z_loss,
    )  # fmt: skip


@overwrite_rows.register_fake
def _(logits: Tensor, *others: Any) -> None:
    return None


def _write_gradient(
    layout: Layout, out: Tensor, target: Tensor, weight: Tensor | None, strength: Tensor | None, number: float,
    scales: Tensor, statistics: Tensor, top_indices: Tensor, upstream: Tensor, denominator: Tensor | None,
    ignore_index: int, penalty: str, margin: float, z_loss: float,
) -> None:  # fmt: skip
    """Write the gradient to ``out``, which is laid out like the logits, or is the logits."""
    from maxsup.losses.device.kernels import gradient_kernel

    aligned, sizes = sizes_of(layout, out)
    target, target_strides = _beside(target, layout)
    with _device_of(out):
        gradient_kernel[layout.grid](
            layout.tensor, target, None if weight is None else weight.contiguous(),
            number if strength is None else strength, scales, statistics, top_indices, upstream, denominator, out,
            *sizes, *target_strides, upstream.stride(0) if upstream.dim() > 0 else 0, ignore_index,
            IN_MEMORY=_place_of(strength), **_constants(layout, target, aligned, penalty, margin, z_loss),
        )  # fmt: skip


def is_watched(logits: Tensor) -> bool:
    """Whether operators must be called in their registered form; the functions alone take a third of the calls."""
    return logits.is_meta or torch._C._len_torch_dispatch_stack() > 0


def number_on(logits: Tensor, value: Factor) -> tuple[Tensor | None, float]:
    """A number in the memory of the logits' device, or one that comes with the launch of a kernel."""
    dtype = working_dtype(logits)
    if isinstance(value, Tensor):
        value = single(value) if value.numel() == 1 else value.contiguous()
        return value.to(logits.device, dtype, non_blocking=True), 0.0
    if dtype == torch.float32 and not torch.compiler.is_compiling():
        return None, float(value)
    # A launch passes numbers in single precision, and a compiler treats them as constants.
    return logits.new_full((), value, dtype=dtype), 0.0


def _place_of(strength: Tensor | None) -> bool | str:
    """Whether a kernel reads the strength from memory, or one for each sample."""
    if strength is None:
        return False
    return "samples" if strength.dim() > 0 else True


def overwrite_with_gradient(
    logits: Tensor, labels: Tensor, strength: Factor, mass: Tensor, terms: Terms, measures: Tensor | None = None
) -> Tensor:
    """Values of rows; overwrites the logits with the gradient of their sum, in which every row counts ``mass``.

    Where given, ``measures`` gets whether the top class is that of the label, entropy, and squared log-sum-exp.
    """
    in_memory, number = number_on(logits, strength)
    values, scales, statistics, top_indices, _, _ = row_values(
        logits, labels, None, in_memory, number, *terms, *NO_REDUCTION, measures is not None
    )
    if measures is not None:
        torch.stack([(top_indices == labels).to(scales.dtype), statistics[-1], statistics[0].square()], out=measures)
    overwrite_rows(logits, labels, None, in_memory, number, scales, statistics, top_indices, mass, None, *terms)
    return values


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits, target, weight, strength, number, ignore_index, penalty, margin, z_loss, reduction, *_ = inputs
    _, scales, statistics, top_indices, _, denominator = output
    divisor = denominator if reduction == "mean" else None
    ctx.save_for_backward(logits, target, weight, strength, scales, statistics, top_indices, divisor)
    ctx.number, ctx.terms = number, Terms(ignore_index, penalty, margin, z_loss)
    ctx.is_reduced, ctx.num_inputs = reduction != "none", len(inputs)
    ctx.set_materialize_grads(False)


def _backward(
    ctx: Any, of_values: Tensor, of_scales: None, of_statistics: None, of_top_indices: None, of_loss: Tensor, *_: None
) -> tuple[Tensor | None, ...]:
    logits, target, weight, strength, scales, statistics, top_indices, denominator = ctx.saved_tensors
    upstream = of_loss if ctx.is_reduced else of_values.contiguous()
    gradient = row_gradient(
        logits, target, weight, strength, ctx.number, scales, statistics, top_indices, upstream, denominator, *ctx.terms
    )
    return gradient, *[None] * (ctx.num_inputs - 1)


row_values.register_autograd(_backward, setup_context=_keep)


def _beside(target: Tensor, layout: Layout) -> tuple[Tensor, tuple[int, int, int]]:
    """Targets laid out like the logits, and their strides."""
    if not target.is_floating_point():
        return target.reshape(-1), (layout.num_positions, 1, 0)
    if target.dim() > 2:
        target = laid_as(target, layout.is_rows)
    return target, strides_of(target)


def _constants(
    layout: Layout, target: Tensor, aligned: str, penalty: str, margin: float, z_loss: float
) -> dict[str, Any]:
    # AMD's data-centre GPUs have wider warps.
    launch = launch_of(layout.num_classes, layout.is_rows, 64 if torch.version.hip else 32)
    return {
        "PENALTY": penalty,
        "MARGIN": margin,
        "Z_LOSS": z_loss,
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
