"""Numbers of single classes: accuracy along a long tail, intersection over union of masks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxsup.figures.charts import name_rows, value
from maxsup.figures.style import GREY, Look, Results, legend_above, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GROUPS = ("many", "medium", "low")
_MAX_MARKED = 20
_MAX_ROWS = 30


@styled()
def longtail_figures(results: Results) -> dict[str, Figure]:
    """Accuracy of each class from the largest to the smallest, and of the groups."""
    looks = result_looks(results)
    figure, [[classes, groups]] = panels(1, 2, height=2.1, width_ratios=[2, 1], sharey=True)
    present = [name for name in _GROUPS if any(name in result["data"]["groups"] for result in results.values())]
    for place, (label, result) in enumerate(results.items()):
        look, data = looks[label], result["data"]
        rows = sorted(zip(data["num_train"], data["accuracy"], strict=True), key=lambda row: -row[0])
        rows = [row for row in rows if row[1] is not None]
        shown = look.marks | look.stroke | ({"marker": ""} if len(rows) > _MAX_MARKED else {})
        classes.plot([row[0] for row in rows], [100 * row[1] for row in rows], **shown)
        shift = 0.5 * ((place + 0.5) / len(results) - 0.5)
        heights = [100 * value(result, f"accuracy_{name}") for name in present]
        groups.plot([spot + shift for spot in range(len(present))], heights, **look.marks)
    classes.set(xscale="log", xlabel="training images of the class", ylabel="accuracy (%)")
    classes.invert_xaxis()
    classes.grid()
    groups.set_xticks(range(len(present)), present)
    groups.set(xlim=(-0.5, len(present) - 0.5), xlabel="group (shots)")
    groups.grid(axis="y")
    legend_above(figure, looks.values())
    return {"longtail": figure}


@styled()
def class_iou_figure(
    names: Sequence[str], values: Mapping[str, Sequence[float | None]], looks: Mapping[str, Look], views: str
) -> Figure:
    """Intersection over union of each class, a mark a run; of many classes those with the largest spread.

    A value is None where a class has no pixels; ``views`` says how the images were looked at.
    """
    table = np.array([[math.nan if found is None else found for found in row] for row in values.values()], dtype=float)
    spread = np.ptp(np.nan_to_num(table), axis=0)
    chosen = sorted(np.argsort(-spread, kind="stable")[:_MAX_ROWS].tolist())
    figure, [[axes]] = panels(1, 1, height=0.8 + 0.12 * len(values) + 0.16 * len(chosen))
    for label, row in zip(values, table, strict=True):
        axes.plot(row[chosen], range(len(chosen)), markersize=4, alpha=0.85, **looks[label].marks)
    name_rows([axes], [names[place].replace("_", " ")[:24] for place in chosen])
    axes.set(xlim=(-0.02, 1.02), xlabel=f"intersection over union, {views}")
    axes.grid(axis="x")
    if len(chosen) < len(names):
        which = "those that differ most" if len(values) > 1 else "the first"
        axes.set_title(f"{len(chosen)} of {len(names)} classes, {which}", fontsize=6.5, color=GREY)
    legend_above(figure, looks.values(), has_lines=False)
    return figure
