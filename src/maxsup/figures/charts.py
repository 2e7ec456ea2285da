"""Forms that several figures share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.style import GREY, Results, panels, result_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def value(result: Mapping[str, Any], name: str) -> float:
    """A number of a result; ``nan`` where it is undefined or absent."""
    stored = result["numbers"].get(name, {}).get("value")
    return float("nan") if stored is None else float(stored)


def dumbbells(
    results: Results,
    columns: Mapping[str, tuple[str, str]],
    *,
    ends: tuple[str, str],
    scales: Mapping[str, float] | None = None,
) -> Figure:
    """A row a run, a panel a quantity, two values joined by a line: one filled, one hollow.

    Args:
        results: By label.
        columns: Title of a panel, with unit, to the names of its two numbers.
        ends: What filled and hollow mean.
        scales: Title of a panel to what its numbers are multiplied by.
    """
    from matplotlib.lines import Line2D

    looks = result_looks(results)
    figure, [row] = panels(1, len(columns), height=0.78 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, (title, (first, second)) in zip(row, columns.items(), strict=True):
        scale = (scales or {}).get(title, 1.0)
        for place, (label, result) in enumerate(results.items()):
            look = looks[label]
            pair = scale * value(result, first), scale * value(result, second)
            axes.plot(pair, (place, place), color=look.color, linewidth=1.0, zorder=1)
            axes.plot(pair[:1], [place], **look.marks)
            axes.plot(pair[1:], [place], **(look.marks | {"markerfacecolor": "white"}))
        axes.set_xlabel(title)
        axes.grid(axis="x")
        axes.margins(x=0.15)
        widen(axes)
        few_ticks(axes, count=2)
    name_rows(row, list(results))
    faces = (GREY, "white")
    handles = [
        Line2D([], [], color=GREY, marker="o", linestyle="none", markerfacecolor=face, label=end)
        for end, face in zip(ends, faces, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def flat_panels(count: int, *, per_row: int = 3, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, from left to right and then down.

    Args:
        count: Of panels.
        per_row: At most so many side by side.
        height: Of a row of panels, in inches.
        options: Of :func:`~maxsup.figures.style.panels`.
    """
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
