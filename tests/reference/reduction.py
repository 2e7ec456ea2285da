"""The reduction of per-sample values, as a loop."""

import math
from collections.abc import Callable, Sequence

from tests.reference.losses import Target, Weight, sample_weight


def reduced(
    per_sample: Callable[[int], float],
    targets: Sequence[Target],
    *,
    weight: Weight = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    num_items: float | None = None,
) -> float | list[float]:
    """Reduce the values of a batch.

    Args:
        per_sample: Value of sample ``i``, weights included; not asked for ignored samples.
        targets: One class index or one list of probabilities a sample.
        weight: Class weights.
        ignore_index: Index whose samples count as absent.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``.
        num_items: Denominator of the mean; by default the sum of the sample weights (indices) or the number of
            samples (probabilities).
    """
    valid = [not (isinstance(target, int) and target == ignore_index) for target in targets]
    values = [per_sample(i) if valid[i] else 0.0 for i in range(len(targets))]
    if reduction == "none":
        return values
    total = math.fsum(values)
    if reduction == "sum":
        return total
    if num_items is not None:
        return total / num_items
    denominator = math.fsum(
        sample_weight(target, weight) if isinstance(target, int) else 1.0
        for target, keep in zip(targets, valid, strict=True)
        if keep
    )
    return total / denominator if denominator != 0.0 else math.nan
