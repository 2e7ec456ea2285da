"""What the losses are to reach, all of it in one place."""

from __future__ import annotations

import math
from typing import NamedTuple

BOTH = ("float32", "bfloat16")


class Goal(NamedTuple):
    """A limit on one quantity of our loss, in the cases it is meant for."""

    text: str
    limit: float
    quantity: str
    forms: tuple[str, ...] = ("eager",)
    dtypes: tuple[str, ...] = BOTH
    min_classes: float = 0
    max_classes: float = math.inf
    layouts: tuple[str, ...] = ("rows",)


ANY_LAYOUT = ("rows", "dense")
ANY_FORM = ("eager", "compiled")

# Times are ratios to F.cross_entropy(label_smoothing=0.1) in eager mode, memory is in units of the logits.
LOSS_GOALS = (
    Goal("time, eager, float32, K <= 100", 1.1, "time_ratio", dtypes=("float32",), max_classes=100),
    Goal("time, eager, float32, K >= 1000", 0.85, "time_ratio", dtypes=("float32",), min_classes=1000),
    Goal("time, eager, float32, K >= 32000", 0.6, "time_ratio", dtypes=("float32",), min_classes=32000),
    Goal("time, eager, bfloat16", 1.3, "time_ratio", dtypes=("bfloat16",)),
    Goal("time, compiled, K >= 1000", 0.65, "time_ratio", forms=("compiled",), min_classes=1000),
    Goal("time, eager, dense", 0.9, "time_ratio", layouts=("dense",)),
    Goal("peak memory, float32", 1.1, "peak_memory_ratio", ANY_FORM, ("float32",), layouts=ANY_LAYOUT),
    Goal("peak memory, bfloat16", 1.5, "peak_memory_ratio", ANY_FORM, ("bfloat16",), layouts=ANY_LAYOUT),
    Goal("loss error, bfloat16", 1e-6, "loss_error", ANY_FORM, ("bfloat16",), layouts=ANY_LAYOUT),
)

# Quantity of the head -> what it is and its limit.
HEAD_GOALS = {
    "time_ratio": ("time against unfused label smoothing", 0.95),
    "peak_ratio": ("peak memory against unfused label smoothing", 0.36),
    "peak_ratio_to_naive": ("peak memory against unfused naive MaxSup", 0.28),
    "large_gigabytes": ("GB beyond inputs and weight gradient, large head", 1.2),
}

# The same of a training step of a language model.
LM_HEAD_GOALS = {
    "peak_ratio": ("growth under Trainer against the model's own loss", 0.15),
    "peak_ratio_trl": ("growth under TRL against the model's own loss", 0.15),
    "gradient_error": ("gradients of both against those of the logits", 1e-5),
}

# A head on an H100, by counted bytes and published rates.
HEAD_BOUND_GOALS = {
    "share": ("time of all other bytes against the products", 0.4),
    "milliseconds": ("bound in ms, products as measured by TRL", 60.0),
    "gibibytes": ("GiB, inputs included", 6.0),
}

# The head on a CPU against torch's own, which does not regularise.
TORCH_HEAD_GOALS = {
    "time_ratio": ("time against F.linear_cross_entropy", 1.0),
    "narrow_time_ratio": ("the same with as few rows at a time as torch", 1.0),
    "narrow_peak_ratio": ("peak memory of that against F.linear_cross_entropy", 1.0),
}

# What a z-loss may cost on the head.
Z_LOSS_GOALS = {
    "time_ratio": ("time of the head with a z-loss against without", 1.02),
    "peak_ratio": ("peak memory of the head with a z-loss against without", 1.02),
}

# What no shape and no option may cost, against torch's label smoothing.
GRID_GOALS = {
    "time_ratio": ("time", 1.1),
    "memory_ratio": ("peak memory", 1.1),
}


def goals_for(num_classes: int, dtype: str, layout: str, form: str) -> list[Goal]:
    """The goals that our loss has in one case; of two on the same quantity the stricter one."""
    strictest: dict[str, Goal] = {}
    for goal in LOSS_GOALS:
        is_meant = (
            form in goal.forms
            and dtype in goal.dtypes
            and layout in goal.layouts
            and goal.min_classes <= num_classes <= goal.max_classes
        )
        if is_meant and goal.limit < strictest.get(goal.quantity, goal._replace(limit=math.inf)).limit:
            strictest[goal.quantity] = goal
    return list(strictest.values())
