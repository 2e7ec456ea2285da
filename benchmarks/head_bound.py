"""``python -m benchmarks lm_head --shape trl``: the least time and the memory of a head on a GPU, by arithmetic.

The shape is the one for which TRL has published times of its heads (8,192 tokens, width 4,096, vocabulary 151,936). The
operators of forward and backward are counted on ``meta`` tensors. A bound is the time that the products take at the
published rate of the GPU, plus the time that its memory takes for all other bytes; nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.goals import HEAD_BOUND_GOALS
from benchmarks.report import judged, lined_up
from benchmarks.traffic import allocated, traffic
from maxsup.functional import implementation
from maxsup.losses.head.blocks import Head, Plan, head_loss
from maxsup.losses.head.products import rows_of_block
from maxsup.losses.head.rows import Objective


class Shape(NamedTuple):
    """Tokens, width and vocabulary of a head in bf16, and the milliseconds of its three products on an H100."""

    num_rows: int
    width: int
    num_classes: int
    measured_products: float

    def __str__(self) -> str:
        return f"N={self.num_rows}, D={self.width}, K={self.num_classes}"


SHAPES = {"trl": Shape(8192, 4096, 151936, 42.0)}
# Operations and bytes a second that the makers state, dense bf16.
GPUS = {"A100": (312e12, 2.04e12), "H100": (989e12, 3.35e12), "MI300X": (1307e12, 5.3e12)}
ITEM = 2  # bytes of a number in bf16


def run(shape: Shape, show: Callable[[str], None]) -> dict[str, Any]:
    """Count a training step of the head, and print what bounds it."""
    moved, memory = traffic(lambda: _step(shape)).num_bytes, allocated(lambda: _step(shape))  # it makes its inputs
    num_rows, width, num_classes, measured = shape
    sizes = num_rows * width, num_classes * width, num_rows * num_classes
    # Every product reads two of the three and writes the third.
    products = 3 * ITEM * sum(sizes)
    beyond = moved - products
    operations = 3 * 2 * num_rows * width * num_classes
    block = rows_of_block(num_rows, ITEM * num_classes, torch.device("meta"))
    show(f"\nhead {shape}, bf16, blocks of {block} rows: counted, not measured")
    show(
        lined_up(
            ["", "GB"],
            [
                ["three products over all rows at once", f"{products / 1e9:.1f}"],
                ["all else: blocks, sums, loss, conversions", f"{beyond / 1e9:.1f}"],
                ["memory, inputs included (GiB)", f"{memory / 2**30:.2f}"],
            ],
        )
    )
    rows = [
        [gpu, f"{1e3 * operations / rate:.1f}", f"{1e3 * beyond / bandwidth:.1f}",
         f"{1e3 * (operations / rate + beyond / bandwidth):.1f}"]
        for gpu, (rate, bandwidth) in GPUS.items()
    ]  # fmt: skip
    show(lined_up(["GPU", "products ms", "all else ms", "bound ms"], rows))
    rate, bandwidth = GPUS["H100"]
    extra = 1e3 * beyond / bandwidth
    show(f"H100, with products at the {measured:.0f} ms that TRL has measured: {measured + extra:.1f} ms")
    values = {
        "share": extra / (1e3 * operations / rate),
        "milliseconds": measured + extra,
        "gibibytes": memory / 2**30,
    }
    goals = [judged(text, str(shape), values[key], limit) for key, (text, limit) in HEAD_BOUND_GOALS.items()]
    counted = {"products_bytes": products, "beyond_bytes": beyond, "memory_bytes": memory, "block_rows": block}
    return {"size": str(shape), **counted, "operations": operations, "goals": goals}


def _step(shape: Shape) -> tuple[Tensor, ...]:
    def of(*sizes: int) -> Tensor:
        return torch.empty(sizes, dtype=torch.bfloat16, device="meta", requires_grad=True)

    hidden, weight = of(shape.num_rows, shape.width), of(shape.num_classes, shape.width)
    target = torch.empty(shape.num_rows, dtype=torch.int64, device="meta")
    plan = Plan(target, 0.1, Objective(), -100, "mean", None, hidden.dtype)
    with implementation("triton"):
        return torch.autograd.grad(head_loss(Head(hidden, weight, None), plan)[0], (hidden, weight))
