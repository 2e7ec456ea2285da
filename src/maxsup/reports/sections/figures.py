"""Sections of a report that are figures; those without data do not appear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxsup.reports.blocks import Block, Bullets, Pair, Plot, csv_text
from maxsup.reports.folders import FolderView, RunView
from maxsup.reports.plots import differences_plot, published_plot, seeds_plot
from maxsup.reports.run_plots import (
    Results,
    collapse_plot,
    corruption_plot,
    first_figures,
    sweep_plot,
    training_plot,
)

Data = tuple[Sequence[str], list[list[Any]]]
"""Names of columns, and rows."""


def finding_blocks(view: FolderView, prefix: str) -> list[Block]:
    """What was found in a few sentences, and the figure that shows it."""
    sentences = view.summary.conclusions
    return [*([Bullets(sentences)] if sentences else []), *_present(differences_plot(view.summary, prefix))]


def seed_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Every run behind the differences."""
    return _present(seeds_plot(view.summary, prefix))


def published_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Published numbers against ours."""
    return _present(published_plot(view.summary, prefix))


def training_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Curves of every setting."""
    return _per_setting(view, prefix, training_plot)


def sweep_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Numbers against strength."""
    return _per_setting(view, prefix, sweep_plot)


def calibration_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Reliability and risk-coverage of the first seed."""
    texts = {
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
    return _of_first_seed(view, prefix, "calibration", texts, _calibration_rows)


def logit_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Distributions of logits and of confidence of the first seed."""
    texts = {
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
    return _of_first_seed(view, prefix, "logits", texts, _logit_rows)


def collapse_blocks(view: FolderView, prefix: str) -> list[Block]:
    """The collapse plane, one a setting."""
    return _per_setting(view, prefix, collapse_plot)


def projection_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Three classes on a plane, for the first seed."""
    text = (
        "Three classes on a plane",
        "Samples of the three classes that are confused most, on the plane through their templates, training images "
        "above and held-out images below. The same classes, samples and axes for all losses.",
    )
    return _of_first_seed(view, prefix, "projection", {"": text}, _projection_rows, is_paired=False)


def gradcam_blocks(view: FolderView, prefix: str) -> list[Block]:
    """The gallery of maps, for the first seed."""
    words = (
        "Which parts of an image speak for its class, a row a loss; bright is much. An orange frame and a name mark a "
        "wrong prediction."
    )
    return _gallery(view, prefix, "gradcam", "Grad-CAM", words)


def corruption_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Errors on corrupted images: a map over all seeds, and the course by severity."""
    maps = _per_setting(view, prefix, corruption_plot)
    text = ("By severity", "Error, NLL and ECE against the severity of corruption, mean over kinds.")
    return [*maps, *_of_first_seed(view, prefix, "corruption", {"corruption": text}, _corruption_rows)]


def segmentation_blocks(view: FolderView, prefix: str) -> list[Block]:
    """Masks of the first seed, and the classes they get right."""
    words = (
        "Images, their masks, and for every run what was predicted and where that is wrong (red; white is not "
        "labelled)."
    )
    text = ("Classes", "Intersection over union of each class; further right is better.")
    return [
        *_gallery(view, prefix, "segmentation", "Masks", words),
        *_of_first_seed(view, prefix, "segmentation", {"segmentation-classes": text}, _class_rows),
    ]


FIGURES: dict[str, Callable[[FolderView, str], list[Block]]] = {
    "Published against measured": published_blocks,
    "Seed by seed": seed_blocks,
    "Strength": sweep_blocks,
    "Training": training_blocks,
    "Calibration": calibration_blocks,
    "Logits and confidence": logit_blocks,
    "Collapse": collapse_blocks,
    "Projections": projection_blocks,
    "Corrupted images": corruption_blocks,
    "Grad-CAM": gradcam_blocks,
    "Segmentation": segmentation_blocks,
}
"""Sections of figures by title, in the order they appear."""


def _present(*plots: Plot | None) -> list[Block]:
    return [plot for plot in plots if plot is not None]


def _per_setting(
    view: FolderView, prefix: str, plot: Callable[[Sequence[RunView], str, str], Plot | None]
) -> list[Block]:
    """A figure for each model and data set; with one of them, its name goes without saying."""
    settings = view.settings
    return _present(
        *(
            plot(runs, f" ({setting})" if len(settings) > 1 else "", f"{prefix}{place}-")
            for place, (setting, runs) in enumerate(settings.items())
        )
    )


def _where(view: FolderView, runs: Sequence[RunView]) -> str:
    return f" ({runs[0].setting})" if len(view.settings) > 1 else ""


def _gallery(view: FolderView, prefix: str, analysis: str, title: str, words: str) -> list[Block]:
    """Pictures of single images, for the lowest seed of each setting."""
    blocks: list[Block] = []
    for place, runs in enumerate(view.settings.values()):
        seed, results, figures = first_figures(runs, analysis)
        for name, figure in figures.items():
            if "-classes" in name:
                continue
            description = f"{words} Models of seed {seed}; the images were not picked by hand."
            plot = Plot(
                f"{prefix}{place}-{name}",
                f"{title}{_where(view, runs)}",
                description,
                figure,
                csv_text(*_number_rows(results)),
                is_picture=True,
            )
            blocks.append(plot)
    return blocks


def _of_first_seed(
    view: FolderView,
    prefix: str,
    analysis: str,
    texts: Mapping[str, tuple[str, str]],
    rows_of: Callable[[str, Results], Data],
    *,
    is_paired: bool = True,
) -> list[Block]:
    """What an analysis draws of the runs of the lowest seed."""
    blocks: list[Block] = []
    for place, runs in enumerate(view.settings.values()):
        seed, results, figures = first_figures(runs, analysis)
        plots = []
        for name, figure in figures.items():
            if name not in texts and "" not in texts:
                continue
            title, words = texts.get(name) or texts[""]
            plots.append(
                Plot(
                    f"{prefix}{place}-{name}",
                    f"{title}{_where(view, runs)}",
                    f"{words} Models of seed {seed}.",
                    figure,
                    csv_text(*rows_of(name, results)),
                )
            )
        blocks += [Pair(plots)] if is_paired and len(plots) > 1 else plots
    return blocks


def _number_rows(results: Results) -> Data:
    rows = [
        [label, name, *(entry.get(key) for key in ("value", "low", "high"))]
        for label, result in results.items()
        for name, entry in result["numbers"].items()
    ]
    return ("loss", "number", "value", "low", "high"), rows


def _calibration_rows(name: str, results: Results) -> Data:
    part = name if name == "risk_coverage" else "reliability"
    keys = ("coverage", "risk") if name == "risk_coverage" else ("confidence", "accuracy", "count")
    rows = [
        [label, *entry]
        for label, result in results.items()
        for entry in zip(*(result["data"][part][key] for key in keys), strict=True)
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
