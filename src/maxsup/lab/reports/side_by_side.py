"""Several models on one page: their verdicts and numbers in columns, and what differs between each two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxsup.core.finding import LEVELS
from maxsup.lab.figures.calibration import reliability_figure, risk_figure
from maxsup.lab.figures.style import Look
from maxsup.lab.reports.blocks import Block, Chapter, Column, Findings, Page, Plot, Section, Table, Text, csv_text
from maxsup.lab.reports.diagnosis import NUMBERS
from maxsup.lab.reports.page import page_html
from maxsup.metrics.facts import BETTER, find_fact

if TYPE_CHECKING:
    from maxsup.diagnosis.side_by_side import Pair, SideBySide

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "^", "s", "D", "v", "P")
_WIDTH = 4.6
_METHODS = (
    "All models are judged on the same images, and each of 1,000 bootstrap resamples draws images for all models at "
    "once: what is hard about an image cancels in a difference. Intervals are of 95 %, each for itself. They say "
    "how much another draw of images would change, not how much another training would: that takes runs with "
    "several seeds (maxsup compare).",
    "McNemar's exact test counts the images that only one of two models gets right. Each model has its own "
    "temperature, fitted on the same half of the images and judged on the other. Linear CKA compares features on the "
    "same images; from fewer images than features it is high for any two models.",
)


def side_by_side_page(
    found: SideBySide, facts: Mapping[str, Mapping[str, str]] | None = None, *, sections: Sequence[Section] = ()
) -> str:
    """Several models as one HTML file; ``facts`` say what their outputs depend on, ``sections`` come first."""
    named = {"Images": f"{found.num_samples:,}", "Models": ", ".join(found.diagnoses)}
    if found.num_left_out:
        named["Left out"] = f"{found.num_left_out:,} images that some model lacks"
    for name, lines in (facts or {}).items():
        named[name] = "; ".join(f"{key.lower()}: {value}" for key, value in lines.items())
    shown = [
        *sections,
        Section("Verdicts on each model", [_verdict_table(found)]),
        *(Section(f"{pair.second} against {pair.first}", _pair_blocks(pair)) for pair in found.pairs),
        Section("Numbers", [_number_table(found)]),
        Section("Curves", [_reliability_plot(found), _risk_plot(found)]),
        Section("How the numbers are made", [Text(text) for text in _METHODS]),
    ]
    lead = "What several models do on the same images, and which of their differences these images show."
    return page_html(Page("Models side by side", [Chapter("Models side by side", shown, lead, named)]))


def _verdict_table(found: SideBySide) -> Table:
    topics = dict.fromkeys(each.topic for one in found.diagnoses.values() for each in one.findings)
    levels = {name: {each.topic: LEVELS[each.level] for each in one.findings} for name, one in found.diagnoses.items()}
    rows = [[topic, *(levels[name].get(topic) for name in levels)] for topic in topics]
    columns = [Column("about", is_number=False), *(Column(name, is_number=False) for name in levels)]
    return Table("The verdict on each model alone; maxsup diagnose of one model says why", columns, rows, "verdicts")


def _number_table(found: SideBySide) -> Table:
    rows: list[list[Any]] = []
    for name in " ".join(NUMBERS.values()).split():
        entries = [one.numbers.get(name) for one in found.diagnoses.values()]
        present = [entry for entry in entries if entry is not None and entry["value"] == entry["value"]]
        if present and not any(row[0] == name for row in rows):
            rows.append([name, *(entry and entry["value"] for entry in entries), BETTER[present[0]["direction"]]])
    columns = [Column("number", is_number=False), *(Column(name, 4) for name in found.diagnoses)]
    return Table("Numbers of each model", [*columns, Column("direction", is_number=False)], rows, "numbers")


def _pair_blocks(pair: Pair) -> list[Block]:
    rows = []
    for name, entry in pair.numbers.items():
        fact = find_fact(name)
        if fact is not None and "low" in entry and entry["value"] == entry["value"]:
            rows.append([name, entry["value"], entry["low"], entry["high"], BETTER[entry["direction"]]])
    numbers = [Column(title, 4) for title in ("difference", "from", "to")]
    columns = [Column("number", is_number=False), *numbers, Column("direction", is_number=False)]
    caption = f"{pair.second} minus {pair.first}, with 95 % intervals; both say the same for {pair.agreement:.1%}"
    return [
        Findings(pair.findings, has_sections=False),
        Table(caption, columns, rows, f"{pair.second} minus {pair.first}"),
    ]


def _looks(found: SideBySide) -> dict[str, Look]:
    styles = ("-", "--", "-.", ":")
    return {
        name: Look(name, _COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)], styles[index % len(styles)])
        for index, name in enumerate(found.diagnoses)
    }


def _reliability_plot(found: SideBySide) -> Plot:
    bins = {name: one.data["reliability"]["before"] for name, one in found.diagnoses.items()}
    rows: list[list[Any]] = []
    for name, each in bins.items():
        edges, *columns = (each[key] for key in ("edges", "count", "confidence", "accuracy"))
        rows += [[name, *entry] for entry in zip(edges, edges[1:], *columns, strict=False)]
    return Plot(
        "reliability",
        "Reliability as trained",
        "Accuracy by confidence in 15 bins, of the judged half of the images. On the dashed line confidence equals "
        "accuracy.",
        reliability_figure(bins, _looks(found), width=_WIDTH),
        csv_text(["model", "lower edge", "upper edge", "samples", "confidence", "accuracy"], rows),
    )


def _risk_plot(found: SideBySide) -> Plot:
    curves = {name: one.data["risk"]["softmax"] for name, one in found.diagnoses.items()}
    rows = [
        [name, *point] for name, curve in curves.items() for point in zip(curve["coverage"], curve["risk"], strict=True)
    ]
    return Plot(
        "risk",
        "Risk and coverage",
        "Errors among the predictions that are kept when the least confident ones are rejected; lower is better.",
        risk_figure(curves, _looks(found), width=_WIDTH),
        csv_text(["model", "coverage", "risk"], rows),
    )
