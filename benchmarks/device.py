"""What losses and linear heads move on a GPU: bytes and kernels, and the time that memory alone takes.

Nothing here is measured. The operators of forward and backward are counted on ``meta`` tensors, ours in the form for
GPUs that Triton serves and in the one for other devices; what the compilers make of the kernels is in
``benchmarks/kernels.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.peers import YARDSTICK, Loss, gradient
from benchmarks.report import judged, lined_up
from benchmarks.traffic import Traffic, allocated, traffic
from maxsup.functional import implementation, maxsup_cross_entropy
from maxsup.lab.bench.baselines import naive_maxsup, torch_cross_entropy, torch_label_smoothing
from maxsup.losses.device.layout import VECTOR
from maxsup.losses.device.rows import Terms, overwrite_with_gradient
from maxsup.losses.head.blocks import Head, Objective, Plan, head_loss

SHAPES = [
    ((256, 1000), torch.float32),
    ((256, 1000), torch.bfloat16),
    ((4096, 32000), torch.bfloat16),
    ((256, 128256), torch.bfloat16),
]
# Rows, width and classes.
HEAD_SHAPES = [(4096, 768, 32000), (16384, 4096, 128256)]
# Bytes a second that the makers state.
BANDWIDTHS = {"A100": 2.04e12, "H100": 3.35e12, "MI300X": 5.3e12}
FEW = "maxsup, few operators"
KERNELS = "maxsup, Triton"
# Logits that are moved and kernels that are started, without the kernel of the ones from which autograd starts.
LIMITS = {FEW: (10, 22), KERNELS: (3.1, 2)}
# Type, classes and whether they are innermost: every launch of the kernels, in every type.
LAUNCHES = [
    (dtype, num_classes, is_rows)
    for dtype in ("fp32", "bf16", "fp16")
    for num_classes, is_rows in [
        *((num_classes, True) for num_classes in (10, 24, 48, 100, 200, 400, 1000, 2000, 32000, 50257)),
        (152, False),
    ]
]


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Count every loss at every shape; nothing is timed, so rounds do not matter."""
    goals, cases = [], []
    for shape, dtype in SHAPES:
        name = f"{shape[0]} x {shape[1]}, {str(dtype).removeprefix('torch.')}"
        logits = torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)
        target = torch.empty(shape[0], dtype=torch.int64, device="meta")
        steps = {peer: partial(gradient, loss, logits, target) for peer, loss in _losses().items()}
        counted = {peer: traffic(step) for peer, step in steps.items()}
        show(f"\n{name}: counted, and the least time that memory allows (not measured)")
        show(_counted_table("loss", counted, logits.nbytes, digits=4))
        for peer, (logits_limit, kernels_limit) in LIMITS.items():
            goals.append(judged(f"logits moved, {peer}", name, counted[peer].num_bytes / logits.nbytes, logits_limit))
            started = sum(kernel != "ones_like" for kernel in counted[peer].kernels)
            goals.append(judged(f"kernels of the loss, {peer}", name, started, kernels_limit))
        memory = allocated(steps[KERNELS]) / logits.nbytes
        goals.append(judged(f"gradients of extra memory, {KERNELS}", name, memory, 1.05))
        cases.append({"case": name, "losses": {peer: moved._asdict() for peer, moved in counted.items()}})
    result: dict[str, Any] = {"cases": cases, "goals": goals, "heads": _counted_heads(show)}
    if find_spec("triton") is not None:
        result["kernels"] = _compiled(is_quick, show)
        spilled = sum(row["spills"] for row in result["kernels"])
        goals.append(judged("bytes spilled", f"{len(result['kernels'])} compilations", spilled, 0))
    return result


def _losses() -> dict[str, Loss]:
    losses: dict[str, Loss] = {
        "torch cross-entropy": torch_cross_entropy,
        YARDSTICK: torch_label_smoothing,
        "naive MaxSup": naive_maxsup,
    }
    if find_spec("timm") is not None:
        from timm.loss import LabelSmoothingCrossEntropy

        losses["timm label smoothing"] = LabelSmoothingCrossEntropy(0.1)
    return {**losses, FEW: partial(_maxsup_in_form, "eager"), KERNELS: partial(_maxsup_in_form, "triton")}


