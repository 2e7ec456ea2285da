"""Logits in blocks that fit the cache, and the first largest logit of each sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from maxsup.losses.reduction import class_axis, num_classes, sample_shape

# A block is a sixteenth of the logits, which keeps its temporary memory small, within these bounds: below the first,
# calls dominate the time of a CPU; beyond the second, a block leaves the cache. On other devices blocks only bound the
# memory. Half-precision inputs halve the lower bound, because a block needs a float32 copy; planes stay at the lower
# bound, because finding their top takes memory of its own.
CPU_BLOCK_BYTES = (1024 * 1024, 2 * 1024 * 1024)
# Up to this size all logits are one block; beyond a quarter of it, blocks of half-precision logits are at most half,
# because copies in float32 take several times their memory.
WHOLE_BYTES = 1024 * 1024
# Rows of few classes need several numbers a class beside them, in all a multiple of the logits.
NARROW_BLOCK_BYTES = 256 * 1024
# Rows with fewer classes, and planes with fewer positions, do not fill the vector registers.
NARROW_ROW, NARROW_PLANE = 32, 64
# From so many classes on, a copy of narrow planes costs more than it saves.
MANY_CLASSES = 500
DEVICE_BLOCK_BYTES = (64 * 1024 * 1024, 64 * 1024 * 1024)
# Below this length torch's own max with indices is as fast as anything.
PLAIN_MAX_LENGTH = 256
# Up to this number of logits only the number of calls counts.
FEW = 2048
# Integers below are exact in float32.
MAX_EXACT = 2**24
# torch works without it.
HAS_NUMPY = find_spec("numpy") is not None


def laid_out(input: Tensor) -> tuple[Tensor, bool]:
    """The logits without a permuted copy: rows ``(M, K)`` where classes are innermost, else planes ``(N, K, P)``."""
    if input.dim() == 2:
        return input.contiguous(), True
    is_rows = input.dim() == 1 or input.movedim(1, -1).is_contiguous()
    return laid_as(input, is_rows), is_rows


def laid_as(tensor: Tensor, is_rows: bool) -> Tensor:
    """A tensor of the shape of the logits, as rows or as planes."""
    if is_rows:
        return tensor.movedim(class_axis(tensor), -1).reshape(-1, num_classes(tensor)).contiguous()
    return tensor.contiguous().flatten(start_dim=2)


def restored(laid: Tensor, is_rows: bool, input: Tensor) -> Tensor:
    """A tensor that was laid out, in the shape of the input again."""
    if is_rows and input.dim() != 2:
        return laid.reshape(*sample_shape(input), num_classes(input)).movedim(-1, class_axis(input))
    return laid.reshape(input.shape)


def blocks(laid: Tensor, is_rows: bool) -> Iterator[tuple[Any, slice]]:
    """Index of each block in the logits, and positions of its samples."""
    low, high = CPU_BLOCK_BYTES if laid.device.type == "cpu" else DEVICE_BLOCK_BYTES
    num_bytes = 4 * laid.numel()
    low = low * laid.element_size() // 4
    high = high if is_rows else low
    whole = WHOLE_BYTES
    if is_rows and is_narrow(laid):
        low, whole = min(low, NARROW_BLOCK_BYTES), min(whole, NARROW_BLOCK_BYTES)
    block_bytes = num_bytes if num_bytes <= whole else min(max(num_bytes // 16, low), high)
    if laid.element_size() < 4 and num_bytes > WHOLE_BYTES // 4:
        block_bytes = min(block_bytes, num_bytes // 2)
    size = max(1 if is_rows else NARROW_PLANE, block_bytes // (4 * laid.shape[1]))
    num_planes, num_positions = len(laid), math.prod(laid.shape[2:])
    if num_positions <= size:  # whole rows or planes
        step = size // num_positions
        for start in range(0, num_planes, step):
            stop = min(start + step, num_planes)
            yield slice(start, stop), slice(start * num_positions, stop * num_positions)
        return
    for plane in range(num_planes):
        for start in range(0, num_positions, size):
            stop = min(start + size, num_positions)
            first = plane * num_positions
            yield (slice(plane, plane + 1), slice(None), slice(start, stop)), slice(first + start, first + stop)


def is_narrow(block: Tensor) -> bool:
    """Whether vector instructions need the samples of a block side by side, which takes a copy."""
    if len(block) == 1 or block.device.type != "cpu":
        return False
    if block.dim() == 2:
        return block.shape[1] < NARROW_ROW
    return block.shape[2] < NARROW_PLANE and block.shape[1] < MANY_CLASSES


def side_by_side(block: Tensor) -> Tensor:
    """Rows ``(M, K)`` or planes ``(N, K, P)`` as one plane ``(K, M)`` or ``(K, N P)``."""
    return block.movedim(1, 0).flatten(start_dim=1)


def first_max(logits: Tensor, axis: int, room: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Largest logit and the first index that holds it, class axis kept; may write to ``room``.

    Example:
        >>> top, index = first_max(torch.tensor([[1.0, 3.0, 3.0]]), 1)
        >>> top, index
        (tensor([[3.]]), tensor([[1]]))
    """
    length = logits.shape[axis]
    if torch.compiler.is_compiling():
        # argmax keeps the compiler from using vector instructions; the smallest index among equals does not.
        top = logits.amax(axis, keepdim=True)
        index = torch.where(logits == top, positions(logits, axis), length - 1).amin(axis, keepdim=True)
        return top, index.long()
    is_last = axis == logits.dim() - 1
    if logits.is_cpu and (logits.numel() <= FEW or (is_last and HAS_NUMPY)):
        index = first_index(logits, axis)
        return logits.gather(axis, index), index
    if not is_last and logits.shape[-1] < NARROW_PLANE:
        return logits.max(axis, keepdim=True)
    if not is_last and length < MAX_EXACT:
        # The class numbers from the last to the first, where a logit is the largest: of these, the largest.
        top = logits.amax(axis, keepdim=True)
        numbers = _along(torch.arange(length, 0, -1, dtype=logits.dtype, device=logits.device), logits, axis)
        marked = torch.eq(logits, top, out=torch.empty_like(logits) if room is None else room).mul_(numbers)
        # No number is left where the top is nan.
        return top, (length - marked.amax(axis, keepdim=True)).clamp_(max=length - 1).long()
    if length < PLAIN_MAX_LENGTH:
        return logits.max(axis, keepdim=True)
    # The tops of short stretches, then the position of the top within its stretch.
    stretch = _stretch(length)
    num_whole = length // stretch
    whole = logits if num_whole * stretch == length else logits.narrow(axis, 0, num_whole * stretch)
    tops = whole.unflatten(axis, (num_whole, stretch)).amax(axis + 1)
    if whole is not logits:
        rest = logits.narrow(axis, num_whole * stretch, length - num_whole * stretch)
        tops = torch.cat([tops, rest.amax(axis, keepdim=True)], dim=axis)
    top, which = tops.max(axis, keepdim=True)
    start = which.mul_(stretch)
    candidates = start + _along(torch.arange(stretch, device=logits.device), logits, axis)
    if whole is not logits:
        candidates.clamp_(max=length - 1)
    return top, start + logits.gather(axis, candidates).argmax(axis, keepdim=True)


