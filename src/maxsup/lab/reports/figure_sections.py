"""Sections of a report that are figures; sections without data do not appear."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from maxsup.core.errors import StorageError
from maxsup.lab.figures.logits import CONFIDENCES
from maxsup.lab.figures.style import GREY, SOFT, short_text
from maxsup.lab.reports import plots
from maxsup.lab.reports.blocks import Block, Bullets, Pair, Plot, csv_text
from maxsup.lab.reports.folders import FolderView, RunView, map_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Mapping[str, Any]
"""What an analysis found about a run."""

Blocks = Sequence[Block]

# Errors that a damaged result causes while it is drawn.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StorageError, TypeError, ValueError)


class _Shown(NamedTuple):
    """What the page says about a figure of an analysis, and the columns and rows of the numbers behind it."""

    title: str
    words: str
    columns: Sequence[str]
    rows: Callable[[Result], Iterable[Sequence[Any]]]
    is_picture: bool = False


def _density_rows(result: Result) -> list[list[Any]]:
    kinds = [(kind, result["data"][kind]["edges"], result["data"][kind]["density"]) for kind in ("raw", "centred")]
    return [[kind, *bin] for kind, edges, found in kinds for bin in zip(edges, edges[1:], found, strict=False)]


def _confidence_rows(result: Result) -> list[list[Any]]:
    kinds = [(kind, result["data"][key]) for kind, key in CONFIDENCES.items()]
    return [[kind, step / (len(shares) - 1), share] for kind, shares in kinds for step, share in enumerate(shares)]


def _projection_rows(result: Result) -> list[list[Any]]:
    return [
        [split, class_name, *point]
        for split, groups in result["data"]["points"].items()
        for class_name, group in zip(result["data"]["classes"], groups, strict=True)
        for point in group
    ]


def _number_rows(result: Result) -> list[list[Any]]:
    return [[name, *(entry.get(key) for key in _INTERVAL)] for name, entry in result["numbers"].items()]


def _zipped(values: Result, *keys: str) -> Iterable[Sequence[Any]]:
    return zip(*(values[key] for key in keys), strict=True)


_BINS, _CURVE = ("confidence", "accuracy", "count"), ("coverage", "risk")
_CELLS, _INTERVAL = ("corruption", "severity", "error", "nll", "ece"), ("value", "low", "high")

# By the names that analyses give their figures.
_SHOWN = {
    "reliability": _Shown(
        "Reliability",
        "Accuracy by confidence; on the dashed line confidence equals accuracy. Below: how the predictions are spread "
        "over confidence.",
        _BINS,
        lambda result: _zipped(result["data"]["reliability"], *_BINS),
    ),
    "risk_coverage": _Shown(
        "Risk and coverage",
        "Errors among the predictions that are kept when the least confident ones are rejected; lower is better.",
        _CURVE,
        lambda result: _zipped(result["data"]["risk_coverage"], *_CURVE),
    ),
    "logits": _Shown(
        "Logits",
        "Density of all logits, as they are and after subtraction of each sample's mean, which most losses do not "
        "determine.",
        ("kind", "from", "to", "density"),
        _density_rows,
    ),
    "confidence": _Shown(
        "Confidence, right and wrong",
        "Share of predictions up to a confidence, for right and for wrong predictions; marks are the means. In the "
        "right panel, a curve further left means less confident errors.",
        ("kind", "confidence", "share up to here"),
        _confidence_rows,
    ),
    "projection": _Shown(
        "Three classes on a plane",
        "Samples of the three classes that are confused most, on the plane through their templates: training images "
        "above, held-out images below. Classes, samples and axes are the same for all losses.",
        ("split", "class", "x", "y"),
        _projection_rows,
    ),
    "corruption": _Shown(
        "By severity",
        "Error, NLL and ECE against the severity of corruption, mean over kinds.",
        _CELLS,
        lambda result: [[cell[key] for key in _CELLS] for cell in result["data"]["cells"]],
    ),
    "gradcam": _Shown(
        "Grad-CAM",
        "The parts of an image that speak for its class, one row per loss; brighter means more. An orange frame and a "
        "name mark a wrong prediction.",
        ("number", *_INTERVAL),
        _number_rows,
        is_picture=True,
    ),
    "segmentation": _Shown(
        "Masks",
        "Images, their masks, and the prediction and errors of every run (red is wrong, white has no label).",
        ("number", *_INTERVAL),
        _number_rows,
        is_picture=True,
    ),
    "segmentation-classes": _Shown(
        "Classes",
        "Intersection over union of each class; further right is better.",
        ("class", "IoU"),
        lambda result: _zipped(result["data"], "class_names", "class_iou"),
    ),
}


def finding_blocks(view: FolderView, prefix: str) -> Blocks:
    """The main findings in a few sentences, and the figure that shows them."""
    sentences = view.summary.conclusions
    return [*([Bullets(sentences)] if sentences else []), *_present(plots.differences_plot(view.summary, prefix))]


def _first_figures(
    runs: Sequence[RunView], analysis: str
) -> tuple[int | None, dict[str, dict[str, Any]], dict[str, Figure]]:
    """The lowest seed with results of an analysis, these results by label, and their figures.

    A result that cannot be drawn is left out, and its run keeps a sentence about it.
    """
    seed, owners, results = None, dict[str, RunView](), dict[str, dict[str, Any]]()
    for seed in sorted({run.seed for run in runs}):
        owners = {run.label: run for run in runs if run.seed == seed}
        results = {label: found for label, run in owners.items() if (found := run.result(analysis)) is not None}
        if results:
            break
    try:
        return seed, results, _figures(analysis, results)
    except _DAMAGE as error:
        reason = str(error)
    kept = {}
    for label, result in results.items():
        try:
            _figures(analysis, {label: result})
            kept[label] = result
        except _DAMAGE as error:
            owners[label].leave_out(result["file"], f"it cannot be drawn ({error})")
    try:
        return seed, kept, _figures(analysis, kept)
    except _DAMAGE:
        for label, result in kept.items():
            owners[label].leave_out(result["file"], f"it cannot be drawn beside the others ({reason})")
        return seed, {}, {}


def short_labels(labels: Iterable[str], limit: int) -> dict[str, str]:
    """A unique short name for each label.

    Example:
        >>> short_labels(["a very long name", "a very long nose", "ls"], 8)
        {'a very long name': 'a very …', 'a very long nose': 'a v… (2)', 'ls': 'ls'}
    """
    found: dict[str, str] = {}
    for label in labels:
        short, count = short_text(label, limit), 1
        while short in found.values():
            count += 1
            short = short_text(label, limit - len(f" ({count})")) + f" ({count})"
        found[label] = short
    return found


def _figures(analysis: str, results: Mapping[str, Result]) -> dict[str, Figure]:
    """The figures that an analysis draws of results, whatever characters their names hold."""
    if not results:
        return {}
    from matplotlib.text import Text

    from maxsup.lab.analysis import draw_figures

    # Names of rows of a gallery stand upright beside small pictures, in lines; many names must share a legend.
    limit = 18 if analysis == "gradcam" else 28 if len(results) <= 4 else 13
    labels = short_labels(results, limit)
    # A dollar sign in the name of a class does not start a formula.
    plain = {
        labels[label]: map_texts(result, lambda text: text.replace("$", r"\$")) for label, result in results.items()
    }
    figures = draw_figures(analysis, plain)
    for figure in figures.values():
        for text in figure.findobj(Text):
            # The grey of printed figures is too faint on a screen.
            if isinstance(text, Text) and text.get_color() == GREY:
                text.set_color(SOFT)
    return figures


def _present(*found: Plot | None) -> Blocks:
    return [plot for plot in found if plot is not None]


def _where(view: FolderView, runs: Sequence[RunView]) -> str:
    """Model and data, unless all runs share them."""
    return f" ({runs[0].setting})" if len(view.settings) > 1 else ""


def _per_setting(plot: Callable[[Sequence[RunView], str, str], Plot | None], view: FolderView, prefix: str) -> Blocks:
    """A figure for each pair of model and data set."""
    settings = enumerate(view.settings.values())
    return _present(*(plot(runs, _where(view, runs), f"{prefix}{place}-") for place, runs in settings))


def _of_first_seed(analysis: str, kinds: Sequence[str], view: FolderView, prefix: str) -> Blocks:
    """Figures that an analysis draws of the lowest seed of each model and data set; two kinds stand side by side."""
    blocks: list[Block] = []
    for place, runs in enumerate(view.settings.values()):
        seed, results, figures = _first_figures(runs, analysis)
        found = []
        for name, figure in figures.items():
            kind = re.sub(r"-\d+$", "", name)  # figures of other classes or images have a number
            if kind in kinds:
                title, words, columns, rows, is_picture = _SHOWN[kind]
                words += f" Models of seed {seed}{'; the images were not picked by hand' if is_picture else ''}."
                numbers = [[label, *row] for label, result in results.items() for row in rows(result)]
                data = csv_text(("loss", *columns), numbers)
                title = f"{title}{_where(view, runs)}"
                found.append(Plot(f"{prefix}{place}-{name}", title, words, figure, data, is_picture))
        blocks += [Pair(found)] if len(kinds) > 1 and len(found) > 1 else found
    return blocks


FIGURES: dict[str, Sequence[Callable[[FolderView, str], Blocks]]] = {
    "Published against measured": [lambda view, prefix: _present(plots.published_plot(view.summary, prefix))],
    "Seed by seed": [lambda view, prefix: _present(plots.seeds_plot(view.summary, prefix))],
    "Strength": [partial(_per_setting, plots.sweep_plot)],
    "Training": [partial(_per_setting, plots.training_plot)],
    "Calibration": [partial(_of_first_seed, "calibration", ("reliability", "risk_coverage"))],
    "Logits and confidence": [partial(_of_first_seed, "logits", ("logits", "confidence"))],
    "Collapse": [partial(_per_setting, plots.collapse_plot)],
    "Projections": [partial(_of_first_seed, "projection", ["projection"])],
    "Corrupted images": [
        partial(_per_setting, plots.corruption_plot),
        partial(_of_first_seed, "corruption", ["corruption"]),
    ],
    "Grad-CAM": [partial(_of_first_seed, "gradcam", ["gradcam"])],
    "Segmentation": [
        partial(_of_first_seed, "segmentation", ["segmentation"]),
        partial(_of_first_seed, "segmentation", ["segmentation-classes"]),
    ],
}
"""Sections of figures by title, in order: functions of a folder and of the prefix of ids on the page."""
