"""Parts shared by several figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.lab.figures.style import Results, panels, result_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def value(result: Mapping[str, Any], name: str) -> float:
    """Return a number of a result, ``nan`` if it is undefined or missing."""
    stored = result["numbers"].get(name, {}).get("value")
    return math.nan if stored is None else float(stored)


def flat_panels(count: int, *, per_row: int = 3, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Create a figure of ``count`` panels, row by row. ``height`` is that of one row."""
    num_rows = math.ceil(count / per_row)
    figure, grid = panels(num_rows, min(per_row, count), height=height * num_rows, **options)
    flat = [axes for row in grid for axes in row]
    for axes in flat[count:]:
        axes.set_visible(False)
    return figure, flat[:count]


def name_rows(row: Sequence[Axes], names: Sequence[str]) -> None:
    """Label the rows of panels that share their vertical axis, from top to bottom, without ticks."""
    row[0].set_yticks(range(len(names)), list(names))
    row[0].set_ylim(len(names) - 0.5, -0.5)
    for axes in row:
        axes.tick_params(axis="y", length=0)


def draw_runs(axes: Axes, results: Results, names: Sequence[str], factor: float) -> None:
    """Draw a row per run with one number, or with two joined by a line, the first filled and the second hollow."""
    for place, (label, look) in enumerate(result_looks(results).items()):
        row = [factor * value(results[label], name) for name in names]
        if len(row) > 1:
            axes.plot(row, [place, place], color=look.color, linewidth=1.0, zorder=1)
        for number, marks in zip(row, (look.filled_marks, look.hollow_marks), strict=False):
            axes.plot([number], [place], **marks)
    axes.grid(axis="x")


def widen(axes: Axes) -> None:
    """Widen the axis to a fifth of its largest value, with two ticks, so that a small difference looks small."""
    low, high = axes.get_xlim()
    missing = 0.2 * max(abs(low), abs(high)) - (high - low)
    if missing > 0:
        axes.set_xlim(low - missing / 2, high + missing / 2)
    axes.locator_params("x", nbins=2)


def grouped(results: Results, key: Callable[[Mapping[str, Any]], Hashable]) -> list[tuple[str, Results]]:
    """Group results by key, each group with a suffix for the names of its figures: empty, ``-2``, ``-3``."""
    groups: dict[Hashable, dict[str, Mapping[str, Any]]] = {}
    for label, result in results.items():
        groups.setdefault(key(result), {})[label] = result
    return [(f"-{number}" if number > 1 else "", group) for number, group in enumerate(groups.values(), start=1)]


def thinned(points: Sequence[float], count: int) -> list[int]:
    """Return the indices of at most ``count`` evenly spread points, the last one included.

    Example:
        >>> thinned(range(10), 4)
        [0, 3, 6, 9]
    """
    if len(points) <= count:
        return list(range(len(points)))
    return [round(step * (len(points) - 1) / (count - 1)) for step in range(count)]
