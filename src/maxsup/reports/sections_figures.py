"""Sections of a report that are figures; those without data do not appear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxsup.reports.folders import FolderView, RunView
from maxsup.reports.page import Column, Plot, Table
from maxsup.reports.plots import differences_plot, published_plot, seeds_plot
from maxsup.reports.plots_analyses import (
    Picture,
    collapse_plot,
    corruption_picture,
    first_figures,
    numbers_table,
    picture,
)
from maxsup.reports.plots_training import sweep_plot, training_plot
from maxsup.reports.sections import Bullets, Pair, ReportBlock

Rows = list[list[Any]]


def finding_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """What was found in a few sentences, and the figure that shows it."""
    sentences = view.summary.conclusions
    return [*([Bullets(sentences)] if sentences else []), *_present(differences_plot(view.summary, prefix))]


def seed_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Every run behind the differences."""
    return _present(seeds_plot(view.summary, prefix))


def published_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Published numbers against ours."""
    return _present(published_plot(view.summary, prefix))


def training_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Curves of every setting."""
    return _per_setting(view, prefix, training_plot)


def sweep_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Numbers against strength."""
    return _per_setting(view, prefix, sweep_plot)


def calibration_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
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


def logit_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
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


def collapse_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """The collapse plane, one a setting."""
    return _per_setting(view, prefix, collapse_plot)


def projection_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Three classes on a plane, for the first seed."""
    text = (
        "Three classes on a plane",
        "Samples of the three classes that are confused most, on the plane through their templates, training images "
        "above and held-out images below. The same classes, samples and axes for all losses.",
    )
    return _of_first_seed(view, prefix, "projection", {"": text}, _projection_rows, is_paired=False)


def gradcam_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """The gallery of maps, for the first seed."""
    words = (
        "Which parts of an image speak for its class, a row a loss; bright is much. An orange frame and a name mark a "
        "wrong prediction."
    )
    return _gallery(view, prefix, "gradcam", "Grad-CAM", words)


def corruption_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
    """Errors on corrupted images: a map over all seeds, and the course by severity."""
    maps = _per_setting(view, prefix, corruption_picture)
    text = ("By severity", "Error, NLL and ECE against the severity of corruption, mean over kinds.")
    return [*maps, *_of_first_seed(view, prefix, "corruption", {"corruption": text}, _corruption_rows)]


def segmentation_blocks(view: FolderView, prefix: str) -> list[ReportBlock]:
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


FIGURES: dict[str, Callable[[FolderView, str], list[ReportBlock]]] = {
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


def _present(*plots: Plot | Picture | None) -> list[ReportBlock]:
    return [plot for plot in plots if plot is not None]


def _per_setting(
    view: FolderView, prefix: str, plot: Callable[[Sequence[RunView], str, str], Plot | Picture | None]
) -> list[ReportBlock]:
    """A figure for each model and data set; with one of them, its name goes without saying."""
    settings = view.settings
    return _present(
        *(
            plot(runs, setting if len(settings) > 1 else "", f"{prefix}{place}-")
            for place, (setting, runs) in enumerate(settings.items())
        )
    )


def _where(view: FolderView, runs: Sequence[RunView]) -> str:
    return f" ({runs[0].setting})" if len(view.settings) > 1 else ""


def _gallery(view: FolderView, prefix: str, analysis: str, title: str, words: str) -> list[ReportBlock]:
    """Pictures of single images, for the lowest seed of each setting."""
    blocks: list[ReportBlock] = []
    for place, runs in enumerate(view.settings.values()):
        seed, results, figures = first_figures(runs, analysis)
        for name, figure in figures.items():
            if "-classes" in name:
                continue
            description = f"{words} Models of seed {seed}; the images were not picked by hand."
            data = numbers_table(results, title)
            blocks.append(picture(figure, f"{prefix}{place}-{name}", f"{title}{_where(view, runs)}", description, data))
    return blocks


def _of_first_seed(
    view: FolderView,
    prefix: str,
    analysis: str,
    texts: Mapping[str, tuple[str, str]],
    rows_of: Callable[[str, Mapping[str, Mapping[str, Any]]], tuple[list[Column], Rows]],
    *,
    is_paired: bool = True,
) -> list[ReportBlock]:
    """What an analysis draws of the runs of the lowest seed."""
    blocks: list[ReportBlock] = []
    for place, runs in enumerate(view.settings.values()):
        seed, results, figures = first_figures(runs, analysis)
        plots = []
        for name, figure in figures.items():
            if name not in texts and "" not in texts:
                continue
            title, words = texts.get(name) or texts[""]
            columns, rows = rows_of(name, results)
            plots.append(
                Plot(
                    f"{prefix}{place}-{name}",
                    f"{title}{_where(view, runs)}",
                    f"{words} Models of seed {seed}.",
                    figure,
                    Table(title, columns, rows),
                )
            )
        blocks += [Pair(plots)] if is_paired and len(plots) > 1 else plots
    return blocks


def _calibration_rows(name: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Column], Rows]:
    keys = ("coverage", "risk") if name == "risk_coverage" else ("confidence", "accuracy", "count")
    part = "risk_coverage" if name == "risk_coverage" else "reliability"
    rows = [
        [label, *entry]
        for label, result in results.items()
        for entry in zip(*(result["data"][part][key] for key in keys), strict=True)
    ]
    return [Column("loss", is_number=False), *(Column(key, 5) for key in keys)], rows


def _logit_rows(name: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Column], Rows]:
    first = Column("loss", is_number=False)
    rows: Rows = []
    if name == "logits":
        for label, result in results.items():
            for kind in ("raw", "centred"):
                found = result["data"][kind]
                edges = found["edges"]
                rows += [[label, kind, *entry] for entry in zip(edges[:-1], edges[1:], found["density"], strict=True)]
        return [first, Column("kind", is_number=False), *(Column(key) for key in ("from", "to", "density"))], rows
    for label, result in results.items():
        for kind in ("right", "wrong"):
            shares = result["data"][f"confidence_{kind}"]
            rows += [[label, kind, step / (len(shares) - 1), share] for step, share in enumerate(shares)]
    return [first, Column("kind", is_number=False), Column("confidence"), Column("share up to here")], rows


def _projection_rows(name: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Column], Rows]:
    rows = [
        [label, split, class_name, *point]
        for label, result in results.items()
        for split, groups in result["data"]["points"].items()
        for class_name, group in zip(result["data"]["classes"], groups, strict=True)
        for point in group
    ]
    return [*(Column(key, is_number=False) for key in ("loss", "split", "class")), Column("x"), Column("y")], rows


def _class_rows(name: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Column], Rows]:
    rows = [
        [label, *entry]
        for label, result in results.items()
        for entry in zip(result["data"]["class_names"], result["data"]["class_iou"], strict=True)
    ]
    return [Column("loss", is_number=False), Column("class", is_number=False), Column("IoU", 4)], rows


def _corruption_rows(name: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Column], Rows]:
    keys = ("corruption", "severity", "error", "nll", "ece")
    rows = [
        [label, *(cell[key] for key in keys)] for label, result in results.items() for cell in result["data"]["cells"]
    ]
    return [
        Column("loss", is_number=False),
        Column(keys[0], is_number=False),
        *(Column(key, 5) for key in keys[1:]),
    ], rows
