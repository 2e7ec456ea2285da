"""The decomposition monitor as a loop over samples."""

import math
from collections.abc import Sequence

from tests.reference.losses import argmax, ce, mean, present, softmax, squared_log_sum


def ratio(total: float, count: float) -> float:
    return total / count if count else math.nan


def decomposition_statistics(
    rows: Sequence[Sequence[float]],
    labels: Sequence[int],
    alpha: float = 1.0,
    ignore_index: int = -100,
    margin: float = 10.0,
    z_loss: float = 0.0,
    penalty_margin: float = 0.0,
) -> dict[str, float]:
    """What the monitor reports after one update."""
    samples = [(z, y) for z, y in zip(rows, labels, strict=True) if y != ignore_index]
    wrong = [(z, y) for z, y in samples if argmax(z) != y]
    correct = [(z, y) for z, y in samples if argmax(z) == y]
    below = math.fsum(max(z[y] - z[k], 0.0) / len(present(z)) for z, y in samples for k in present(z))
    above = math.fsum(min(z[y] - z[k], 0.0) / len(present(z)) for z, y in samples for k in present(z))
    total_ce = math.fsum(ce(z, y) for z, y in samples)
    excess = [mean([max(max(z) - z[k] - penalty_margin, 0.0) for k in present(z)]) for z, _ in samples]
    total_penalty = alpha * math.fsum(excess)
    beyond = [sum(max(z) - z[k] > margin for k in present(z)) / len(present(z)) for z, _ in samples]
    return {
        "num_samples": float(len(samples)),
        "regularization": ratio(below, len(samples)),
        "error_amplification": ratio(above, len(samples)),
        "wrong_share": ratio(len(wrong), len(samples)),
        "gap_on_errors": ratio(math.fsum(max(z) - z[y] for z, y in wrong), len(wrong)),
        "confidence_correct": ratio(math.fsum(max(softmax(z)) for z, _ in correct), len(correct)),
        "confidence_wrong": ratio(math.fsum(max(softmax(z)) for z, _ in wrong), len(wrong)),
        "ce": ratio(total_ce, len(samples)),
        "penalty": ratio(total_penalty, len(samples)),
        "penalty_to_ce": ratio(total_penalty, total_ce),
        "z_loss": ratio(math.fsum(z_loss * squared_log_sum(z) for z, _ in samples), len(samples)),
        "beyond_margin": ratio(math.fsum(beyond), len(samples)),
    }
