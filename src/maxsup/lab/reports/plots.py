"""Plots of a comparison: what its summary holds, and what its runs have logged and measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from maxsup.lab.figures.comparisons import (
    Difference,
    Point,
    differences_figure,
    published_figure,
    seeds_figure,
    sweep_figure,
    training_figure,
)
from maxsup.lab.figures.corruption import corruption_map, mean_errors
from maxsup.lab.figures.features import collapse_figure
from maxsup.lab.figures.style import WIDE, Look, run_looks
from maxsup.lab.reports.blocks import Plot, csv_text
from maxsup.lab.reports.folders import RunView
from maxsup.lab.reports.summary import Summary, SummaryMetric
from maxsup.metrics.facts import fact

_BETTER = {"higher": "right is better", "lower": "left is better"}
_Row = tuple[int, float, float, float]  # epoch, mean, lowest and highest of the seeds
# Where an epoch's line of the log has each curve, and the factor of its printed unit.
_CURVES: dict[str, tuple[float, tuple[str, ...]]] = {
    "training loss": (1.0, ("train", "loss")),
    "validation accuracy (%)": (100.0, ("val", "accuracy")),
    "validation NLL (nats)": (1.0, ("val", "nll")),
    "LS term 1: regularisation": (1.0, ("decomposition", "regularization")),
    "LS term 2: error amplification": (1.0, ("decomposition", "error_amplification")),
    "strength (alpha, beta, ...)": (1.0, ("alpha",)),
}
_TERMS = (
    " The two terms of label smoothing are measured on training batches for every loss: how far the true logit is "
    "above the smaller ones, and how far below the larger ones (0 if the prediction is right), divided by the number "
    "of classes and without the strength."
)
_LONG = (
    " There are too many epochs to draw: each curve has its extremes in short stretches of epochs. All epochs are in "
    "the file metrics.jsonl of each run."
)
_NUM_STRETCHES = 120
"""A curve of more epochs is drawn by the extremes of so many stretches: a panel is hardly more pixels wide."""
_EXTREMES = ((min, 1), (max, 1), (min, 2), (max, 3))  # of the mean, and of the band around it
_SWEPT = ("accuracy", "nll", "ece")
_SPLITS = {"train": "training images", "val": "validation images", "test": "test images"}


def seeds_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Every run as a dot, one panel per metric; lines join runs with the same seed."""
    metrics, rows = [], list[list[Any]]()
    for metric in _measured(summary):
        found = {
            entry.loss: {seed: metric.printed(value) for seed, value in entry.number(metric).values.items()}
            for entry in summary.losses
        }
        metrics.append((_with_unit(metric.label, metric.unit), found))
        for entry in summary.losses:
            rows += [[metric.label, entry.title, int(seed), value] for seed, value in found[entry.loss].items()]
    if not metrics:
        return None
    return Plot(
        f"{prefix}seeds",
        "Every run",
        "One dot per run and a bar for the mean. Thin lines join runs with the same seed, which had the same initial "
        "weights and the same order of images. Crossing lines mean that the seed decides, parallel lines that the loss "
        "does.",
        seeds_figure(metrics, arm_looks(summary)),
        csv_text(["metric", "loss", "seed", "value"], rows),
    )


def differences_plot(summary: Summary, prefix: str = "") -> Plot | None:
    """Paired differences to the baseline with their intervals, one panel per metric."""
    losses = [entry for entry in summary.losses if not entry.is_baseline]
    metrics, rows = [], list[list[Any]]()
    for metric in _measured(summary):
        differences = {}
        for entry in losses:
            found = entry.number(metric)
            if not math.isnan(found.difference):
                mean, low, high = (metric.printed(value) for value in (found.difference, found.low, found.high))
                differences[entry.loss] = Difference(mean, low, high, found.is_conclusive)
                rows.append([metric.label, entry.title, mean, low, high, found.p, found.adjusted_p])
        if differences:
            title = _with_unit(metric.label, metric.difference_unit)
            metrics.append((title, _BETTER.get(metric.direction, ""), differences))
    if not metrics:
        return None
    looks = arm_looks(summary)
    return Plot(
        f"{prefix}differences",
        f"Difference to {summary.baseline_title}",
        "Mean of the paired differences with its 95 % interval, if there are enough seeds for one. Filled marks may be "
        "printed bold, hollow marks are inconclusive. On the dashed line both losses are equal.",
        differences_figure(metrics, {entry.loss: looks[entry.loss] for entry in losses}),
        csv_text(["metric", "loss", "difference", "low", "high", "p", "Holm p"], rows),
    )


