"""What a linear head moves on a GPU, counted: ours, Liger's scheme, and logits that are held.

Liger's scheme is written from its description: blocks of rows whose number is the ratio of classes to width, rounded to
a power of two; a kernel that reads the logits of a block twice and overwrites them with the gradient; the gradient of
the weight summed in the precision of the weight. Our kernels stand in for its own, because they move the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.report import lined_up
from maxsup.bench.baselines import torch_label_smoothing
from maxsup.bench.traffic import Traffic, traffic
from maxsup.functional import implementation, maxsup_cross_entropy
from maxsup.losses.device.rows import Terms, overwrite_with_gradient
from maxsup.losses.head.blocks import Head, Objective, Plan, head_loss

# Rows, width and classes.
SHAPES = [(4096, 768, 32000), (16384, 4096, 128256)]
# Bytes a second that the makers state.
BANDWIDTHS = {"A100": 2.04e12, "H100": 3.35e12, "MI300X": 5.3e12}


def counted(show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Bytes and kernels of forward and backward of every head, in bf16."""
    found = []
    for num_rows, width, num_classes in SHAPES:
        of = partial(torch.empty, dtype=torch.bfloat16, device="meta", requires_grad=True)
        tensors = of(num_rows, width), of(num_classes, width), torch.empty(num_rows, dtype=torch.int64, device="meta")
        logits_bytes = 2 * num_rows * num_classes
        show(f"\nhead N={num_rows}, D={width}, K={num_classes}, bf16: counted, products included (not measured)")
        counts = {name: traffic(partial(head, *tensors)) for name, head in HEADS.items()}
        show(counted_table("head", counts, logits_bytes, digits=2))
        size = {"head": [num_rows, width, num_classes]}
        for name, moved in counts.items():
            found.append({**size, "name": name, "num_bytes": moved.num_bytes, "num_kernels": len(moved.kernels)})
    return found


def counted_table(what: str, counts: dict[str, Traffic], logits_bytes: int, *, digits: int) -> str:
    """Logits moved, kernels, and the least milliseconds that each memory allows."""
    rows = [
        [name, f"{moved.num_bytes / logits_bytes:.2f}", str(len(moved.kernels)),
         *(f"{1000 * moved.num_bytes / bandwidth:.{digits}f}" for bandwidth in BANDWIDTHS.values())]
        for name, moved in counts.items()
    ]  # fmt: skip
    return lined_up([what, "logits", "kernels", *(f"{gpu} ms" for gpu in BANDWIDTHS)], rows)


def maxsup_in_form(form: str, logits: Tensor, target: Tensor) -> Tensor:
    """Our loss as one of its implementations."""
    with implementation(form):
        return maxsup_cross_entropy(logits, target)


def _ours(form: str, hidden: Tensor, weight: Tensor, target: Tensor) -> object:
    plan = Plan(target, 0.1, Objective(0.0, 0.0, 0.0), -100, "mean", None, hidden.dtype, None)
    with implementation(form):
        return torch.autograd.grad(head_loss(Head(hidden, weight, None), plan), (hidden, weight))


def _liger(hidden: Tensor, weight: Tensor, target: Tensor) -> object:
    num_rows, (num_classes, width) = len(hidden), weight.shape
    num_blocks = -(-num_classes // width)
    size = 1 << (-(-num_rows // num_blocks) - 1).bit_length()
    with torch.no_grad():
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        mass = torch.ones(num_rows, device=hidden.device)
        values = torch.empty(num_rows, device=hidden.device)
        for first in range(0, num_rows, size):
            rows = slice(first, first + size)
            logits = hidden[rows] @ weight.t()
            terms = Terms(-100, "ls", 0.0, 0.0)
            values[rows] = overwrite_with_gradient(logits, target[rows], 0.1, mass[rows], terms)
            of_hidden[rows] = logits @ weight
            of_weight.add_(logits.t() @ hidden[rows])
        return values.sum(), of_hidden, of_weight


def _held(loss: Callable[[Tensor, Tensor], Tensor], hidden: Tensor, weight: Tensor, target: Tensor) -> object:
    return torch.autograd.grad(loss(F.linear(hidden, weight), target), (hidden, weight))


HEADS: dict[str, Callable[..., object]] = {
    "logits held, torch label smoothing": partial(_held, torch_label_smoothing),
    "logits held, maxsup, Triton": partial(_held, partial(maxsup_in_form, "triton")),
    "Liger's scheme": _liger,
    "maxsup head, few operators": partial(_ours, "eager"),
    "maxsup head, Triton": partial(_ours, "triton"),
}
