"""Pictures of masks: image, truth, prediction and error of the runs compared."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsup.figures.classes import class_iou_figure
from maxsup.figures.gallery import decoded, show_pixels
from maxsup.figures.style import COLUMN, Results, panels, result_looks, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WRONG, _RIGHT, _IGNORED = (193, 18, 31), (226, 226, 226), (255, 255, 255)
# What data sets store where a pixel has no class.
_IGNORED_LABEL = 255
_MAX_LEGEND = 12
_GOLDEN = 0.618033988749895

# Okabe and Ito's colours first, the darkest last; from the ninth class on hues that are as far apart as can be.
_FIRST_COLORS = (
    (86, 180, 233),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (240, 228, 66),
    (0, 114, 178),
    (92, 64, 51),
)


def class_colors(num_classes: int) -> NDArray[np.uint8]:
    """A colour a class, ``(K, 3)``; the same for every figure of a data set.

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
    """Pictures of the runs side by side, and the classes they get right; other data or views have their own figures."""
    groups: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for label, result in results.items():
        data = result["data"]
        views = (data["num_views"], *data["scales"])
        alike = (data["images"], views, *data["class_names"], *data["indices"])
        groups.setdefault(alike, {})[label] = result
    figures = {}
    for place, group in enumerate(groups.values()):
        number = f"-{place + 1}" if place else ""
        first = next(iter(group.values()))["data"]
        shares = {label: result["data"]["class_iou"] for label, result in group.items()}
        figures[f"segmentation-classes{number}"] = class_iou_figure(
            first["class_names"], shares, result_looks(group), _views(first)
        )
        if first["cells"]:
            figures[f"segmentation{number}"] = masks_figure(group)
    return figures


def masks_figure(results: Results) -> Figure:
    """A row an image: the image, its mask, and for every run its prediction, from how many views, and its errors."""
    first = next(iter(results.values()))["data"]
    colors = class_colors(len(first["class_names"]))
    num_rows, num_columns = len(first["cells"]), 2 + 2 * len(results)
    sample = decoded(first["cells"][0]["truth"])
    width = 2 * COLUMN
    height = (width / num_columns) * sample.shape[0] / sample.shape[1] * num_rows
    with styled():
        figure, grid = panels(num_rows, num_columns, height=height + 0.75, width=width, pad=0.015)
        for row, place in zip(grid, range(num_rows), strict=True):
            cell = first["cells"][place]
            truth = decoded(cell["truth"])
            show_pixels(row[0], decoded(cell["image"]))
            show_pixels(row[1], _painted(truth, colors))
            for number, result in enumerate(results.values()):
                predicted = decoded(result["data"]["cells"][place]["predicted"])
                show_pixels(row[2 + 2 * number], _painted(predicted, colors))
                show_pixels(row[3 + 2 * number], _errors(truth, predicted))
            row[0].set_ylabel(f"image {first['indices'][place]}", fontsize=6)
        # A name over both pictures of its run; below, what they are.
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


def _views(data: Mapping[str, Any]) -> str:
    """How the images were looked at, in two words.

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
    pixels = np.empty((*truth.shape, 3), dtype=np.uint8)
    pixels[:] = _RIGHT
    pixels[truth != predicted] = _WRONG
    pixels[truth == _IGNORED_LABEL] = _IGNORED
    return pixels


def _patches(names: Sequence[str], colors: NDArray[np.uint8], masks: Sequence[NDArray[np.uint8]]) -> list[Any]:
    """The commonest classes of the pictures, and what an error looks like."""
    from matplotlib.patches import Patch

    counts = np.bincount(np.concatenate([mask.ravel() for mask in masks]), minlength=256)[: len(names)]
    common = np.argsort(-counts, kind="stable")[:_MAX_LEGEND].tolist()
    entries = [(names[place].replace("_", " ")[:18], colors[place]) for place in common if counts[place]]
    return [
        Patch(color=(red / 255, green / 255, blue / 255), label=label)
        for label, (red, green, blue) in [*entries, ("wrong", _WRONG)]
    ]