def published_plot(summary: Summary, prefix: str) -> Plot | None:
    """Our means against those of the paper, with the line on which they would be equal."""
    points, rows = dict[str, list[Point]](), list[list[Any]]()
    looks, metrics = arm_looks(summary), {metric.name: metric for metric in summary.metrics}
    for row, column, cell in summary.table.filled():
        published, metric = cell.published, metrics.get(column.name) or metrics.get(row.name)
        if published is None or published.mean is None or cell.mean is None or metric is None:
            continue
        arm = row.name if metric.name == column.name else column.name
        title = _with_unit(metric.title, metric.unit)
        point = Point(looks.get(arm), published.mean, metric.printed(cell.mean), metric.printed(cell.std))
        points.setdefault(title, []).append(point)
        rows.append([title, row.title, column.title, *point[1:], published.label])
    if not points:
        return None
    scale = f" Ours come from the {summary.scale} scale: other data, another network." if summary.is_reduced else ""
    return Plot(
        f"{prefix}published",
        "Published against measured",
        f"One dot per cell of the table; bars are one standard deviation. On the dashed line both are equal.{scale}",
        published_figure(points),
        csv_text(["metric", "row", "column", "published", "measured", "std", "label"], rows),
    )


def training_plot(runs: Sequence[RunView], setting: str, prefix: str) -> Plot | None:
    """Curves of all runs of one setting: the mean over seeds, and a band from the lowest to the highest."""
    curves = _curves(runs)
    if not curves:
        return None
    is_long = any(len(own) > _NUM_STRETCHES for found in curves.values() for own in found.values())
    curves = {title: {label: _thinned(own) for label, own in found.items()} for title, found in curves.items()}
    has_terms = any(title.startswith("LS term") for title in curves)
    return Plot(
        f"{prefix}training",
        f"Training curves{setting}",
        "Mean over seeds, with a band from the lowest to the highest. Training losses of different objectives cannot "
        f"be compared with one another; validation numbers can.{_TERMS if has_terms else ''}{_LONG if is_long else ''}",
        training_figure(curves, label_looks(runs)),
        csv_text(["curve", "loss", "epoch", "mean", "lowest", "highest"], _rows(curves)),
    )


def sweep_plot(runs: Sequence[RunView], setting: str, prefix: str) -> Plot | None:
    """Test numbers against strength, for every loss that was trained with several."""
    tests: dict[str, dict[float, list[Mapping[str, Any]]]] = {}
    for run in runs:
        strength = run.last_strength
        if run.test and isinstance(strength, int | float) and run.loss != "ce":
            tests.setdefault(run.loss, {}).setdefault(round(float(strength), 6), []).append(run.test)
    tests = {loss: dict(sorted(found.items())) for loss, found in tests.items() if len(found) > 1}
    if not tests:
        return None
    metrics = {fact(name).axis: {loss: _dots(found, name) for loss, found in tests.items()} for name in _SWEPT}
    return Plot(
        f"{prefix}sweep",
        f"Strength{setting}",
        "Test numbers against the strength of the loss: one dot per run, lines through the means.",
        sweep_figure(metrics, run_looks({loss: loss for loss in tests})),
        csv_text(["metric", "loss", "strength", "value"], _rows(metrics)),
    )


def collapse_plot(runs: Sequence[RunView], setting: str, prefix: str) -> Plot | None:
    """The plane of within and r_squared, a dot for each run."""
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
        "One dot per run. Further left, samples of a class lie closer together; further up, classes are better "
        "separated. Upper left is collapse: good for these classes, and often bad for later uses of the features.",
        collapse_figure(points, label_looks(runs), width=WIDE if len(points) > 1 else 4.2),
        csv_text(["split", "loss", "seed", "within", "r_squared"], rows),
    )


