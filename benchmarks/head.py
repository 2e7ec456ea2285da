"""The fused head against a linear layer whose logits go into a loss: time, peak memory, and a vocabulary of 128,256."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.checks import SCALES, relative_error
from benchmarks.goals import HEAD_GOALS
from benchmarks.memory import resident_peak
from benchmarks.report import judged, lined_up, spread, time_columns
from maxsup.functional import linear_maxsup_cross_entropy, maxsup_cross_entropy
from maxsup.lab.bench.baselines import naive_maxsup, torch_label_smoothing
from maxsup.lab.bench.peak_memory import peak_memory
from maxsup.lab.bench.timing import interleaved_times

FUSED = "fused maxsup"
YARDSTICK = "unfused torch label smoothing"
NAIVE = "unfused naive MaxSup"
Tensors = tuple[Tensor, Tensor, Tensor]
HEADS: dict[str, Callable[..., Tensor]] = {
    FUSED: linear_maxsup_cross_entropy,
    YARDSTICK: lambda hidden, weight, target: torch_label_smoothing(F.linear(hidden, weight), target),
    NAIVE: lambda hidden, weight, target: naive_maxsup(F.linear(hidden, weight), target),
    "unfused maxsup": lambda hidden, weight, target: maxsup_cross_entropy(F.linear(hidden, weight), target),
}
# The logits themselves come out of a float32 product.
GRADIENT_LIMIT = 1e-4
# Seconds of CPU time after which no further round begins.
BUDGET = 30.0


class Head(NamedTuple):
    """Rows, width and classes of a head."""

    num_rows: int
    width: int
    num_classes: int

    def __str__(self) -> str:
        return f"N={self.num_rows}, D={self.width}, K={self.num_classes}"

    def tensors(self, scale: float = 3.0, dtype: torch.dtype = torch.float32) -> Tensors:
        """Hidden states, weight and labels; the logits have a spread of ``scale``."""
        generator = torch.Generator().manual_seed(0)
        hidden = torch.randn(self.num_rows, self.width, generator=generator) * scale
        weight = torch.randn(self.num_classes, self.width, generator=generator) / self.width**0.5
        target = torch.randint(self.num_classes, (self.num_rows,), generator=generator)
        return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), target


# Three blocks of rows, the last one not full.
CHECKED = Head(600, 64, 32000)
TIMED = Head(1024, 768, 32000)
LARGE = Head(4096, 768, 128256)
QUICK_TIMED = Head(512, 64, 4000)
QUICK_LARGE = Head(1024, 64, 16000)


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Check the gradients, then measure a usual head and a large one."""
    error = gradient_error(QUICK_TIMED if is_quick else CHECKED)
    if error > GRADIENT_LIMIT:
        raise RuntimeError(f"gradients of the fused head must agree with float64; they are off by {error:.0e}.")
    # The large one first: memory that earlier work has freed would be used again and not count as growth.
    large = measured_large(QUICK_LARGE if is_quick else LARGE)
    usual = measured_heads(QUICK_TIMED if is_quick else TIMED, rounds)
    show("\n".join(_table(usual, large, error)))
    peaks = {row["head"]: row["peak_bytes"] for row in usual["heads"]}
    ratios = {row["head"]: row["time_ratio"] for row in usual["heads"]}
    values = {
        "time_ratio": ratios[FUSED],
        "peak_ratio": peaks[FUSED] / peaks[YARDSTICK],
        "peak_ratio_to_naive": peaks[FUSED] / peaks[NAIVE],
        "large_gigabytes": large["extra_bytes"] / 1e9,
    }
    goals = [
        judged(text, large["size"] if key.startswith("large") else usual["size"], values[key], limit)
        for key, (text, limit) in HEAD_GOALS.items()
    ]
    return {"gradient_error": error, "usual": usual, "large": large, "goals": goals}


def gradient_error(head: Head) -> float:
    """Largest difference between fused gradients and those of the formula in float64, over all scales."""
    worst = 0.0
    for scale in SCALES:
        fused = gradients(HEADS[FUSED], head.tensors(scale))
        exact = gradients(HEADS[NAIVE], head.tensors(scale, torch.float64))
        worst = max(worst, *map(relative_error, fused, exact))
    return worst


def measured_heads(head: Head, rounds: int) -> dict[str, Any]:
    """Time and peak memory of each way to compute the head, gradients of hidden states and weight included."""
    tensors = head.tensors()
    steps: dict[str, Callable[[], object]] = {name: partial(gradients, loss, tensors) for name, loss in HEADS.items()}
    products = {"limit: three products": partial(_three_products, tensors)}
    times = interleaved_times(steps | products, rounds=rounds, budget=BUDGET)
    rows = [
        {
            "head": name,
            **time_columns(times, name, YARDSTICK),
            "peak_bytes": peak_memory(steps[name]) if name in steps else None,
        }
        for name in times
    ]
    return {"size": str(head), "rounds": len(times[FUSED]), "heads": rows}


def measured_large(head: Head) -> dict[str, Any]:
    """One step of a large head: seconds, and growth of the process beyond the inputs and the weight's gradient."""
    tensors = head.tensors()
    gradients(HEADS[FUSED], QUICK_TIMED.tensors())  # loads what is loaded on first use
    begin = time.thread_time()
    grown = resident_peak(partial(gradients, HEADS[FUSED], tensors))
    return {
        "size": str(head),
        "seconds": time.thread_time() - begin,
        "extra_bytes": grown - tensors[1].nbytes,
        "logits_bytes": 4 * head.num_rows * head.num_classes,
    }


def gradients(loss: Callable[..., Tensor], tensors: Tensors) -> tuple[Tensor, ...]:
    """Those of hidden states and weight."""
    return torch.autograd.grad(loss(*tensors), tensors[:2])


def _three_products(tensors: Tensors) -> tuple[Tensor, Tensor]:
    hidden, weight = (tensor.detach() for tensor in tensors[:2])
    logits = hidden @ weight.T
    return logits @ weight, logits.T @ hidden


def _table(usual: dict[str, Any], large: dict[str, Any], error: float) -> Iterable[str]:
    yield f"\nHead {usual['size']}, float32: {usual['rounds']} rounds; fused gradients off by {error:.0e}"
    rows = [
        [row["head"], f"{row['milliseconds']:.1f}", spread(row["time_ratio"]),
         "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f}"]
        for row in usual["heads"]
    ]  # fmt: skip
    yield lined_up(["", "best ms", "time / LS", "peak MB"], rows)
    yield (
        f"\nHead {large['size']}: {large['seconds']:.1f} s, {large['extra_bytes'] / 1e9:.2f} GB beyond inputs and "
        f"weight gradient; the logits alone would be {large['logits_bytes'] / 1e9:.2f} GB"
    )
