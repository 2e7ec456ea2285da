"""Plots of what runs left: curves of every epoch, sweeps over strengths, and results of analyses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import StorageError
from maxsup.figures.corruption import corruption_map, mean_errors
from maxsup.figures.features import collapse_figure
from maxsup.figures.style import GREY, SOFT, WIDE, Look, run_looks, short_text
from maxsup.figures.training import sweep_figure, training_figure
from maxsup.metrics.facts import fact
from maxsup.reports.blocks import Plot, csv_text
from maxsup.reports.folders import RunView, with_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = Mapping[str, Any]
Results = Mapping[str, Mapping[str, Any]]

_CURVES: dict[str, tuple[float, Callable[[Line], Any]]] = {
    "training loss": (1.0, lambda line: line["train"]["loss"]),
    "validation accuracy (%)": (100.0, lambda line: line["val"]["accuracy"]),
    "validation NLL (nats)": (1.0, lambda line: line["val"]["nll"]),
    "LS term 1: regularisation": (1.0, lambda line: line["decomposition"]["regularization"]),
    "LS term 2: error amplification": (1.0, lambda line: line["decomposition"]["error_amplification"]),
    "strength (alpha, beta, ...)": (1.0, lambda line: line["alpha"]),
}
_SWEPT = ("accuracy", "nll", "ece")
# What comes of a result that does not hold what its analysis writes.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StorageError, TypeError, ValueError)
_SPLITS = {"train": "training images", "val": "validation images", "test": "test images"}


def training_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """Curves of all runs of one setting: the mean over seeds, and a band from the lowest to the highest."""
    curves = {title: found for title in _CURVES if (found := _curves(runs, title))}
    if not curves:
        return None
    rows: list[list[Any]] = [
        [title, label, *point] for title, found in curves.items() for label, curve in found.items() for point in curve
    ]
    terms = (
        " The two terms of label smoothing are measured on training batches whatever the loss: how far the true logit "
        "is above the smaller ones, and how far below the larger ones (0 where the prediction is right), over the "
        "number of classes and before the strength."
    )
    has_terms = any(title.startswith("LS term") for title in curves)
    return Plot(
        f"{prefix}training",
        f"Training curves{setting}",
        "Mean over seeds, with a band from the lowest to the highest. Training losses of different objectives cannot "
        f"be compared with one another; validation numbers can.{terms if has_terms else ''}",
        training_figure(curves, label_looks(runs)),
        csv_text(["curve", "loss", "epoch", "mean", "lowest", "highest"], rows),
    )


def sweep_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """Test numbers against strength, for every loss that was trained with several."""
    tests: dict[str, dict[float, list[Mapping[str, Any]]]] = {}
    for run in runs:
        strength = run.epochs[-1].get("alpha") if run.epochs else None
        if run.test and isinstance(strength, int | float) and run.loss != "ce":
            tests.setdefault(run.loss, {}).setdefault(round(float(strength), 6), []).append(run.test)
    tests = {loss: dict(sorted(found.items())) for loss, found in tests.items() if len(found) > 1}
    if not tests:
        return None
    metrics: dict[str, dict[str, dict[float, list[float]]]] = {}
    for name in _SWEPT:
        title, factor = fact(name).axis, fact(name).factor
        for loss, found in tests.items():
            dots = {
                strength: [factor * test[name] for test in own if test.get(name) is not None]
                for strength, own in found.items()
            }
            metrics.setdefault(title, {})[loss] = {strength: values for strength, values in dots.items() if values}
    rows: list[list[Any]] = [
        [title, loss, strength, value]
        for title, by_loss in metrics.items()
        for loss, values in by_loss.items()
        for strength, own in values.items()
        for value in own
    ]
    return Plot(
        f"{prefix}sweep",
        f"Strength{setting}",
        "Test numbers against the strength of the loss: a dot a run, lines through the means.",
        sweep_figure(metrics, run_looks({loss: loss for loss in tests})),
        csv_text(["metric", "loss", "strength", "value"], rows),
    )


def collapse_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """The plane of within and r_squared, a dot a run."""
    points: dict[str, list[tuple[str, float, float]]] = {}
    rows: list[list[Any]] = []
    for split, words in _SPLITS.items():
        for run in runs:
            numbers = (run.result("collapse") or {"numbers": {}})["numbers"]
            within, r_squared = ((numbers.get(f"{split}_{key}") or {}).get("value") for key in ("within", "r_squared"))
            if within is not None and r_squared is not None:
                points.setdefault(words, []).append((run.label, within, r_squared))
                rows.append([split, run.label, run.seed, within, r_squared])
    if not points:
        return None
    return Plot(
        f"{prefix}collapse",
        f"Collapse plane{setting}",
        "A dot a run. To the left samples of a class lie close together; at the top classes are far apart for that. "
        "Upper left is collapse: good for these classes, and often bad for what features are used for next.",
        collapse_figure(points, label_looks(runs), width=WIDE if len(points) > 1 else 4.2),
        csv_text(["split", "loss", "seed", "within", "r_squared"], rows),
    )


def corruption_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """Error by kind and severity of corruption, a map a loss, mean over seeds."""
    found = [(run.label, result["data"]["cells"]) for run in runs if (result := run.result("corruption"))]
    errors = mean_errors(found)
    if not errors:
        return None
    return Plot(
        f"{prefix}corruption-map",
        f"Corrupted images{setting}",
        "Errors in percent by kind and severity of corruption, mean over seeds; darker is worse, the scale of colours "
        "is the same for all losses.",
        corruption_map(errors),
        csv_text(
            ["loss", "corruption", "severity", "error (%)"],
            [[label, *cell, error] for label, own in errors.items() for cell, error in own.items()],
        ),
        is_picture=True,
    )


def first_figures(
    runs: Sequence[RunView], name: str
) -> tuple[int | None, dict[str, dict[str, Any]], dict[str, Figure]]:
    """The lowest seed with results of an analysis, these results by label, and what the analysis draws of them.

    A result that cannot be drawn is left out, which its run then says.
    """
    seed, results = _first_results(runs, name)
    owners = {run.label: run for run in runs if run.seed == seed}
    try:
        return seed, results, analysis_figures(name, results) if results else {}
    except _DAMAGE as error:
        reason = str(error)
    kept = {}
    for label, result in results.items():
        try:
            analysis_figures(name, {label: result})
            kept[label] = result
        except _DAMAGE as error:
            owners[label].leave_out(result["file"], f"it cannot be drawn ({error})")
    try:
        return seed, kept, analysis_figures(name, kept) if kept else {}
    except _DAMAGE:
        for label, result in kept.items():
            owners[label].leave_out(result["file"], f"it cannot be drawn beside the others ({reason})")
        return seed, {}, {}


def analysis_figures(name: str, results: Results) -> dict[str, Figure]:
    """What the analysis draws of these results, whatever their names hold."""
    from matplotlib.text import Text

    from maxsup.analysis import draw_figures

    # The names of rows of a gallery stand upright beside small pictures; many names must share a legend.
    limit = 8 if name == "gradcam" else 28 if len(results) <= 4 else 13
    labels = short_labels(list(results), limit)
    # Names of classes are text, and a dollar sign in one begins no formula.
    plain = {
        labels[label]: with_texts(result, lambda text: text.replace("$", r"\$")) for label, result in results.items()
    }
    figures = draw_figures(name, plain)
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
        short, count = short_text(label, limit), 1
        while short in found.values():
            count += 1
            mark = f" ({count})"
            short = short_text(label, limit - len(mark)) + mark
        found[label] = short
    return found


def label_looks(runs: Sequence[RunView]) -> dict[str, Look]:
    """A look for every label, in the order of the runs."""
    return run_looks({run.label: run.loss for run in runs})


def _first_results(runs: Sequence[RunView], name: str) -> tuple[int | None, dict[str, dict[str, Any]]]:
    for seed in sorted({run.seed for run in runs}):
        found = {run.label: result for run in runs if run.seed == seed and (result := run.result(name)) is not None}
        if found:
            return seed, found
    return None, {}


def _curves(runs: Sequence[RunView], title: str) -> dict[str, list[tuple[int, float, float, float]]]:
    """By label: epoch, mean, lowest and highest value of all seeds; empty where nothing was logged."""
    factor, get = _CURVES[title]
    values: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        for line in run.epochs:
            try:
                value = get(line)
            except (KeyError, TypeError):
                continue
            if isinstance(value, int | float) and math.isfinite(value):
                values.setdefault(run.label, {}).setdefault(int(line["epoch"]) + 1, []).append(factor * value)
    return {
        label: [(epoch, fmean(own), min(own), max(own)) for epoch, own in sorted(found.items())]
        for label, found in values.items()
    }
