"""Figures that analyses draw of results on disk, for a page: with short names, and without results that are damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import StorageError
from maxsup.figures.style import GREY, SOFT, short_text
from maxsup.reports.folders import RunView, with_texts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Mapping[str, Mapping[str, Any]]

# What comes of a result that does not hold what its analysis writes.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StorageError, TypeError, ValueError)


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


def _first_results(runs: Sequence[RunView], name: str) -> tuple[int | None, dict[str, dict[str, Any]]]:
    for seed in sorted({run.seed for run in runs}):
        found = {run.label: result for run in runs if run.seed == seed and (result := run.result(name)) is not None}
        if found:
            return seed, found
    return None, {}
