"""Where the samples of some logits are in memory, and how a kernel goes through them."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from torch import Tensor

from maxsup.losses.computing.blocks import laid_as
from maxsup.losses.reduction import num_classes

VECTOR = 8
# Larger offsets of a class do not fit into 32 bits.
MAX_OFFSET = 2**31 - 1


class Launch(NamedTuple):
    """Samples and classes of a tile, and the warps that work on it."""

    rows: int
    block: int
    num_warps: int


@lru_cache(maxsize=256)
def launch_of(num_classes: int, is_rows: bool, warp_size: int = 32) -> Launch:
    """Tiles with at least eight logits per thread, small enough for the compiler not to spill registers.

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
    """Logits in memory as planes of positions; ``is_rows`` says whether classes are innermost."""

    tensor: Tensor
    num_classes: int
    num_planes: int
    num_positions: int
    is_rows: bool

    @property
    def grid(self) -> tuple[int, int]:
        """Programs of a launch; at least one, because the loss of an empty batch is written too."""
        return max(1, -(-self.num_positions // launch_of(self.num_classes, self.is_rows).rows)), self.num_planes


def layout_of(logits: Tensor) -> Layout:
    """The layout of some logits, without a copy unless their strides are those of no plane."""
    size = num_classes(logits)
    if logits.dim() == 1:
        return Layout(logits, size, 1, 1, True)
    if logits.dim() == 2:
        return Layout(logits, size, 1, logits.shape[0], logits.stride(1) == 1 or logits.stride(0) != 1)
    if logits.movedim(1, -1).is_contiguous() or logits[0].numel() > MAX_OFFSET:
        return Layout(laid_as(logits, is_rows=True), size, 1, logits.numel() // size, True)
    return Layout(laid_as(logits, is_rows=False), size, logits.shape[0], logits[0, 0].numel(), False)


def strides_of(tensor: Tensor) -> tuple[int, int, int]:
    """Strides of planes, positions and classes of a tensor that is laid out like some logits."""
    if tensor.dim() == 1:
        return 0, 0, tensor.stride(0)
    if tensor.dim() == 2:
        return 0, tensor.stride(0), tensor.stride(1)
    return tensor.stride(0), tensor.stride(2), tensor.stride(1)


def sizes_of(layout: Layout, out: Tensor) -> tuple[str, list[int]]:
    """Which sizes are multiples of ``VECTOR``, and all sizes, where those multiples are divided by it.

    The sizes are the numbers of classes and positions, then the strides of the logits and of ``out``.
    """
    aligned, sizes = _divided(layout.num_classes, layout.num_positions, strides_of(layout.tensor), strides_of(out))
    return aligned, list(sizes)


@lru_cache(maxsize=256)
def _divided(
    num_classes: int, num_positions: int, own_strides: tuple[int, int, int], out_strides: tuple[int, int, int]
) -> tuple[str, tuple[int, ...]]:
    strides = own_strides, out_strides
    sizes = [num_classes, num_positions, *chain(*strides)]
    for aligned, size_index, unit in (("classes", 0, 2), ("positions", 1, 1)):
        if all(part[unit] == 1 for part in strides):
            divided = {size_index, *(index for index in range(2, len(sizes)) if (index - 2) % 3 != unit)}
            if any(sizes[index] % VECTOR for index in divided):
                break
            return aligned, tuple(size // VECTOR if index in divided else size for index, size in enumerate(sizes))
    return "none", tuple(sizes)
