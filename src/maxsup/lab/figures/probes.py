"""Figures of probes, distillation and long tails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxsup.lab.figures.charts import draw_runs, flat_panels, name_rows, value, widen
from maxsup.lab.figures.style import Results, legend_above, panels, result_looks, styled
from maxsup.metrics.facts import fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GROUPS = ("many", "medium", "low")
_MAX_MARKED = 20  # curves of more classes have no markers
_OOD = {"max_probability": "top probability", "max_logit": "top logit", "energy": "energy", "knn": "k-NN"}
_OF_STUDENTS = ("student_accuracy", "agreement", "kl", "wrong_class_information")


def probe_figures(results: Results) -> dict[str, Figure]:
    """Draw validation accuracy by strength, test accuracy and, if there are any, known factors."""
    figures = {"probe": probe_figure(results)}
    factors = list(dict.fromkeys(name for result in results.values() for name in result["data"]["factors"]))
    if factors:
        figures["factors"] = factors_figure(results, factors)
    return figures


@styled()
def probe_figure(results: Results) -> Figure:
    """Draw validation accuracy by the strength of the penalty, and below it the test accuracy of both probes."""
    looks = result_looks(results)
    low = 0.17 * len(results)
    figure, [[path], [dots]] = panels(2, 1, height=2.25 + low, height_ratios=[1.3, low])
    for label, result in results.items():
        look, data = looks[label], result["data"]
        percents = [100 * found for found in data["val_accuracies"]]
        path.plot(data["strengths"], percents, **look.stroke)
        chosen = value(result, "strength")
        nearest = min(range(len(percents)), key=lambda spot: abs(math.log(data["strengths"][spot] / chosen)))
        path.plot([chosen], [percents[nearest]], **look.marks)
    path.set(xscale="log", xlabel="strength of the L2 penalty", ylabel="val. accuracy (%)")
    path.grid()
    draw_runs(dots, results, ("accuracy", "knn_accuracy"), 100)
    name_rows([dots], list(results))
    dots.set_xlabel("test accuracy (%): filled linear probe, hollow k-NN")
    dots.margins(x=0.1)
    legend_above(figure, looks.values())
    return figure


@styled()
def factors_figure(results: Results, factors: Sequence[str]) -> Figure:
    """Draw the R^2 of a linear probe of each known factor, one mark per run."""
    looks = result_looks(results)
    figure, [[axes]] = panels(height=0.75 + 0.22 * len(factors))
    for place, (label, result) in enumerate(results.items()):
        shift = 0.4 * ((place + 0.5) / len(results) - 0.5)
        shares = [value(result, f"r_squared_{name}") for name in factors]
        axes.plot(shares, [spot + shift for spot in range(len(factors))], **looks[label].marks)
    name_rows([axes], factors)
    axes.set_xlim(min(0.0, axes.get_xlim()[0]), 1.0)
    axes.set_xlabel("$R^2$ of a linear probe of the factor (share of its variance)")
    axes.grid(axis="x")
    legend_above(figure, looks.values(), has_lines=False)
    return figure


@styled()
def distillation_figures(results: Results) -> dict[str, Figure]:
    """Draw a row per teacher: student accuracy, agreement, divergence, information on wrong classes."""
    figure, grid = flat_panels(len(_OF_STUDENTS), per_row=2, height=0.75 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, name in zip(grid, _OF_STUDENTS, strict=True):
        draw_runs(axes, results, (name,), fact(name).factor)
        axes.set_xlabel(fact(name).axis)
        widen(axes)
    name_rows(grid, list(results))
    return {"distillation": figure}


@styled()
def ood_figures(results: Results) -> dict[str, Figure]:
    """Draw the AUROC of each score, one row per run."""
    figure, grid = flat_panels(len(_OOD), per_row=2, height=0.75 + 0.2 * len(results), pad=0.05, sharey=True)
    for axes, (name, title) in zip(grid, _OOD.items(), strict=True):
        draw_runs(axes, results, (f"ood_auroc_{name}",), 1.0)
        axes.set_xlabel(f"AUROC by {title}")
        widen(axes)
    name_rows(grid, list(results))
    return {"ood": figure}


@styled()
def longtail_figures(results: Results) -> dict[str, Figure]:
    """Draw the accuracy of each class from the largest to the smallest, and of the groups."""
    looks = result_looks(results)
    figure, [[classes, groups]] = panels(1, 2, height=2.1, width_ratios=[2, 1], sharey=True)
    present = [name for name in _GROUPS if any(name in result["data"]["groups"] for result in results.values())]
    for place, (label, result) in enumerate(results.items()):
        look, data = looks[label], result["data"]
        rows = sorted(zip(data["num_train"], data["accuracy"], strict=True), key=lambda row: -row[0])
        rows = [row for row in rows if row[1] is not None]
        shown = look.marks | look.stroke | ({"marker": ""} if len(rows) > _MAX_MARKED else {})
        classes.plot([row[0] for row in rows], [100 * row[1] for row in rows], **shown)
        shift = 0.5 * ((place + 0.5) / len(results) - 0.5)
        heights = [100 * value(result, f"accuracy_{name}") for name in present]
        groups.plot([spot + shift for spot in range(len(present))], heights, **look.marks)
    classes.set(xscale="log", xlabel="training images of the class", ylabel="accuracy (%)")
    classes.invert_xaxis()
    classes.grid()
    groups.set_xticks(range(len(present)), present)
    groups.set(xlim=(-0.5, len(present) - 0.5), xlabel="group (shots)")
    groups.grid(axis="y")
    legend_above(figure, looks.values())
    return {"longtail": figure}
