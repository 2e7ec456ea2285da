"""Corrupted images: errors by kind and severity, and metrics by severity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from maxsup.lab.figures.charts import name_rows
from maxsup.lab.figures.style import WIDE, Results, legend_above, panels, result_looks, short_text, styled
from maxsup.metrics.facts import fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Errors = Mapping[str, Mapping[tuple[str, int], float]]
"""Error in percent by label, then by kind and severity of corruption."""

_METRICS = ("error", "nll", "ece")
# Not pure black and white, which a page replaces with its own colours.
_ON_DARK, _ON_LIGHT = "#fff8e7", "#22102a"


def corruption_figures(results: Results) -> dict[str, Figure]:
    """Draw metrics by severity, averaged over kinds, and a map of the error by kind and severity."""
    errors = mean_errors([(label, result["data"]["cells"]) for label, result in results.items()])
    return {"corruption": severity_figure(results), "corruption_map": corruption_map(errors)}


def mean_errors(runs: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, dict[tuple[str, int], float]]:
    """Return the error in percent by label, kind and severity, averaged over runs with the same label.

    Example:
        >>> cell = {"corruption": "fog", "severity": 1}
        >>> mean_errors([("CE", [cell | {"error": 0.1}]), ("CE", [cell | {"error": 0.3}])])
        {'CE': {('fog', 1): 20.0}}
    """
    found: dict[str, dict[tuple[str, int], list[float]]] = {}
    for label, cells in runs:
        for cell in cells:
            if cell["error"] is not None:
                own = found.setdefault(label, {})
                own.setdefault((cell["corruption"], cell["severity"]), []).append(100 * cell["error"])
    return {label: {key: fmean(values) for key, values in own.items()} for label, own in found.items()}


@styled()
def severity_figure(results: Results) -> Figure:
    """Draw error, likelihood and calibration against severity, averaged over kinds."""
    looks = result_looks(results)
    figure, [row] = panels(1, len(_METRICS), height=1.7)
    for axes, metric in zip(row, _METRICS, strict=True):
        for label, result in results.items():
            values: dict[int, list[float]] = {}
            for cell in result["data"]["cells"]:
                values.setdefault(cell["severity"], []).append(cell[metric])
            means = {severity: fact(metric).factor * fmean(values[severity]) for severity in sorted(values)}
            axes.plot(list(means), list(means.values()), **(looks[label].marks | looks[label].stroke))
        axes.set_ylabel(fact(metric).axis, labelpad=2)
        axes.set(xlabel="severity", xticks=[1, 3, 5])
        axes.locator_params("y", nbins=4)
        axes.set_ylim(bottom=0)
        axes.grid()
    legend_above(figure, looks.values())
    return figure


@styled()
def corruption_map(errors: Errors) -> Figure:
    """Draw a map of the error by kind and severity for each label, all with the same colour scale."""
    kinds = list(dict.fromkeys(kind for own in errors.values() for kind, _ in own))
    severities = sorted({severity for own in errors.values() for _, severity in own})
    top = max(value for own in errors.values() for value in own.values())
    width = min(WIDE, 1.3 + 1.5 * len(errors))
    figure, [row] = panels(1, len(errors), height=0.9 + 0.17 * len(kinds), width=width, sharey=True)
    for axes, (label, own) in zip(row, errors.items(), strict=True):
        table = [[own.get((kind, severity), math.nan) for severity in severities] for kind in kinds]
        axes.imshow(table, cmap="magma_r", vmin=0, vmax=max(top, 1e-9), aspect="auto")
        for place, line in enumerate(table):
            for step, value in enumerate(line):
                if math.isfinite(value):
                    color = _ON_DARK if value > 0.55 * top else _ON_LIGHT
                    axes.text(step, place, f"{value:.0f}", ha="center", va="center", color=color, fontsize=5.5)
        axes.set_title(short_text(label, 22), fontweight="bold")
        axes.set_xticks(range(len(severities)), [str(severity) for severity in severities])
        axes.set_xlabel("severity")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    name_rows(row, [short_text(kind.replace("_", " ")) for kind in kinds])
    return figure
