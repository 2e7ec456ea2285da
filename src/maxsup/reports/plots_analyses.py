"""Figures of what analyses left in run directories."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from maxsup.core.errors import StorageError
from maxsup.figures.charts import few_ticks
from maxsup.figures.style import GREY, legend_above, panels, styled
from maxsup.reports.folders import RunView
from maxsup.reports.page import Column, Plot, Table
from maxsup.reports.plots import SOFT, WIDE, tamed
from maxsup.reports.plots_training import run_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Mapping[str, Mapping[str, Any]]

# Not black and white, which would become the ink and the paper of the page.
_ON_DARK, _ON_LIGHT = "#fff8e7", "#22102a"
_PICTURE_PIXELS = 200
_DARK_PAPER, _DARK_INK = "#1c1f25", "#e8e8e4"
# What comes of a result that does not hold what its analysis writes.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StorageError, TypeError, ValueError)
_SPLITS = ("train", "val", "test")
_WORDS = {"train": "training images", "val": "validation images", "test": "test images"}


@dataclass(frozen=True)
class Picture:
    """A figure that holds photographs, as PNG for light and for dark pages, and the data behind it."""

    name: str
    title: str
    description: str
    light: str = field(repr=False)
    dark: str = field(repr=False)
    width: int
    height: int
    data: Table = field(repr=False)
    kind: ClassVar[str] = "picture"


def first_results(runs: Sequence[RunView], name: str) -> tuple[int | None, dict[str, dict[str, Any]]]:
    """The lowest seed that has results of an analysis, and these results by label."""
    for seed in sorted({run.seed for run in runs}):
        found = {run.label: result for run in runs if run.seed == seed and (result := run.result(name)) is not None}
        if found:
            return seed, found
    return None, {}


def first_figures(
    runs: Sequence[RunView], name: str
) -> tuple[int | None, dict[str, dict[str, Any]], dict[str, Figure]]:
    """The lowest seed with results of an analysis, these results by label, and what the analysis draws of them.

    A result that cannot be drawn is left out, which its run then says.
    """
    seed, results = first_results(runs, name)
    owners = {run.label: run for run in runs if run.seed == seed}
    try:
        return seed, results, drawn(name, results) if results else {}
    except _DAMAGE as error:
        reason = str(error)
    kept = {}
    for label, result in results.items():
        try:
            drawn(name, {label: result})
            kept[label] = result
        except _DAMAGE as error:
            owners[label].leave_out(result["file"], f"it cannot be drawn ({error})")
    try:
        return seed, kept, drawn(name, kept) if kept else {}
    except _DAMAGE:
        for label, result in kept.items():
            owners[label].leave_out(result["file"], f"it cannot be drawn beside the others ({reason})")
        return seed, {}, {}


def drawn(name: str, results: Results) -> dict[str, Figure]:
    """What the analysis draws of these results, whatever their names hold."""
    from matplotlib.text import Text

    from maxsup.analysis import draw_figures

    # The names of rows of a gallery stand upright beside small pictures; many names must share a legend.
    limit = 8 if name == "gradcam" else 28 if len(results) <= 4 else 13
    labels = short_labels(list(results), limit)
    figures = draw_figures(name, {labels[label]: _without_formulas(result) for label, result in results.items()})
    for figure in figures.values():
        for text in figure.findobj(Text):
            # Grey enough for a printed column is too faint on a screen.
            if isinstance(text, Text) and text.get_color() == GREY:
                text.set_color(SOFT)
    return figures


def short_labels(labels: Sequence[str], limit: int) -> dict[str, str]:
    """A name for each label that fits a figure and that no other has.

    Example:
        >>> short_labels(["a very long name", "a very long nose", "ls"], 8)
        {'a very long name': 'a very …', 'a very long nose': 'a v… (2)', 'ls': 'ls'}
    """
    found: dict[str, str] = {}
    for label in labels:
        short, count = tamed(label, limit), 1
        while short in found.values():
            count += 1
            mark = f" ({count})"
            short = tamed(label, limit - len(mark)) + mark
        found[label] = short
    return found


def collapse_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """The plane of within and r_squared, a dot a run."""
    found: dict[str, list[tuple[RunView, float, float]]] = {}
    for run in runs:
        numbers = (run.result("collapse") or {"numbers": {}})["numbers"]
        for split in _SPLITS:
            within, r_squared = ((numbers.get(f"{split}_{key}") or {}).get("value") for key in ("within", "r_squared"))
            if within is not None and r_squared is not None:
                found.setdefault(split, []).append((run, within, r_squared))
    if not found:
        return None
    looks = run_labels(runs)
    with styled():
        figure, [row] = panels(1, len(found), height=2.5, width=WIDE if len(found) > 1 else 4.2)
        for axes, split in zip(row, found, strict=True):
            for run, within, r_squared in found[split]:
                look = looks[run.label]
                axes.plot(
                    [within],
                    [r_squared],
                    marker=look.marker,
                    linestyle="none",
                    color=look.color,
                    markersize=4.5,
                    alpha=0.8,
                )
            axes.set_title(_WORDS[split], loc="left", fontweight="bold")
            axes.set_xlabel("within (cosine distance inside a class)")
            axes.grid()
            axes.margins(0.1)
            few_ticks(axes, count=4)
            few_ticks(axes, axis="y", count=4)
        row[0].set_ylabel("r_squared (separation of classes)")
        legend_above(figure, list(looks.values()), has_lines=False)
    rows: list[list[Any]] = [
        [split, run.label, run.seed, within, r_squared]
        for split, entries in found.items()
        for run, within, r_squared in entries
    ]
    columns = [Column("split", is_number=False), Column("loss", is_number=False), Column("seed")]
    columns += [Column("within", 5), Column("r_squared", 5)]
    return Plot(
        f"{prefix}collapse",
        f"Collapse plane ({setting})" if setting else "Collapse plane",
        "A dot a run. To the left samples of a class lie close together; at the top classes are far apart for that. "
        "Upper left is collapse: good for these classes, and often bad for what features are used for next.",
        figure,
        Table("Collapse plane", columns, rows),
    )


def corruption_picture(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Picture | None:
    """Error by kind and severity of corruption, a map a loss, mean over seeds."""
    cells: dict[str, dict[tuple[str, Any], list[float]]] = {}
    for run in runs:
        for cell in (run.result("corruption") or {"data": {"cells": []}})["data"]["cells"]:
            if cell["error"] is not None:
                own = cells.setdefault(run.label, {})
                own.setdefault((cell["corruption"], cell["severity"]), []).append(100 * cell["error"])
    if not cells:
        return None
    kinds = list(dict.fromkeys(kind for own in cells.values() for kind, _ in own))
    severities = sorted({severity for own in cells.values() for _, severity in own})
    means = {
        label: [[fmean(own.get((kind, severity), [math.nan])) for severity in severities] for kind in kinds]
        for label, own in cells.items()
    }
    top = max(value for table in means.values() for line in table for value in line if math.isfinite(value))
    with styled():
        figure, [row] = panels(
            1, len(cells), height=0.9 + 0.17 * len(kinds), width=min(WIDE, 1.3 + 1.5 * len(cells)), sharey=True
        )
        for axes, (label, table) in zip(row, means.items(), strict=True):
            axes.pcolormesh(table, cmap="magma_r", vmin=0, vmax=max(top, 1e-9))
            for place, line in enumerate(table):
                for step, value in enumerate(line):
                    if math.isfinite(value):
                        color = _ON_DARK if value > 0.55 * top else _ON_LIGHT
                        axes.text(
                            step + 0.5, place + 0.5, f"{value:.0f}", ha="center", va="center", color=color, fontsize=5.5
                        )
            axes.set_title(tamed(label, 22), fontweight="bold")
            axes.set_xticks([step + 0.5 for step in range(len(severities))], [str(severity) for severity in severities])
            axes.set_xlabel("severity")
            axes.tick_params(length=0)
            axes.invert_yaxis()
            for spine in axes.spines.values():
                spine.set_visible(False)
        row[0].set_yticks(
            [place + 0.5 for place in range(len(kinds))], [tamed(kind.replace("_", " ")) for kind in kinds]
        )
    rows = [
        [label, kind, severity, value]
        for label, table in means.items()
        for kind, line in zip(kinds, table, strict=True)
        for severity, value in zip(severities, line, strict=True)
    ]
    columns = [Column("loss", is_number=False), Column("corruption", is_number=False), Column("severity")]
    where = f" ({setting})" if setting else ""
    return picture(
        figure,
        f"{prefix}corruption-map",
        f"Corrupted images{where}",
        "Errors in percent by kind and severity of corruption, mean over seeds; darker is worse, the scale of colours "
        "is the same for all losses.",
        Table("Corrupted images", [*columns, Column("error (%)")], rows),
    )


def picture(figure: Figure, name: str, title: str, description: str, data: Table) -> Picture:
    """A figure with photographs in it, drawn for light and for dark pages."""
    from matplotlib.text import Text

    light = _png(figure, "white")
    # Drawn once, everything has its place.
    figure.set_layout_engine("none")
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_bbox_patch() is None and text.get_color() in ("black", "#000000"):
            text.set_color(_DARK_INK)
    for axes in figure.axes:
        axes.tick_params(colors=_DARK_INK)
    dark = _png(figure, _DARK_PAPER)
    inches = figure.get_size_inches()
    width, height = (round(133 * float(side)) for side in inches)
    return Picture(name, title, description, light, dark, width, height, data)


def numbers_table(results: Results, caption: str) -> Table:
    """The numbers behind a figure, a row a run and number."""
    rows = [
        [label, name, entry.get("value"), entry.get("low"), entry.get("high")]
        for label, result in results.items()
        for name, entry in result["numbers"].items()
    ]
    columns = [Column("loss", is_number=False), Column("number", is_number=False)]
    return Table(caption, [*columns, *(Column(name, 6) for name in ("value", "low", "high"))], rows)


def _png(figure: Figure, paper: str) -> str:
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=_PICTURE_PIXELS, facecolor=paper, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode()


def _without_formulas(value: Any) -> Any:
    """The same result with every dollar sign escaped: names of classes are text."""
    if isinstance(value, str):
        return value.replace("$", r"\$")
    if isinstance(value, Mapping):
        return {key: _without_formulas(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_formulas(inner) for inner in value]
    return value
