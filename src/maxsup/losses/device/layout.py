"""Where the samples of some logits are, and how a kernel goes through them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from maxsup.losses.computing.blocks import laid_as
from maxsup.losses.reduction import num_classes

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


class Samples(NamedTuple):
    """How many planes of how many positions some logits are, and whether classes are innermost."""

    num_planes: int
    num_positions: int
    is_rows: bool


class Layout(NamedTuple):
    """Logits in memory, with strides of planes, positions and classes."""

    tensor: Tensor
    num_classes: int
    samples: Samples
    strides: tuple[int, int, int]


def samples_of(logits: Tensor) -> Samples:
    """How the samples of some logits are gone through."""
    if logits.dim() == 1:
        return Samples(1, 1, True)
    if logits.dim() == 2:
        return Samples(1, logits.shape[0], logits.stride(1) == 1 or logits.stride(0) != 1)
    if logits.movedim(1, -1).is_contiguous() or logits[0].numel() > MAX_OFFSET:
        return Samples(1, logits.numel() // num_classes(logits), True)
    return Samples(logits.shape[0], logits[0, 0].numel(), False)


def layout_of(logits: Tensor) -> Layout:
    """Where the samples of some logits are, without a copy unless their strides are those of no plane."""
    samples = samples_of(logits)
    laid = laid_as(logits, samples.is_rows) if logits.dim() > 2 else logits
    return Layout(laid, num_classes(logits), samples, strides_of(laid))


def strides_of(tensor: Tensor) -> tuple[int, int, int]:
    """Strides of planes, positions and classes of what is laid out as some logits are."""
    if tensor.dim() == 1:
        return 0, 0, tensor.stride(0)
    if tensor.dim() == 2:
        return 0, tensor.stride(0), tensor.stride(1)
    return tensor.stride(0), tensor.stride(2), tensor.stride(1)


def sizes_of(layout: Layout, *strides: tuple[int, int, int]) -> tuple[str, list[int]]:
    """Which sizes are multiples of ``VECTOR``, and all of them, those divided by it."""
    every = (layout.strides, *strides)
    sizes = [layout.num_classes, layout.samples.num_positions, *(stride for part in every for stride in part)]
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


def grid_of(num_classes: int, samples: Samples) -> tuple[int, int]:
    """Programs of a launch; one of them at least, because the loss of no samples is written too."""
    rows = launch_of(num_classes, samples.is_rows).rows
    return max(1, -(-samples.num_positions // rows)), samples.num_planes
