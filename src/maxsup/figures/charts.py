"""Forms that several figures share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.style import Look, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def value(result: Mapping[str, Any], name: str) -> float:
    """A number of a result; ``nan`` where it is undefined or absent."""
    stored = result["numbers"].get(name, {}).get("value")
    return math.nan if stored is None else float(stored)


def draw_pair(axes: Axes, place: int, pair: Sequence[float], look: Look) -> None:
    """Two values of a run joined by a line in its row: the first filled, the second hollow."""
    axes.plot(pair, [place, place], color=look.color, linewidth=1.0, zorder=1)
    axes.plot(pair[:1], [place], **look.marks)
    axes.plot(pair[1:], [place], **(look.marks | {"markerfacecolor": "white"}))


def flat_panels(count: int, *, per_row: int = 3, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, from left to right and then down; ``height`` is that of a row of them."""
    num_rows = math.ceil(count / per_row)
    figure, grid = panels(num_rows, min(per_row, count), height=height * num_rows, **options)
    flat = [axes for row in grid for axes in row]
    for axes in flat[count:]:
        axes.set_visible(False)
    return figure, flat[:count]


def name_rows(row: Sequence[Axes], names: Sequence[str]) -> None:
    """Names from top to bottom on the first of panels that share their vertical axis; ticks on none."""
    row[0].set_yticks(range(len(names)), list(names))
    row[0].set_ylim(len(names) - 0.5, -0.5)
    for axes in row:
        axes.tick_params(axis="y", length=0)


def plain_grid(axes: Axes, count: int = 4) -> None:
    """Lines behind the data, and few ticks on both sides."""
    axes.grid()
    few_ticks(axes, count=count)
    few_ticks(axes, axis="y", count=count)


def widen(axes: Axes, share: float = 0.2) -> None:
    """Show at least so much of the values' size: what differs in the fourth digit should not look far apart."""
    low, high = axes.get_xlim()
    missing = share * max(abs(low), abs(high)) - (high - low)
    if missing > 0:
        axes.set_xlim(low - missing / 2, high + missing / 2)


def few_ticks(axes: Axes, *, axis: str = "x", count: int = 3) -> None:
    """So few ticks that their numbers cannot meet on a narrow panel."""
    from matplotlib.ticker import MaxNLocator

    target: Any = axes.xaxis if axis == "x" else axes.yaxis
    target.set_major_locator(MaxNLocator(count, min_n_ticks=2, steps=[1, 2, 2.5, 5, 10]))


def thinned(points: Sequence[float], count: int) -> list[int]:
    """Positions of at most ``count`` points, evenly spread, the last one among them.

    Example:
        >>> thinned(range(10), 4)
        [0, 3, 6, 9]
    """
    if len(points) <= count:
        return list(range(len(points)))
    return [round(step * (len(points) - 1) / (count - 1)) for step in range(count)]
