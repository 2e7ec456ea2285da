"""Options under which Liger is compared with the plain loss; kept apart, so that naming them does not load Liger."""

from typing import Any

CASES: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "num_items": {"num_items": 20},
    "without_bias": {"has_bias": False},
    "ignore_255": {"ignore_index": 255},
    "alpha_0": {"alpha": 0.0},
    "alpha_1": {"alpha": 1.0},
    "frozen_head": {"is_head_frozen": True},
}
