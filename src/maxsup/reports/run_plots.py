"""Plots of what runs left: curves of every epoch, sweeps over strengths, and results of analyses over all seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from maxsup.figures.corruption import corruption_map, mean_errors
from maxsup.figures.features import collapse_figure
from maxsup.figures.style import WIDE, Look, run_looks
from maxsup.figures.training import sweep_figure, training_figure
from maxsup.metrics.facts import fact
from maxsup.reports.blocks import Plot, csv_text
from maxsup.reports.folders import RunView

Line = Mapping[str, Any]

_CURVES: dict[str, tuple[float, Callable[[Line], Any]]] = {
    "training loss": (1.0, lambda line: line["train"]["loss"]),
    "validation accuracy (%)": (100.0, lambda line: line["val"]["accuracy"]),
    "validation NLL (nats)": (1.0, lambda line: line["val"]["nll"]),
    "LS term 1: regularisation": (1.0, lambda line: line["decomposition"]["regularization"]),
    "LS term 2: error amplification": (1.0, lambda line: line["decomposition"]["error_amplification"]),
    "strength (alpha, beta, ...)": (1.0, lambda line: line["alpha"]),
}
_SWEPT = ("accuracy", "nll", "ece")
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


def label_looks(runs: Sequence[RunView]) -> dict[str, Look]:
    """A look for every label, in the order of the runs."""
    return run_looks({run.label: run.loss for run in runs})


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
