"""What losses move on a GPU, counted: bytes and kernels of forward and backward, and the time that memory alone takes.

Nothing here is measured. The operators are counted on ``meta`` tensors, ours in the form for GPUs that Triton serves
and in the one for other devices; what the compilers make of the kernels is in ``benchmarks/kernels.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks import device_head
from benchmarks.device_head import BANDWIDTHS
from benchmarks.report import judged, lined_up
from maxsup.bench.baselines import naive_maxsup, torch_cross_entropy, torch_label_smoothing
from maxsup.bench.traffic import Traffic, allocated, traffic
from maxsup.functional import implementation, maxsup_cross_entropy
from maxsup.losses.device.layout import VECTOR

SHAPES = [
    ((256, 1000), torch.float32),
    ((256, 1000), torch.bfloat16),
    ((4096, 32000), torch.bfloat16),
    ((256, 128256), torch.bfloat16),
]
YARDSTICK = "torch label smoothing"
FEW = "maxsup, few operators"
KERNELS = "maxsup, Triton"
# Logits that are moved, and kernels that are started, without the ones from which autograd starts.
LIMITS = {FEW: (10, 22), KERNELS: (3.1, 2)}
# Of the kernels: type, classes, whether they are innermost. Every launch that there is, in every type.
LAUNCHES = [
    (dtype, num_classes, is_rows)
    for dtype in ("fp32", "bf16", "fp16")
    for num_classes, is_rows in [
        *((num_classes, True) for num_classes in (10, 24, 48, 100, 200, 400, 1000, 2000, 32000, 50257)),
        (152, False),
    ]
]


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Count every loss at every shape; nothing is timed, so that rounds do not matter."""
    goals, cases = [], []
    for shape, dtype in SHAPES:
        name = f"{shape[0]} x {shape[1]}, {str(dtype).removeprefix('torch.')}"
        logits = torch.empty(shape, dtype=dtype, device="meta", requires_grad=True)
        target = torch.empty(shape[0], dtype=torch.int64, device="meta")
        counted = {peer: _counted(loss, logits, target) for peer, loss in _losses().items()}
        show(f"\n{name}: counted, and the least time that memory allows (not measured)")
        show(
            "\n".join(
                lined_up(["loss", "logits", "kernels", *(f"{gpu} ms" for gpu in BANDWIDTHS)], _rows(counted, logits))
            )
        )
        for peer, (logits_limit, kernels_limit) in LIMITS.items():
            goals.append(judged(f"logits moved, {peer}", name, counted[peer].num_bytes / logits.nbytes, logits_limit))
            started = sum(kernel != "ones_like" for kernel in counted[peer].kernels)
            goals.append(judged(f"kernels of the loss, {peer}", name, started, kernels_limit))
        memory = _peak(_losses()[KERNELS], logits, target) / logits.nbytes
        goals.append(judged(f"gradients of extra memory, {KERNELS}", name, memory, 1.05))
        cases.append({"case": name, "losses": {peer: moved._asdict() for peer, moved in counted.items()}})
    result: dict[str, Any] = {"cases": cases, "goals": goals}
    result["heads"] = device_head.counted(show)
    if find_spec("triton") is not None:
        result["kernels"] = _compiled(is_quick, show)
        spilled = sum(row["spills"] for row in result["kernels"])
        goals.append(judged("bytes spilled", f"{len(result['kernels'])} compilations", spilled, 0))
    return result


def _losses() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "torch cross-entropy": torch_cross_entropy,
        YARDSTICK: torch_label_smoothing,
        "naive MaxSup": naive_maxsup,
    }
    if find_spec("timm") is not None:
        from timm.loss import LabelSmoothingCrossEntropy

        losses["timm label smoothing"] = LabelSmoothingCrossEntropy(0.1)
    return {**losses, FEW: partial(_ours, "eager"), KERNELS: partial(_ours, "triton")}


def _ours(form: str, logits: Tensor, target: Tensor) -> Tensor:
    with implementation(form):
        return maxsup_cross_entropy(logits, target)


def _counted(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, target: Tensor) -> Traffic:
    return traffic(lambda: torch.autograd.grad(loss(logits, target), logits))


def _peak(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, target: Tensor) -> int:
    """Bytes of all that operators make in forward and backward, as if nothing of it were ever freed."""
    return allocated(lambda: torch.autograd.grad(loss(logits, target), logits))


def _rows(counted: dict[str, Traffic], logits: Tensor) -> list[list[str]]:
    return [
        [
            peer,
            f"{moved.num_bytes / logits.nbytes:.2f}",
            str(len(moved.kernels)),
            *(f"{1000 * moved.num_bytes / bandwidth:.4f}" for bandwidth in BANDWIDTHS.values()),
        ]
        for peer, moved in counted.items()
    ]


def _compiled(is_quick: bool, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Registers, spills and wide loads of the kernels."""
    from benchmarks.kernels import KERNELS as KERNEL_NAMES
    from benchmarks.kernels import TARGETS, compiled

    launches = [("bf16", 1000, True)] if is_quick else LAUNCHES
    found = []
    for target in ["sm_80"] if is_quick else TARGETS:
        for kernel in KERNEL_NAMES:
            for dtype, num_classes, is_rows in launches:
                said = compiled(target, kernel, dtype, num_classes, is_rows=is_rows)
                where = {"target": target, "kernel": kernel, "dtype": dtype, "classes": num_classes, "is_rows": is_rows}
                found.append({**where, **said._asdict()})
    show("\nwhat the compilers say of the kernels, over all types and launches")
    header = ["kernel", "launches", "most registers", "bytes spilled", "loads of 128 bits, least and most"]
    rows = []
    for target, kernel in dict.fromkeys((row["target"], row["kernel"]) for row in found):
        group = [row for row in found if (row["target"], row["kernel"]) == (target, kernel)]
        # Rows that vectors do not fit are loaded one by one.
        wide = [row["wide_loads"] for row in group if row["classes"] % VECTOR == 0]
        most, spilled = max(row["registers"] for row in group), sum(row["spills"] for row in group)
        rows.append([f"{target}, {kernel}", str(len(group)), str(most), str(spilled), f"{min(wide)} to {max(wide)}"])
    show("\n".join(lined_up(header, rows)))
    return found
