"""Images in results: their encoding in JSON, and the Grad-CAM gallery."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxsup.core.errors import StorageError
from maxsup.lab.figures.charts import grouped
from maxsup.lab.figures.style import COLUMN, Results, panels, short_text, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_SIDE = 112
"""Largest side of a stored image; larger ones are scaled down, as a cell of the gallery is half an inch wide."""

_COLORMAP = "inferno"


def encoded(pixels: NDArray[np.uint8]) -> str:
    """Encode grey or RGB pixels ``(H, W, C)`` as a base64 PNG for JSON.

    Example:
        >>> decoded(encoded(np.full((2, 3, 1), 7, dtype=np.uint8)))[0].tolist()
        [7, 7, 7]
    """
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if max(image.size) > MAX_SIDE:
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def decoded(text: str) -> NDArray[np.uint8]:
    """Decode the pixels of :func:`encoded`, ``(H, W)`` or ``(H, W, 3)``."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(base64.b64decode(text, validate=True)), formats=["PNG"]) as image:
            if max(image.size) > MAX_SIDE:
                raise ValueError(f"an image of {image.size[0]}x{image.size[1]}")
            return np.asarray(image)
    except (ValueError, OSError) as error:
        raise StorageError(
            f"image in a result must be a small PNG; got {error}. Run maxsup analyze again.", code="damaged-file"
        ) from error


def gradcam_figures(results: Results) -> dict[str, Figure]:
    """Draw a gallery for each set of images."""
    groups = grouped(results, lambda result: (result["facts"]["dataset"], *result["data"]["indices"]))
    return {f"gradcam{ending}": gallery_figure(group) for ending, group in groups}


@styled()
def gallery_figure(results: Results) -> Figure:
    """Draw images with a row of maps per run. A frame and the predicted class mark a wrong prediction."""
    from matplotlib import cm
    from matplotlib.colors import Normalize

    first = next(iter(results.values()))["data"]["cells"]
    num_columns = len(first)
    side = (COLUMN - 0.45) / max(4, num_columns)
    figure, grid = panels(
        len(results) + 1,
        num_columns,
        height=0.7 + (side + 0.03) * (len(results) + 1),
        width=0.45 + side * num_columns,
        pad=0.015,
        is_square=True,
    )
    for axes, cell in zip(grid[0], first, strict=True):
        show_pixels(axes, decoded(cell["image"]))
        axes.set_title(_title(cell["label"], int(side / 0.055)), fontsize=6, pad=2)
    grid[0][0].set_ylabel("image")
    for row, (label, result) in zip(grid[1:], results.items(), strict=True):
        for axes, cell in zip(row, result["data"]["cells"], strict=True):
            _show_map(axes, cell, int(side / 0.05) - 2)
        row[0].set_ylabel(textwrap.fill(label, max(6, int(side / 0.055)), break_long_words=False))
    scale = cm.ScalarMappable(Normalize(0, 1), _COLORMAP)
    bar = figure.colorbar(scale, ax=[axes for row in grid for axes in row], location="bottom", aspect=60, pad=0.02)
    asked = "true" if next(iter(results.values()))["data"]["target"] == "label" else "predicted"
    bar.set_label(f"Grad-CAM of the {asked} class (share of the map's maximum)", fontsize=6)
    bar.ax.tick_params(labelsize=6)
    return figure


def show_pixels(axes: Axes, pixels: NDArray[np.uint8]) -> None:
    """Draw an image without axes."""
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _show_map(axes: Axes, cell: Mapping[str, Any], num_characters: int) -> None:
    pixels = decoded(cell["image"])
    # Grey below the map, because two colour scales could not be told apart.
    grey = pixels if pixels.ndim == 2 else pixels @ np.array([0.299, 0.587, 0.114])
    show_pixels(axes, grey.astype(np.uint8))
    heat = decoded(cell["map"]) / 255
    axes.imshow(heat, cmap=_COLORMAP, vmin=0, vmax=1, alpha=0.25 + 0.55 * heat, interpolation="bilinear")
    if cell["predicted"] != cell["label"]:
        axes.spines[:].set(visible=True, color="#D55E00", linewidth=1.2)
        name = short_text(cell["predicted"].replace("_", " "), num_characters)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
        axes.text(0.04, 0.05, f"\u2192 {name}", transform=axes.transAxes, fontsize=5, color="black", bbox=box)


def _title(name: str, num_characters: int) -> str:
    """Wrap a name to at most two lines of the width of an image."""
    whole = name.replace("_", " ")
    first, _, second = whole.partition(" ")
    if not second or len(whole) <= num_characters:
        return short_text(whole, num_characters)
    return f"{short_text(first, num_characters)}\n{short_text(second, num_characters)}"