def corruption_plot(runs: Sequence[RunView], setting: str, prefix: str) -> Plot | None:
    """Error by kind and severity of corruption: a map for each loss, mean over seeds."""
    errors = mean_errors([(run.label, found["data"]["cells"]) for run in runs if (found := run.result("corruption"))])
    if not errors:
        return None
    return Plot(
        f"{prefix}corruption-map",
        f"Corrupted images{setting}",
        "Errors in percent by kind and severity of corruption, mean over seeds. Darker is worse; all losses share one "
        "colour scale.",
        corruption_map(errors),
        csv_text(["loss", "corruption", "severity", "error (%)"], _rows(errors)),
        is_picture=True,
    )


def arm_looks(summary: Summary) -> dict[str, Look]:
    """Colour and marker of each arm, which are those of its loss."""
    losses = {run.arm: run.loss for run in summary.runs}
    return run_looks({arm: losses.get(arm, "") for arm in summary.arm_titles}, summary.arm_titles)


def label_looks(runs: Sequence[RunView]) -> dict[str, Look]:
    """A look for every label, in the order of the runs."""
    return run_looks({run.label: run.loss for run in runs})


def _measured(summary: Summary) -> list[SummaryMetric]:
    """Metrics that at least one loss has."""
    return [each for each in summary.metrics if any(entry.number(each).mean is not None for entry in summary.losses)]


def _with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def _dots(tests: Mapping[float, list[Mapping[str, Any]]], name: str) -> dict[float, list[float]]:
    """The values of a number, in printed units, by strength."""
    factor = fact(name).factor
    found = {
        strength: [factor * test[name] for test in own if test.get(name) is not None] for strength, own in tests.items()
    }
    return {strength: values for strength, values in found.items() if values}


def _curves(runs: Sequence[RunView]) -> dict[str, dict[str, list[_Row]]]:
    """What was logged of each curve, by label."""
    values: dict[str, dict[str, dict[int, list[float]]]] = {}
    for run in runs:
        for epoch, line in run.epochs():
            for title, (factor, keys) in _CURVES.items():
                value: Any = line
                for key in keys:
                    value = value.get(key) if isinstance(value, Mapping) else None
                if isinstance(value, int | float) and math.isfinite(value):
                    own = values.setdefault(title, {}).setdefault(run.label, {})
                    own.setdefault(epoch + 1, []).append(factor * value)
    return {
        title: {
            label: [(epoch, fmean(own), min(own), max(own)) for epoch, own in sorted(found.items())]
            for label, found in values[title].items()
        }
        for title in _CURVES
        if title in values
    }


def _thinned(rows: Sequence[_Row]) -> list[_Row]:
    """The rows of a curve that can be seen: the ends, and of each stretch those with an extreme value.

    Example:
        >>> spike = [(epoch, float(epoch == 5001), 0.0, 1.0) for epoch in range(1, 10_001)]
        >>> thin = _thinned(spike)
        >>> len(thin) < 500, spike[5000] in thin, thin[0] == spike[0], thin[-1] == spike[-1]
        (True, True, True, True)
    """
    if len(rows) <= _NUM_STRETCHES:
        return list(rows)
    kept = {rows[0], rows[-1]}
    for place in range(_NUM_STRETCHES):
        stretch = rows[place * len(rows) // _NUM_STRETCHES : (place + 1) * len(rows) // _NUM_STRETCHES]
        kept |= {choose(stretch, key=itemgetter(column)) for choose, column in _EXTREMES}
    return sorted(kept)


def _rows(values: Any) -> Iterator[list[Any]]:
    """Every entry of nested mappings and lists, after the keys that lead to it."""
    if isinstance(values, Mapping):
        for key, inner in values.items():
            yield from ([*(key if isinstance(key, tuple) else (key,)), *row] for row in _rows(inner))
    elif isinstance(values, list):
        for inner in values:
            yield from _rows(inner)
    else:
        yield list(values) if isinstance(values, tuple) else [values]
