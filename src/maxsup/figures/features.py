"""Where features lie: the plane of collapse, and three classes seen from the front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.figures.charts import few_ticks, plain_grid, value
from maxsup.figures.style import COLUMN, SOFT, WIDE, Look, Results, legend_above, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[str, float, float]]
"""Label, ``within`` and ``r_squared`` of each dot."""

# Of classes, not of losses: figures of one run have three of them.
_CLASS_COLORS = ("#0072B2", "#E69F00", "#882255")
_CLASS_MARKERS = ("o", "^", "s")


def collapse_figures(results: Results) -> dict[str, Figure]:
    """The plane of training images and of held-out ones."""
    split = next(iter(results.values()))["facts"]["split"]
    # A run analysed on its training split alone has nothing beside it; its validation split stands in.
    splits = ("train", "val" if split == "train" else split)
    points = {
        f"{name} images": [
            (label, value(result, f"{name}_within"), value(result, f"{name}_r_squared"))
            for label, result in results.items()
        ]
        for name in splits
    }
    return {"collapse": collapse_figure(points, result_looks(results), width=COLUMN)}


@styled()
def collapse_figure(
    points: Mapping[str, Points], looks: Mapping[str, Look], *, width: float = WIDE, names_dots: bool = False
) -> Figure:
    """The plane of ``within`` and ``r_squared``, a panel a set of images; upper left is collapse.

    With ``names_dots`` each name stands beside its dot, where there are few, in place of a legend.
    """
    figure, [row] = panels(1, len(points), height=2.5, width=width)
    for axes, (title, dots) in zip(row, points.items(), strict=True):
        for place, (label, within, r_squared) in enumerate(sorted(dots, key=lambda dot: dot[1])):
            look = looks[label]
            size = 11 if names_dots and look.marker == "*" else 4.5
            axes.plot([within], [r_squared], markersize=size, alpha=0.8, **look.marks)
            if names_dots:
                # Above and below in turns, so that names of neighbours do not meet.
                offset = (5, -8) if place % 2 else (5, 3)
                spot = (within, r_squared)
                axes.annotate(look.label, spot, xytext=offset, textcoords="offset points", color=SOFT)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("within (cosine distance)")
        axes.margins(0.2 if names_dots else 0.1)
        plain_grid(axes, count=4 if width / len(points) > 2 else 3)
    row[0].set_ylabel("$R^2$ (separation of classes)")
    if not names_dots:
        legend_above(figure, looks.values(), has_lines=False)
    return figure


def projection_figures(results: Results) -> dict[str, Figure]:
    """Samples of three classes on a plane; one figure for each three classes."""
    by_classes: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for label, result in results.items():
        by_classes.setdefault(tuple(result["data"]["classes"]), {})[label] = result["data"]
    figures = [projection_figure(group) for group in by_classes.values()]
    return {"projection" if not place else f"projection-{place + 1}": figure for place, figure in enumerate(figures)}


@styled()
def projection_figure(planes: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A column a run, a row a split, the same axes everywhere.

    ``planes`` hold ``classes``, ``basis``, and ``points`` by split and class, two coordinates each.
    """
    from matplotlib.lines import Line2D

    first = next(iter(planes.values()))
    splits = list(first["points"])
    (left, right), (bottom, top) = (_limits(planes, axis) for axis in (0, 1))
    # Panels as high as equal units ask for, at most three to a column's width.
    side = (COLUMN - 0.45) / max(2, min(3, len(planes)))
    tall = side * min(2.0, (top - bottom) / (right - left))
    figure, grid = panels(
        len(splits),
        len(planes),
        height=0.66 + (tall + 0.06) * len(splits),
        width=0.45 + side * len(planes),
        is_square=True,
        sharex=True,
        sharey=True,
    )
    for row, split in zip(grid, splits, strict=True):
        for axes, (label, plane) in zip(row, planes.items(), strict=True):
            for group, color, marker in zip(plane["points"][split], _CLASS_COLORS, _CLASS_MARKERS, strict=True):
                across, up = [point[0] for point in group], [point[1] for point in group]
                axes.scatter(across, up, s=3.5, color=color, marker=marker, alpha=0.55, linewidths=0)
            axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top))
            few_ticks(axes, count=3)
            few_ticks(axes, axis="y", count=4)
            axes.grid()
            if row is grid[0]:
                axes.set_title(label)
        row[0].set_ylabel(split)
    figure.supxlabel(f"position on the plane of the {first['basis']} (feature units)", fontsize=7)
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", label=f"class {name}" if name.isdigit() else name)
        for name, color, marker in zip(first["classes"], _CLASS_COLORS, _CLASS_MARKERS, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, handletextpad=0.2)
    return figure


def _limits(planes: Mapping[str, Mapping[str, Any]], axis: int) -> tuple[float, float]:
    """Ends of the shortest range that holds all samples of all runs, and a little more."""

    def coordinates() -> Iterator[float]:
        for plane in planes.values():
            for groups in plane["points"].values():
                yield from (point[axis] for group in groups for point in group)

    low, high = min(coordinates()), max(coordinates())
    margin = 0.05 * max(high - low, 1e-6)
    return low - margin, high + margin
