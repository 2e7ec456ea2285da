"""Figures of features: the collapse plane, and three classes projected on a plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.lab.figures.charts import grouped, value
from maxsup.lab.figures.style import (
    COLUMN,
    SOFT,
    WIDE,
    Look,
    Results,
    legend_above,
    panels,
    result_looks,
    spread_labels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Points = Sequence[tuple[str, float, float]]
"""Label, ``within`` and ``r_squared`` of each dot."""

# Colour and marker of the three classes of a projection.
_CLASS_LOOKS = (("#0072B2", "o"), ("#E69F00", "^"), ("#882255", "s"))

# Offsets in points of the name of a dot, in order of preference: beside it, then further above or below.
_BESIDE = tuple((side, up) for up in (3, -8, 11, -16, 19, -24, 27, -32) for side in (5, -5))


def collapse_figures(results: Results) -> dict[str, Figure]:
    """Draw the collapse plane of training images and of held-out images."""
    split = next(iter(results.values()))["facts"]["split"]
    # Results on the training split are drawn next to those on the validation split.
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
    """Draw the plane of ``within`` and ``r_squared``, one panel per set of images. Upper left is collapse.

    ``names_dots`` names each dot, if there are few, instead of a legend.
    """
    figure, [row] = panels(1, len(points), height=2.5, width=width)
    for axes, (title, dots) in zip(row, points.items(), strict=True):
        names = []
        for label, within, r_squared in sorted(dots, key=lambda dot: dot[1]):
            look = looks[label]
            size = 11 if names_dots and look.marker == "*" else 4.5
            axes.plot([within], [r_squared], markersize=size, alpha=0.8, **look.marks)
            if names_dots:
                spot = (within, r_squared)
                names.append(axes.annotate(look.label, spot, (0, 0), textcoords="offset points", color=SOFT))
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("within (cosine distance)")
        axes.margins(0.2 if names_dots else 0.1)
        axes.grid()
        axes.locator_params(nbins=4 if width / len(points) > 2 else 3)
        spread_labels(figure, names, _BESIDE, dots=[spot[1:] for spot in dots])
    row[0].set_ylabel("$R^2$ (separation of classes)")
    if not names_dots:
        legend_above(figure, looks.values(), has_lines=False)
    return figure


def projection_figures(results: Results) -> dict[str, Figure]:
    """Draw samples of three classes on a plane, one figure per choice of classes."""
    groups = grouped(results, lambda result: tuple(result["data"]["classes"]))
    return {
        f"projection{ending}": projection_figure({label: result["data"] for label, result in group.items()})
        for ending, group in groups
    }


@styled()
def projection_figure(planes: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw a column per run and a row per split, all with the same axes.

    ``planes`` hold ``classes``, ``basis``, and ``points`` by split and class, with two coordinates each.
    """
    from matplotlib.lines import Line2D

    first = next(iter(planes.values()))
    splits = list(first["points"])
    (left, right), (bottom, top) = (_limits(planes, axis) for axis in (0, 1))
    # The equal aspect determines the height of a panel; at most three panels fit the width of a column.
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
            for group, (color, marker) in zip(plane["points"][split], _CLASS_LOOKS, strict=True):
                across, up = ([point[axis] for point in group] for axis in (0, 1))
                axes.scatter(across, up, s=3.5, color=color, marker=marker, alpha=0.55, linewidths=0)
            axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top))
            axes.locator_params("x", nbins=3)
            axes.locator_params("y", nbins=4)
            axes.grid()
            if row is grid[0]:
                axes.set_title(label)
        row[0].set_ylabel(split)
    figure.supxlabel(f"position on the plane of the {first['basis']} (feature units)", fontsize=7)
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="none", label=f"class {name}" if name.isdigit() else name)
        for name, (color, marker) in zip(first["classes"], _CLASS_LOOKS, strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, handletextpad=0.2)
    return figure


def _limits(planes: Mapping[str, Mapping[str, Any]], axis: int) -> tuple[float, float]:
    """Return the range of the samples of all runs, with a margin."""
    splits = [groups for plane in planes.values() for groups in plane["points"].values()]
    spots = [point[axis] for groups in splits for group in groups for point in group]
    low, high = min(spots), max(spots)
    margin = 0.05 * max(high - low, 1e-6)
    return low - margin, high + margin
