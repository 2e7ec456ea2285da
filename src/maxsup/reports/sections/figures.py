"""Sections of a report that are figures; those without data do not appear."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxsup.reports.blocks import Block, Bullets, Pair, Plot, csv_text
from maxsup.reports.folders import FolderView, RunView
from maxsup.reports.plots import differences_plot, published_plot, seeds_plot
from maxsup.reports.run_plots import Results, collapse_plot, corruption_plot, first_figures, sweep_plot, training_plot

Data = tuple[Sequence[str], list[list[Any]]]
"""Names of columns, and rows."""

Make = Callable[[FolderView, str], list[Block]]
"""From a folder, and what ids on the page start with, to blocks."""


def finding_blocks(view: FolderView, prefix: str) -> list[Block]:
    """What was found in a few sentences, and the figure that shows it."""
    sentences = view.summary.conclusions
    return [*([Bullets(sentences)] if sentences else []), *_present(differences_plot(view.summary, prefix))]


def figure_blocks(title: str, view: FolderView, prefix: str) -> list[Block]:
    """All figures of a section."""
    return [block for make in FIGURES[title] for block in make(view, prefix)]


def _present(*plots: Plot | None) -> list[Block]:
    return [plot for plot in plots if plot is not None]


def _per_setting(plot: Callable[[Sequence[RunView], str, str], Plot | None]) -> Make:
    """A figure for each model and data set."""

    def make(view: FolderView, prefix: str) -> list[Block]:
        settings = enumerate(view.settings.values())
        return _present(*(plot(runs, _where(view, runs), f"{prefix}{place}-") for place, runs in settings))

    return make


def _of_first_seed(
    analysis: str,
    rows_of: Callable[[str, Results], Data],
    texts: Mapping[str, tuple[str, str]],
    *,
    is_picture: bool = False,
) -> Make:
    """What an analysis draws of the lowest seed of each model and data set.

    Args:
        analysis: Its name.
        rows_of: Gives the numbers behind a figure.
        texts: Title and words of each figure that is shown; two of them stand side by side.
        is_picture: Whether figures hold single images.
    """
    choice = "; the images were not picked by hand" if is_picture else ""

    def make(view: FolderView, prefix: str) -> list[Block]:
        blocks: list[Block] = []
        for place, runs in enumerate(view.settings.values()):
            seed, results, figures = first_figures(runs, analysis)
            plots = []
            for name, figure in figures.items():
                kind = re.sub(r"-\d+$", "", name)  # other classes or images have figures of their own, with a number
                if kind in texts:
                    title, words = texts[kind]
                    title, words = f"{title}{_where(view, runs)}", f"{words} Models of seed {seed}{choice}."
                    data = csv_text(*rows_of(name, results))
                    plots.append(Plot(f"{prefix}{place}-{name}", title, words, figure, data, is_picture))
            blocks += [Pair(plots)] if len(texts) > 1 and len(plots) > 1 else plots
        return blocks

    return make


def _where(view: FolderView, runs: Sequence[RunView]) -> str:
    """Model and data; where all runs share them, they go without saying."""
    return f" ({runs[0].setting})" if len(view.settings) > 1 else ""


def _number_rows(name: str, results: Results) -> Data:
    rows = [
        [label, name, *(entry.get(key) for key in ("value", "low", "high"))]
        for label, result in results.items()
        for name, entry in result["numbers"].items()
    ]
    return ("loss", "number", "value", "low", "high"), rows


def _calibration_rows(name: str, results: Results) -> Data:
    keys = ("coverage", "risk") if name == "risk_coverage" else ("confidence", "accuracy", "count")
    rows = [
        [label, *entry]
        for label, result in results.items()
        for entry in zip(*(result["data"][name][key] for key in keys), strict=True)
    ]
    return ("loss", *keys), rows


def _logit_rows(name: str, results: Results) -> Data:
    rows: list[list[Any]] = []
    for label, result in results.items():
        data = result["data"]
        if name == "logits":
            for kind in ("raw", "centred"):
                edges = data[kind]["edges"]
                rows += [[label, kind, *bin] for bin in zip(edges, edges[1:], data[kind]["density"], strict=False)]
        else:
            for kind in ("right", "wrong"):
                shares = data[f"confidence_{kind}"]
                rows += [[label, kind, step / (len(shares) - 1), share] for step, share in enumerate(shares)]
    columns = ("from", "to", "density") if name == "logits" else ("confidence", "share up to here")
    return ("loss", "kind", *columns), rows


def _projection_rows(name: str, results: Results) -> Data:
    rows = [
        [label, split, class_name, *point]
        for label, result in results.items()
        for split, groups in result["data"]["points"].items()
        for class_name, group in zip(result["data"]["classes"], groups, strict=True)
        for point in group
    ]
    return ("loss", "split", "class", "x", "y"), rows


def _class_rows(name: str, results: Results) -> Data:
    rows = [
        [label, *entry]
        for label, result in results.items()
        for entry in zip(result["data"]["class_names"], result["data"]["class_iou"], strict=True)
    ]
    return ("loss", "class", "IoU"), rows


def _corruption_rows(name: str, results: Results) -> Data:
    keys = ("corruption", "severity", "error", "nll", "ece")
    cells = [(label, cell) for label, result in results.items() for cell in result["data"]["cells"]]
    return ("loss", *keys), [[label, *(cell[key] for key in keys)] for label, cell in cells]


_CALIBRATION = {
    "reliability": (
        "Reliability",
        "Accuracy of predictions of the same confidence; on the dashed line confidence can be taken at its word. "
        "Below: how the predictions are spread over confidence.",
    ),
    "risk_coverage": (
        "Risk and coverage",
        "Errors among the predictions that are kept when the least confident ones are refused; lower is better.",
    ),
}
_LOGITS = {
    "logits": (
        "Logits",
        "Density of all logits, as they are and with the mean of each sample taken away, which most losses leave "
        "to chance.",
    ),
    "confidence": (
        "Confidence, right and wrong",
        "Share of predictions up to a confidence, where the prediction is right and where it is wrong; marks are "
        "the means. Curves further left on the right-hand side mean humbler errors.",
    ),
}
_PROJECTION = (
    "Three classes on a plane",
    "Samples of the three classes that are confused most, on the plane through their templates, training images "
    "above and held-out images below. The same classes, samples and axes for all losses.",
)
_SEVERITY = ("By severity", "Error, NLL and ECE against the severity of corruption, mean over kinds.")
_GRADCAM = (
    "Grad-CAM",
    "Which parts of an image speak for its class, a row a loss; bright is much. An orange frame and a name mark a "
    "wrong prediction.",
)
_MASKS = (
    "Masks",
    "Images, their masks, and for every run what was predicted and where that is wrong (red; white is not labelled).",
)
_CLASSES = ("Classes", "Intersection over union of each class; further right is better.")

FIGURES: dict[str, Sequence[Make]] = {
    "Published against measured": [lambda view, prefix: _present(published_plot(view.summary, prefix))],
    "Seed by seed": [lambda view, prefix: _present(seeds_plot(view.summary, prefix))],
    "Strength": [_per_setting(sweep_plot)],
    "Training": [_per_setting(training_plot)],
    "Calibration": [_of_first_seed("calibration", _calibration_rows, _CALIBRATION)],
    "Logits and confidence": [_of_first_seed("logits", _logit_rows, _LOGITS)],
    "Collapse": [_per_setting(collapse_plot)],
    "Projections": [_of_first_seed("projection", _projection_rows, {"projection": _PROJECTION})],
    "Corrupted images": [
        _per_setting(corruption_plot),
        _of_first_seed("corruption", _corruption_rows, {"corruption": _SEVERITY}),
    ],
    "Grad-CAM": [_of_first_seed("gradcam", _number_rows, {"gradcam": _GRADCAM}, is_picture=True)],
    "Segmentation": [
        _of_first_seed("segmentation", _number_rows, {"segmentation": _MASKS}, is_picture=True),
        _of_first_seed("segmentation", _class_rows, {"segmentation-classes": _CLASSES}),
    ],
}
"""Sections of figures by title, in the order they appear."""
