"""The page of pools: a table of each, and one figure of MaxSup minus label smoothing in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maxsup.figures.comparisons import Difference, differences_figure
from maxsup.figures.style import Look, loss_look
from maxsup.metrics.facts import Fact, fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = ("test.accuracy", "test.ece", "test.confidence_wrong")
_MIN_PAIRS = 3
_HEAD = """\
# Pools

Means over seeds of every loss, from [results](results). The last column is the mean paired difference in accuracy
to label smoothing with Student's 95 % interval. Nothing is judged here; the [claims](README.md) are. The
[protocol](protocol.md) has the settings.
"""


def pools_page(pools: Sequence[Mapping[str, Any]]) -> str:
    """Every pool in Markdown: means over seeds, and the paired difference in accuracy to label smoothing."""
    lines = [_HEAD]
    if has_figure(pools):
        lines += ["![MaxSup minus label smoothing in every pool](figures/pools.svg)", ""]
    for pool in pools:
        facts = [_fact(number) for number in pool["numbers"]]
        head = ["loss", "seeds", *(known.axis for known in facts), "accuracy against label smoothing (points)"]
        lines += [f"## {pool['pool']}", "", _line(head), "|---" * len(head) + "|"]
        for row in pool["rows"]:
            means = [_value(mean, known) for mean, known in zip(row["means"], facts, strict=True)]
            lines.append(_line([row["loss"], str(row["num_seeds"]), *means, _points(row["difference"])]))
        lines.append("")
    return "\n".join(lines)


def has_figure(pools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any pool has enough pairs to be drawn."""
    return any(map(_is_drawn, pools))


def pools_figure(pools: Sequence[Mapping[str, Any]]) -> Figure:
    """MaxSup minus label smoothing of every pool with three pairs or more; filled where the interval leaves out 0."""
    shown = {pool["pool"]: pool["contrast"] for pool in pools if _is_drawn(pool)}
    look, panels = loss_look("maxsup"), []
    for number in _DRAWN:
        known, found = _fact(number), dict[str, Difference]()
        for pool, contrast in shown.items():
            if contrast.get(number) is not None:
                mean, low, high = (known.factor * value for value in contrast[number][:3])
                found[pool] = Difference(mean, low, high, is_conclusive=low > 0 or high < 0)
        panels.append((known.title, "points" if known.factor == 100 else "", found))
    return differences_figure(panels, {pool: Look(pool, look.color, look.marker) for pool in shown})


def _is_drawn(pool: Mapping[str, Any]) -> bool:
    found = pool["contrast"].get(_DRAWN[0])
    return found is not None and found[3] >= _MIN_PAIRS


def _fact(number: str) -> Fact:
    """The entry of ``SOURCE.NAME``; a probe is called by its data."""
    source, _, name = number.partition(".")
    known = fact(name)
    if source in ("test", "collapse", "masks"):
        return known
    return replace(known, title=f"{source.replace('_', ' ')}: {known.title}")


def _value(mean: float | None, known: Fact) -> str:
    return "-" if mean is None else f"{known.factor * mean:.{known.digits}f}"


def _points(found: Sequence[float] | None) -> str:
    if found is None:
        return "-"
    mean, low, high = (f"{100 * value:+.2f}" for value in found[:3])
    return f"{mean} [{low}, {high}]" if found[3] > 1 else mean


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
