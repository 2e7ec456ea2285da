"""What losses move on a GPU, counted: bytes and kernels of forward and backward, and the time that memory alone takes.

Nothing here is measured. The operators are counted on ``meta`` tensors, ours in the form for GPUs that Triton serves
and in the one for other devices; what the compilers make of the kernels is in ``benchmarks/kernels.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import torch

from benchmarks import device_head
from benchmarks.device_head import counted_table, maxsup_in_form
from benchmarks.peers import YARDSTICK, Loss, gradient
from benchmarks.report import judged, lined_up
from maxsup.bench.baselines import naive_maxsup, torch_cross_entropy, torch_label_smoothing
from maxsup.bench.traffic import allocated, traffic
from maxsup.losses.device.layout import VECTOR

SHAPES = [
    ((256, 1000), torch.float32),
    ((256, 1000), torch.bfloat16),
    ((4096, 32000), torch.bfloat16),
    ((256, 128256), torch.bfloat16),
]
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
        show(counted_table("loss", counted, logits.nbytes, digits=4))
        for peer, (logits_limit, kernels_limit) in LIMITS.items():
            goals.append(judged(f"logits moved, {peer}", name, counted[peer].num_bytes / logits.nbytes, logits_limit))
            started = sum(kernel != "ones_like" for kernel in counted[peer].kernels)
            goals.append(judged(f"kernels of the loss, {peer}", name, started, kernels_limit))
        memory = allocated(steps[KERNELS]) / logits.nbytes
        goals.append(judged(f"gradients of extra memory, {KERNELS}", name, memory, 1.05))
        cases.append({"case": name, "losses": {peer: moved._asdict() for peer, moved in counted.items()}})
    result: dict[str, Any] = {"cases": cases, "goals": goals, "heads": device_head.counted(show)}
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
    return {**losses, FEW: partial(maxsup_in_form, "eager"), KERNELS: partial(maxsup_in_form, "triton")}


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
