"""Figures of segmentation: images, masks, predictions and errors of compared runs, and IoU by class."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsup.lab.figures.charts import grouped, name_rows
from maxsup.lab.figures.gallery import decoded, show_pixels
from maxsup.lab.figures.style import COLUMN, GREY, Look, Results, legend_above, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WRONG, _RIGHT, _IGNORED = (193, 18, 31), (226, 226, 226), (255, 255, 255)
_IGNORED_LABEL = 255  # of pixels without a class
_MAX_LEGEND, _MAX_ROWS = 12, 30
_GOLDEN = 0.618033988749895

# Okabe and Ito's colours and a dark brown; further classes get evenly spread hues.
_FIRST_COLORS = (
    (86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167), (240, 228, 66), (0, 114, 178), (92, 64, 51),
)  # fmt: skip


def class_colors(num_classes: int) -> NDArray[np.uint8]:
    """Return a colour for each class, ``(K, 3)``, the same in every figure of a data set.

    Example:
        >>> class_colors(3).tolist()
        [[86, 180, 233], [230, 159, 0], [0, 158, 115]]
    """
    colors = list(_FIRST_COLORS[:num_classes])
    for number in range(num_classes - len(colors)):
        hue, level = (number * _GOLDEN) % 1.0, (0.55, 0.85, 0.7)[number % 3]
        red, green, blue = colorsys.hsv_to_rgb(hue, 0.75 if number % 2 else 0.5, level)
        colors.append((round(255 * red), round(255 * green), round(255 * blue)))
    return np.array(colors, dtype=np.uint8)


def segmentation_figures(results: Results) -> dict[str, Figure]:
    """Draw masks of the runs side by side, and their IoU by class, one figure per set of images and views."""

    def shown(result: Mapping[str, Any]) -> tuple[Any, ...]:
        data = result["data"]
        return data["images"], data["num_views"], *(tuple(data[key]) for key in ("scales", "class_names", "indices"))

    figures = {}
    for ending, group in grouped(results, shown):
        first = next(iter(group.values()))["data"]
        shares = {label: result["data"]["class_iou"] for label, result in group.items()}
        classes = class_iou_figure(first["class_names"], shares, result_looks(group), _views(first))
        figures[f"segmentation-classes{ending}"] = classes
        if first["cells"]:
            figures[f"segmentation{ending}"] = masks_figure(group)
    return figures


@styled()
def masks_figure(results: Results) -> Figure:
    """Draw a row per image with the image, its mask, and the prediction and errors of every run."""
    first = next(iter(results.values()))["data"]
    colors = class_colors(len(first["class_names"]))
    num_rows, num_columns = len(first["cells"]), 2 + 2 * len(results)
    sample = decoded(first["cells"][0]["truth"])
    width = 2 * COLUMN
    height = (width / num_columns) * sample.shape[0] / sample.shape[1] * num_rows
    figure, grid = panels(num_rows, num_columns, height=height + 0.75, width=width, pad=0.015)
    for place, (row, cell) in enumerate(zip(grid, first["cells"], strict=True)):
        truth = decoded(cell["truth"])
        show_pixels(row[0], decoded(cell["image"]))
        show_pixels(row[1], _painted(truth, colors))
        for number, result in enumerate(results.values()):
            predicted = decoded(result["data"]["cells"][place]["predicted"])
            show_pixels(row[2 + 2 * number], _painted(predicted, colors))
            show_pixels(row[3 + 2 * number], _errors(truth, predicted))
        row[0].set_ylabel(f"image {first['indices'][place]}", fontsize=6)
    # The run's name is above its two pictures, their content below.
    for number, title in enumerate(["image", "truth", *results]):
        grid[0][max(number, 2 * number - 2)].set_title(title, fontsize=6.5, pad=2, loc="left")
    for number in range(len(results)):
        grid[-1][2 + 2 * number].set_xlabel(_views(first), fontsize=6)
        grid[-1][3 + 2 * number].set_xlabel("errors", fontsize=6)
    figure.legend(
        handles=_patches(first["class_names"], colors, [decoded(cell["truth"]) for cell in first["cells"]]),
        loc="outside lower center",
        ncols=6,
        fontsize=6,
        handlelength=1.0,
    )
    return figure


@styled()
def class_iou_figure(
    names: Sequence[str], values: Mapping[str, Sequence[float | None]], looks: Mapping[str, Look], views: str
) -> Figure:
    """Draw the IoU of each class, one mark per run. Of many classes, draw those with the largest spread.

    A value is None if the class has no pixels. ``views`` describes the views of an image.
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


def _views(data: Mapping[str, Any]) -> str:
    """Describe the number or the scale of the views behind a prediction.

    Example:
        >>> _views({"num_views": 1, "scales": [1.0]}), _views({"num_views": 4, "scales": [0.5, 1.0]})
        ('one view', '4 views')
    """
    if data["num_views"] > 1:
        return f"{data['num_views']} views"
    [scale] = data["scales"]
    return "one view" if scale == 1 else f"scale {scale:g}"


def _painted(mask: NDArray[np.uint8], colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    pixels = colors[np.minimum(mask, len(colors) - 1)]
    pixels[mask == _IGNORED_LABEL] = _IGNORED
    return pixels


def _errors(truth: NDArray[np.uint8], predicted: NDArray[np.uint8]) -> NDArray[np.uint8]:
    pixels = np.full((*truth.shape, 3), _RIGHT, dtype=np.uint8)
    pixels[truth != predicted] = _WRONG
    pixels[truth == _IGNORED_LABEL] = _IGNORED
    return pixels


def _patches(names: Sequence[str], colors: NDArray[np.uint8], masks: Sequence[NDArray[np.uint8]]) -> list[Any]:
    """Return legend entries of the most frequent classes and of errors."""
    from matplotlib.patches import Patch

    counts = np.bincount(np.concatenate([mask.ravel() for mask in masks]), minlength=256)[: len(names)]
    common = np.argsort(-counts, kind="stable")[:_MAX_LEGEND].tolist()
    entries = [(names[place].replace("_", " ")[:18], colors[place]) for place in common if counts[place]]
    return [
        Patch(color=(red / 255, green / 255, blue / 255), label=label)
        for label, (red, green, blue) in [*entries, ("wrong", _WRONG)]
    ]
