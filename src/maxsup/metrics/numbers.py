"""Named numbers as results and JSON hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DIRECTIONS = ("higher", "lower", "none")


def number(
    value: float, direction: str = "none", unit: str = "", interval: Sequence[float] | None = None
) -> dict[str, Any]:
    """One named number of a result.

    Args:
        value: The number; what is not finite is stored as null.
        direction: Which way is better: ``higher``, ``lower``, or ``none`` where neither is.
        unit: What it is counted in; empty for a share or a plain number.
        interval: Its 95 % bootstrap bounds.

    Example:
        >>> number(0.9, "higher")
        {'value': 0.9, 'direction': 'higher', 'unit': ''}
    """
    assert direction in DIRECTIONS
    entry: dict[str, Any] = {"value": float(value), "direction": direction, "unit": unit}
    return entry if interval is None else entry | {"low": float(interval[0]), "high": float(interval[1])}
