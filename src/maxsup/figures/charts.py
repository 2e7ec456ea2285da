"""Forms that several figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.style import GREY, panels, run_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def value(result: Mapping[str, Any], name: str) -> float:
    """A number of a result; ``nan`` where it is undefined or absent."""
    stored = result["numbers"].get(name, {}).get("value")
    return float("nan") if stored is None else float(stored)


def dumbbells(
    results: Mapping[str, Mapping[str, Any]],
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

    looks = run_looks(results)
    figure, [row] = panels(1, len(columns), height=0.78 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, (title, (first, second)) in zip(row, columns.items(), strict=True):
        scale = (scales or {}).get(title, 1.0)
        for place, (label, result) in enumerate(results.items()):
            look = looks[label]
            pair = scale * value(result, first), scale * value(result, second)
            axes.plot(pair, (place, place), color=look.color, linewidth=1.0, zorder=1)
            axes.plot(pair[:1], [place], marker=look.marker, linestyle="none", color=look.color)
            axes.plot(
                pair[1:], [place], marker=look.marker, linestyle="none", color=look.color, markerfacecolor="white"
            )
        axes.set_xlabel(title)
        axes.grid(axis="x")
        axes.margins(x=0.15)
        widen(axes)
        few_ticks(axes, count=2)
    row[0].set_yticks(range(len(results)), list(results))
    row[0].set_ylim(len(results) - 0.5, -0.5)
    for axes in row:
        axes.tick_params(axis="y", length=0)
    faces = (GREY, "white")
    handles = [
        Line2D([], [], color=GREY, marker="o", linestyle="none", markerfacecolor=face, label=end)
        for end, face in zip(ends, faces, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


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
