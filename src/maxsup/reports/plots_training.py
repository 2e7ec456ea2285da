"""Figures of how runs were trained: curves from what every epoch logged, and sweeps over the strength of a loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from maxsup.figures.charts import few_ticks
from maxsup.figures.style import Look, legend_above, panels, run_looks, styled
from maxsup.metrics.facts import fact
from maxsup.reports.folders import RunView
from maxsup.reports.page import Column, Plot, Table
from maxsup.reports.plots import WIDE, tamed

Line = Mapping[str, Any]

_CURVES: dict[str, tuple[str, float, Callable[[Line], Any]]] = {
    "train_loss": ("training loss", 1.0, lambda line: line["train"]["loss"]),
    "val_accuracy": ("validation accuracy (%)", 100.0, lambda line: line["val"]["accuracy"]),
    "val_nll": ("validation NLL (nats)", 1.0, lambda line: line["val"]["nll"]),
    "regularization": ("LS term 1: regularisation", 1.0, lambda line: line["decomposition"]["regularization"]),
    "error_amplification": (
        "LS term 2: error amplification",
        1.0,
        lambda line: line["decomposition"]["error_amplification"],
    ),
    "alpha": ("strength (alpha, beta, ...)", 1.0, lambda line: line["alpha"]),
}
_SWEPT = ("accuracy", "nll", "ece")


def training_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """Curves of all runs of one setting: the mean over seeds, and a band from the lowest to the highest."""
    tracks = _tracks(runs)
    names = [name for name in _CURVES if any(name in found for found in tracks.values())]
    if not names:
        return None
    looks = run_labels(runs)
    rows: list[list[Any]] = []
    with styled():
        num_rows = math.ceil(len(names) / 3)
        figure, grid = panels(num_rows, min(3, len(names)), height=1.75 * num_rows + 0.3, width=WIDE, sharex=True)
        flat = [axes for line in grid for axes in line]
        for axes, name in zip(flat, names, strict=False):
            title, factor, _ = _CURVES[name]
            for label, found in tracks.items():
                look = looks[label]
                epochs = sorted(found.get(name, {}))
                means = [factor * fmean(found[name][epoch]) for epoch in epochs]
                lows = [factor * min(found[name][epoch]) for epoch in epochs]
                highs = [factor * max(found[name][epoch]) for epoch in epochs]
                numbers = [epoch + 1 for epoch in epochs]
                axes.fill_between(numbers, lows, highs, color=look.color, alpha=0.13, linewidth=0)
                axes.plot(numbers, means, color=look.color, linestyle=look.line, linewidth=1.1)
                if len(numbers) == 1:
                    axes.plot(numbers, means, marker=look.marker, linestyle="none", color=look.color)
                rows += [[title, label, *entry] for entry in zip(numbers, means, lows, highs, strict=True)]
            axes.set_title(title, loc="left", fontweight="bold")
            axes.grid()
            few_ticks(axes, count=4)
            few_ticks(axes, axis="y", count=4)
        for axes in flat[len(names) :]:
            axes.set_visible(False)
        for axes in flat[max(0, len(names) - 3) : len(names)]:
            axes.set_xlabel("epoch")
            axes.tick_params(labelbottom=True)
        legend_above(figure, list(looks.values()))
    columns = [Column("curve", is_number=False), Column("loss", is_number=False), Column("epoch")]
    columns += [Column(name, 5) for name in ("mean", "lowest", "highest")]
    has_terms = "regularization" in names
    terms = (
        " The two terms of label smoothing are measured on training batches whatever the loss: how far the true logit "
        "is above the smaller ones, and how far below the larger ones (0 where the prediction is right), over the "
        "number of classes and before the strength."
    )
    where = f" ({setting})" if setting else ""
    return Plot(
        f"{prefix}training",
        f"Training curves{where}",
        "Mean over seeds, with a band from the lowest to the highest. Training losses of different objectives cannot "
        f"be compared with one another; validation numbers can.{terms if has_terms else ''}",
        figure,
        Table("Training curves", columns, rows),
    )


def sweep_plot(runs: Sequence[RunView], setting: str = "", prefix: str = "") -> Plot | None:
    """Test numbers against strength, for every loss that was trained with several."""
    points: dict[str, dict[float, list[Mapping[str, Any]]]] = {}
    for run in runs:
        strength = run.epochs[-1].get("alpha") if run.epochs else None
        if run.test and isinstance(strength, int | float) and run.loss != "ce":
            points.setdefault(run.loss, {}).setdefault(round(float(strength), 6), []).append(run.test)
    points = {loss: found for loss, found in points.items() if len(found) > 1}
    if not points:
        return None
    looks = run_looks({loss: {"facts": {"loss": loss}} for loss in points})
    rows: list[list[Any]] = []
    with styled():
        figure, [grid] = panels(1, len(_SWEPT), height=2.0, width=WIDE)
        for axes, name in zip(grid, _SWEPT, strict=True):
            title, factor = fact(name).axis, fact(name).factor
            for loss, found in points.items():
                look, strengths = looks[loss], sorted(found)
                values = {
                    strength: [factor * test[name] for test in found[strength] if test.get(name) is not None]
                    for strength in strengths
                }
                kept = [strength for strength in strengths if values[strength]]
                axes.plot(kept, [fmean(values[strength]) for strength in kept], color=look.color, linestyle=look.line)
                for strength in kept:
                    dots = values[strength]
                    axes.plot(
                        [strength] * len(dots),
                        dots,
                        marker=look.marker,
                        linestyle="none",
                        color=look.color,
                        markersize=3.2,
                        alpha=0.65,
                    )
                    rows += [[title, loss, strength, value] for value in dots]
            axes.set_title(title, loc="left", fontweight="bold")
            axes.set_xlabel("strength in the last epoch")
            axes.grid()
            axes.margins(x=0.08)
            few_ticks(axes, count=4)
            few_ticks(axes, axis="y", count=4)
        legend_above(figure, [replace(look, label=tamed(look.label)) for look in looks.values()])
    columns = [
        Column("metric", is_number=False),
        Column("loss", is_number=False),
        Column("strength"),
        Column("value", 6),
    ]
    where = f" ({setting})" if setting else ""
    return Plot(
        f"{prefix}sweep",
        f"Strength{where}",
        "Test numbers against the strength of the loss: a dot a run, lines through the means.",
        figure,
        Table("Strength", columns, rows),
    )


def run_labels(runs: Sequence[RunView]) -> dict[str, Look]:
    """A look for every label, in the order of the runs."""
    losses = {run.label: {"facts": {"loss": run.loss}} for run in runs}
    return {label: replace(look, label=tamed(label)) for label, look in run_looks(losses).items()}


def _tracks(runs: Sequence[RunView]) -> dict[str, dict[str, dict[int, list[float]]]]:
    """By label, curve and epoch: the values of all seeds."""
    tracks: dict[str, dict[str, dict[int, list[float]]]] = {}
    for run in runs:
        own = tracks.setdefault(run.label, {})
        for line in run.epochs:
            for name, (_, _, get) in _CURVES.items():
                try:
                    value = get(line)
                except (KeyError, TypeError):
                    continue
                if isinstance(value, int | float) and math.isfinite(value):
                    own.setdefault(name, {}).setdefault(int(line["epoch"]), []).append(float(value))
    return tracks