def _compiled(is_quick: bool, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Registers, spills and wide loads of the kernels."""
    from benchmarks import kernels

    targets, launches = (["sm_80"], [("bf16", 1000, True)]) if is_quick else (list(kernels.TARGETS), LAUNCHES)
    found = []
    for target, kernel, (dtype, num_classes, is_rows) in product(targets, kernels.KERNELS, launches):
        said = kernels.compiled(target, kernel, dtype, num_classes, is_rows=is_rows)
        where = {"target": target, "kernel": kernel, "dtype": dtype, "classes": num_classes, "is_rows": is_rows}
        found.append(where | said._asdict())
    show("\nwhat the compilers say of the kernels, over all types and launches")
    header = ["kernel", "launches", "most registers", "bytes spilled", "loads of 128 bits, least and most"]
    rows = []
    for target, kernel in product(targets, kernels.KERNELS):
        group = [row for row in found if (row["target"], row["kernel"]) == (target, kernel)]
        # Rows whose length vectors do not divide are loaded one by one.
        wide = [row["wide_loads"] for row in group if row["classes"] % VECTOR == 0]
        most, spilled = max(row["registers"] for row in group), sum(row["spills"] for row in group)
        rows.append([f"{target}, {kernel}", str(len(group)), str(most), str(spilled), f"{min(wide)} to {max(wide)}"])
    show(lined_up(header, rows))
    return found


def _counted_heads(show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Bytes and kernels of forward and backward of every head, in bf16."""
    found = []
    for num_rows, width, num_classes in HEAD_SHAPES:
        of = partial(torch.empty, dtype=torch.bfloat16, device="meta", requires_grad=True)
        tensors = of(num_rows, width), of(num_classes, width), torch.empty(num_rows, dtype=torch.int64, device="meta")
        logits_bytes = 2 * num_rows * num_classes
        show(f"\nhead N={num_rows}, D={width}, K={num_classes}, bf16: counted, products included (not measured)")
        counts = {name: traffic(partial(head, *tensors)) for name, head in HEADS.items()}
        show(_counted_table("head", counts, logits_bytes, digits=2))
        size = {"head": [num_rows, width, num_classes]}
        for name, moved in counts.items():
            found.append({**size, "name": name, "num_bytes": moved.num_bytes, "num_kernels": len(moved.kernels)})
    return found


def _counted_table(what: str, counts: dict[str, Traffic], logits_bytes: int, *, digits: int) -> str:
    """Logits moved, kernels, and the least milliseconds that each memory allows."""
    rows = [
        [name, f"{moved.num_bytes / logits_bytes:.2f}", str(len(moved.kernels)),
         *(f"{1000 * moved.num_bytes / bandwidth:.{digits}f}" for bandwidth in BANDWIDTHS.values())]
        for name, moved in counts.items()
    ]  # fmt: skip
    return lined_up([what, "logits", "kernels", *(f"{gpu} ms" for gpu in BANDWIDTHS)], rows)


def _maxsup_in_form(form: str, logits: Tensor, target: Tensor) -> Tensor:
    """Our loss as one of its implementations."""
    with implementation(form):
        return maxsup_cross_entropy(logits, target)


def _ours(form: str, hidden: Tensor, weight: Tensor, target: Tensor) -> object:
    plan = Plan(target, 0.1, Objective(), -100, "mean", None, hidden.dtype)
    with implementation(form):
        return torch.autograd.grad(head_loss(Head(hidden, weight, None), plan)[0], (hidden, weight))


def _liger(hidden: Tensor, weight: Tensor, target: Tensor) -> object:
    """Liger's scheme, written from its description.

    Blocks of rows whose number is the ratio of classes to width, rounded to a power of two; a kernel that reads the
    logits of a block twice and overwrites them with the gradient; the gradient of the weight summed in the precision of
    the weight. Our kernels stand in for its own, because they move the same.
    """
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
    "logits held, maxsup, Triton": partial(_held, partial(_maxsup_in_form, "triton")),
    "Liger's scheme": _liger,
    "maxsup head, few operators": partial(_ours, "eager"),
    "maxsup head, Triton": partial(_ours, "triton"),
}
