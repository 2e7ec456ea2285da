"""Logits in blocks that fit the cache, and the first largest logit of each sample."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from maxsup.losses.reduction import class_axis, num_classes, sample_shape

# A block is a sixteenth of the logits, which keeps its temporary memory small, within these bounds: below the first,
# calls dominate the time of a CPU; beyond the second, a block leaves the cache. On other devices blocks only bound the
# memory. Half-precision inputs halve the lower bound, because a block needs a float32 copy; planes stay at the lower
# bound, because a block is copied to bring its samples together.
CPU_BLOCK_BYTES = (1024 * 1024, 2 * 1024 * 1024)
# Up to this size all logits are one block.
WHOLE_BYTES = 1024 * 1024
DEVICE_BLOCK_BYTES = (64 * 1024 * 1024, 64 * 1024 * 1024)
# Below this length torch's own max with indices is as fast as anything.
PLAIN_MAX_LENGTH = 256
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


def blocks(laid: Tensor, is_rows: bool) -> Iterator[tuple[Any, slice, int]]:
    """Index of each block in the logits, positions of its samples, and its class axis."""
    low, high = CPU_BLOCK_BYTES if laid.device.type == "cpu" else DEVICE_BLOCK_BYTES
    num_bytes = 4 * laid.numel()
    low = low * laid.element_size() // 4
    high = high if is_rows else low
    block_bytes = num_bytes if num_bytes <= WHOLE_BYTES else min(max(num_bytes // 16, low), high)
    size = max(1, block_bytes // (4 * laid.shape[1]))
    if is_rows:
        for start in range(0, len(laid), size):
            rows = slice(start, min(start + size, len(laid)))
            yield rows, rows, 1
        return
    num_planes, _, num_positions = laid.shape
    for plane in range(num_planes):
        for start in range(0, num_positions, size):
            stop = min(start + size, num_positions)
            first = plane * num_positions
            yield (plane, slice(None), slice(start, stop)), slice(first + start, first + stop), 0


def first_max(logits: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Largest logit and the first index that holds it, class axis kept.

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
    if HAS_NUMPY and logits.device.type == "cpu":
        # numpy's argmax uses vector instructions, torch's does not.
        index = torch.from_numpy(logits.detach().numpy().argmax(axis)).unsqueeze(axis)
        return logits.gather(axis, index), index
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


def positions(logits: Tensor, axis: int) -> Tensor:
    """Class indices along their axis, in a type that vector instructions compare with float32."""
    length = logits.shape[axis]
    exact = torch.float32 if length < 2**24 else torch.int64
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
