"""How runs were trained: curves over epochs, and final numbers against the strength of a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from maxsup.figures.charts import flat_panels, plain_grid
from maxsup.figures.style import WIDE, Look, legend_above, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[tuple[int, float, float, float]]
"""Epoch from 1, mean, lowest and highest value of all seeds."""

_PER_ROW = 3


@styled()
def training_figure(curves: Mapping[str, Mapping[str, Curve]], looks: Mapping[str, Look]) -> Figure:
    """A panel a quantity: the mean over seeds of each label, and a band from the lowest to the highest."""
    # The last row has room for the epochs, which all panels share.
    figure, grid = flat_panels(len(curves), per_row=_PER_ROW, height=1.9, width=WIDE, sharex=True)
    for axes, (title, found) in zip(grid, curves.items(), strict=True):
        for label, curve in found.items():
            epochs, means, lows, highs = (list(column) for column in zip(*curve, strict=True))
            axes.fill_between(epochs, lows, highs, color=looks[label].color, alpha=0.13, linewidth=0)
            shown = looks[label].marks if len(epochs) == 1 else looks[label].stroke
            axes.plot(epochs, means, linewidth=1.1, **shown)
        axes.set_title(title, loc="left", fontweight="bold")
        plain_grid(axes)
    for axes in grid[-_PER_ROW:]:
        axes.set_xlabel("epoch")
        axes.tick_params(labelbottom=True)
    legend_above(figure, looks.values())
    return figure


@styled()
def sweep_figure(
    metrics: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]], looks: Mapping[str, Look]
) -> Figure:
    """A panel a metric: values of all runs by loss and strength as dots, and lines through their means."""
    figure, grid = flat_panels(len(metrics), per_row=len(metrics), height=2.0, width=WIDE)
    for axes, (title, found) in zip(grid, metrics.items(), strict=True):
        for loss, values in found.items():
            axes.plot(list(values), [fmean(dots) for dots in values.values()], **looks[loss].stroke)
            for strength, dots in values.items():
                axes.plot([strength] * len(dots), dots, markersize=3.2, alpha=0.65, **looks[loss].marks)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("strength in the last epoch")
        axes.margins(x=0.08)
        plain_grid(axes)
    legend_above(figure, looks.values())
    return figure
