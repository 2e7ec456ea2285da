"""The matrix products of a linear head, and how many rows they take at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maxsup.losses.reduction import HALF

# A block has at least so many rows, since fewer slow the matrix products down, and at least so many bytes, since calls
# dominate the time of smaller ones; more of either only costs memory.
BLOCK_ROWS = 256
BLOCK_BYTES = 1024 * 1024
# On a device every block reads the weight and adds to its gradient, so a few large blocks move less. A block takes this
# share of the device's memory, within these bounds.
DEVICE_SHARE = 64
DEVICE_BLOCK_BYTES = (64 * 1024 * 1024, 1024 * 1024 * 1024)
# Rows of a block on a device are a multiple of this, which is what matrix units take.
ROW_MULTIPLE = 128


class Gradients(NamedTuple):
    """Gradients of a head; None where they are not wanted."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def rows_of_block(num_rows: int, row_bytes: int, device: torch.device) -> int:
    """How many rows of logits are computed at a time.

    Example:
        >>> rows_of_block(8192, 2 * 151936, torch.device("meta"))  # three blocks, none much smaller than the others
        2816
    """
    if device.type == "cpu":
        return max(BLOCK_ROWS, BLOCK_BYTES // max(row_bytes, 1))
    most = max(BLOCK_ROWS, block_bytes(device) // max(row_bytes, 1))
    num_blocks = max(1, -(-num_rows // most))
    even = -(-num_rows // num_blocks)
    return min(most, -(-even // ROW_MULTIPLE) * ROW_MULTIPLE)


def block_bytes(device: torch.device) -> int:
    """Bytes of a block on a device."""
    low, high = DEVICE_BLOCK_BYTES
    if device.type == "meta":  # counted as for a large GPU
        return high
    if device.type not in ("cuda", "xpu"):
        return low * 4
    # Of all memory and not of what is free: the same batch has the same blocks, and with them the same bits.
    total = getattr(torch, device.type).get_device_properties(device).total_memory
    return min(max(total // DEVICE_SHARE, low), high)


def multiply(inputs: Tensor, matrix: Tensor, bias: Tensor | None, scale: float, out: Tensor) -> None:
    """Write ``scale * (inputs @ matrix.T + bias)`` to ``out``."""
    if inputs.dtype != out.dtype:
        out.copy_(inputs @ matrix.t())
        if scale != 1:
            out.mul_(scale)
    elif scale == 1:
        torch.mm(inputs, matrix.t(), out=out)
    else:  # the product itself multiplies, which takes no pass over the logits
        torch.addmm(out, inputs, matrix.t(), beta=0, alpha=scale, out=out)
    if bias is not None:
        out.add_(bias, alpha=scale)


def add_products(gradients: Gradients, grad: Tensor, inputs: Tensor, matrix: Tensor, rows: slice) -> None:
    """Add the part of a block, whose gradient is ``grad``, to the gradients of the head."""
    narrow = grad.to(matrix.dtype)
    if gradients.hidden is not None:
        gradients.hidden[rows] = narrow @ matrix
    if gradients.weight is not None:
        _add_product(gradients.weight, narrow.t(), inputs, is_first=rows.start == 0)
    if gradients.bias is not None:
        gradients.bias.add_(grad.sum(dim=0, dtype=gradients.bias.dtype))


def _add_product(total: Tensor, left: Tensor, right: Tensor, *, is_first: bool) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right, beta=0 if is_first else 1)
    elif total.dtype == torch.float32 and left.dtype in HALF and widens(total.device.type):
        if is_first:
            torch.mm(left, right, out_dtype=torch.float32, out=total)
        else:
            torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    elif is_first:
        total.copy_(left @ right)
    else:
        total.add_(left @ right)


@cache
def widens(device_type: str) -> bool:
    """Whether a product of half precision can be added up in float32 without a product in between."""
    if device_type == "cpu":
        return False
    tiny = torch.zeros(16, 16, dtype=torch.bfloat16, device=device_type)
    try:
        torch.addmm(tiny.float(), tiny, tiny, out_dtype=torch.float32, out=tiny.float())
    except (TypeError, RuntimeError):  # an older torch, or a device that has no such product
        return False
    return True


def without_autocast(device_type: str) -> AbstractContextManager[Any]:
    """Products in the precision of the plan; some kinds of device, such as ``meta``, have no autocast."""
    is_on = torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if is_on else nullcontext()
