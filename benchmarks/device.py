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

from benchmarks.report import judged, lined_up
from maxsup.bench.baselines import naive_maxsup, torch_cross_entropy, torch_label_smoothing
from maxsup.bench.traffic import Traffic, traffic
from maxsup.functional import implementation, maxsup_cross_entropy

SHAPES = [
    ((256, 1000), torch.float32),
    ((256, 1000), torch.bfloat16),
    ((4096, 32000), torch.bfloat16),
    ((256, 128256), torch.bfloat16),
]
# Bytes a second that the makers state.
BANDWIDTHS = {"A100": 2.04e12, "H100": 3.35e12, "MI300X": 5.3e12}
YARDSTICK = "torch label smoothing"
FEW = "maxsup, few operators"
KERNELS = "maxsup, Triton"
# Logits that are moved, and kernels that are started.
LIMITS = {FEW: (10, 22), KERNELS: (3.1, 8)}


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
            goals.append(judged(f"kernels, {peer}", name, len(counted[peer].kernels), kernels_limit))
        cases.append({"case": name, "losses": {peer: moved._asdict() for peer, moved in counted.items()}})
    result: dict[str, Any] = {"cases": cases, "goals": goals}
    if find_spec("triton") is not None:
        result["kernels"] = _compiled(is_quick, show)
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

    found = []
    for target in ["sm_80"] if is_quick else TARGETS:
        for kernel in KERNEL_NAMES:
            for num_classes, is_rows in [(1000, True)] if is_quick else [(1000, True), (32000, True), (152, False)]:
                said = compiled(target, kernel, "bf16", num_classes, is_rows=is_rows)
                layout = "rows" if is_rows else "planes"
                found.append(
                    {"target": target, "kernel": kernel, "classes": num_classes, "layout": layout, **said._asdict()}
                )
    show("\nwhat the compilers say of the kernels in bf16")
    header = ["kernel", "registers", "bytes spilled", "loads of 128 bits"]
    rows = [
        [
            f"{row['target']}, {row['kernel']}, {row['classes']} classes in {row['layout']}",
            str(row["registers"]),
            str(row["spills"]),
            str(row["wide_loads"]),
        ]
        for row in found
    ]
    show("\n".join(lined_up(header, rows)))
    return found