def first_index(logits: Tensor, axis: int) -> Tensor:
    """The index alone, outside of a compiler."""
    if logits.is_cpu:
        if logits.numel() <= FEW:
            return logits.argmax(axis, keepdim=True)
        if HAS_NUMPY and axis == logits.dim() - 1:
            # numpy's argmax uses vector instructions, torch's does not.
            return torch.from_numpy(logits.detach().numpy().argmax(axis)).unsqueeze(axis)
    return first_max(logits, axis)[1]


def positions(logits: Tensor, axis: int) -> Tensor:
    """Class indices along their axis, in a type that vector instructions compare with float32."""
    length = logits.shape[axis]
    exact = torch.float32 if length < MAX_EXACT else torch.int64
    numbers = torch.arange(length, dtype=exact, device=logits.device)
    # Writing a 0 where a 0 is makes the compiler load the numbers instead of counting again in every row.
    first = torch.zeros(1, dtype=torch.int64, device=logits.device)
    return _along(numbers.scatter(0, first, 0), logits, axis)


def _stretch(length: int) -> int:
    """About the square root of a length, if possible a divisor of it."""
    root = 1 << (length.bit_length() // 2)
    return next((size for size in range(root, 2 * root) if length % size == 0), root)


def _along(vector: Tensor, like: Tensor, axis: int) -> Tensor:
    """A vector over classes, shaped to broadcast against ``like`` at its class axis."""
    shape = [1] * like.dim()
    shape[axis] = -1
    return vector.reshape(shape)
