"""Class separation in closed form against the pairwise definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.report import judged, lined_up
from maxsup.lab.bench.timing import interleaved_times, quartiles, time_ratio
from maxsup.metrics import class_separation

# Rows of the pairwise matrix that are computed; the time of all rows is extrapolated from them.
TIMED_ROWS = 200


def pairwise_rows(features: Tensor, labels: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """Sums of cosine distances from some rows to all others, by class, as in the definition."""
    units = F.normalize(features, dim=1)
    distances = 1.0 - units[:num_rows] @ units.t()
    num_classes = int(labels.max()) + 1
    by_class = distances.new_zeros(num_rows, num_classes).index_add_(1, labels, distances)
    return by_class, by_class.gather(1, labels[:num_rows].unsqueeze(1))


def run(*, is_quick: bool, rounds: int, show: Callable[[str], None]) -> dict[str, Any]:
    """Ratio of the two in every round, and of the closed form to reading the features once."""
    num_samples, width, num_classes = (4_000, 128, 50) if is_quick else (50_000, 2_048, 1_000)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    features = torch.randn(num_samples, width, generator=generator)
    rows = min(TIMED_ROWS, num_samples)
    works: dict[str, Callable[[], object]] = {
        "closed form": lambda: class_separation(features, labels),
        f"pairwise, {rows} rows": lambda: pairwise_rows(features, labels, rows),
        "one read": lambda: features.sum(),
    }
    times = interleaved_times(works, rounds=min(rounds, 7), min_seconds=0.0)
    factor = num_samples / rows
    closed, pairwise, _ = times.values()
    speed = quartiles([other * factor / own for own, other in zip(closed, pairwise, strict=True)])
    reads = time_ratio(times, "closed form", "one read")
    show(f"\nclass separation, {num_samples:,} x {width:,}, {num_classes:,} classes, one thread")
    lines = [
        ["closed form", f"{min(closed):.3f} s"],
        [f"pairwise, {rows} rows timed, all {num_samples:,} extrapolated", f"{min(pairwise) * factor:.1f} s"],
        ["closed form is faster by", str(speed)],
        ["closed form / one read of the features", str(reads)],
    ]
    show(lined_up(["", "measured"], lines))
    share = quartiles([own / (other * factor) for own, other in zip(closed, pairwise, strict=True)])
    goal = judged("class separation, time / pairwise", f"{num_samples} x {width}", share._asdict(), 0.001)
    return {"shape": [num_samples, width, num_classes], "times": times, "speed": speed._asdict(), "goals": [goal]}
