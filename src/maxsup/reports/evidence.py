"""Pages of evidence: the table of claims, a page a claim and two figures, from verdicts and the numbers behind."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError
from maxsup.core.rundir import RunDir
from maxsup.figures.style import GREY, panels, save, styled
from maxsup.reports.plots import WIDE

BEGIN, END = "<!-- claims: written by maxsup report -->", "<!-- end of claims -->"

_COLORS = {"confirmed": "#1b7837", "contradicted": "#b2182b", "undecided": GREY}


def write_evidence(
    folder: Path, claims: Sequence[Mapping[str, Any]], sweeps: Sequence[Mapping[str, Any]]
) -> list[Path]:
    """Write the table into ``README.md``, a page for each claim and the figures.

    Args:
        folder: Of evidence; what stands in its ``README.md`` around the table stays.
        claims: One entry a claim: the claim, its verdict, and the differences of its seeds.
        sweeps: One entry a sweep of widths: its name, its points and its line.
    """
    target, page = RunDir(folder), folder / "README.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else f"# Evidence\n\n{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise MaxsupError(
            f"{page} must hold the lines {BEGIN!r} and {END!r} once. Put the table of claims between them."
        )
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    target.write_text(page, f"{head}{BEGIN}\n\n{claims_table(claims)}\n\n{END}{tail}")
    written = [page]
    for claim in claims:
        path = folder / "claims" / f"{claim['name']}.md"
        target.write_text(path, claim_page(claim))
        written.append(path)
    with styled():
        written += save(_claims_figure(claims), folder / "figures", "claims")
        for claim in claims:
            if claim["num_pairs"] > 1:
                written += save(_claim_figure(claim), folder / "figures", claim["name"])
        if any(sweep["points"] for sweep in sweeps):
            written += save(_sweep_figure(sweeps), folder / "figures", "widths")
    return written


def claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """The table of claims in Markdown: what the paper says, what was found, and the verdict."""
    lines = ["| claim | paper | here: difference [95 % interval] | verdict | scale |", "|---|---|---|---|---|"]
    for claim in claims:
        title = f"[{claim['states']}](claims/{claim['name']}.md) ({claim['label']})"
        verdict = f"**{claim['word']}**: {claim['reason']}"
        lines.append(f"| {title} | {claim['paper']} | {difference_text(claim)} | {verdict} | {claim['scale']} |")
    return "\n".join(lines)


def verdicts_in(page: str) -> dict[str, str]:
    """The verdicts that a table of claims shows, by name of the claim.

    Example:
        >>> verdicts_in("| [It helps.](claims/help.md) (tab:a) | +1 | - | **undecided**: no paired seeds |")
        {'help': 'undecided'}
    """
    return dict(re.findall(r"\]\(claims/(\w+)\.md\).*\*\*(\w+)\*\*", page))


def claim_page(claim: Mapping[str, Any]) -> str:
    """A page on one claim: question, verdict, figure, numbers of every seed, limits, and how to repeat it."""
    contrast = f"`{claim['number']}` of {', '.join(claim['pools'])}: {claim['claim']} minus {claim['than']}"
    margin = _with_unit(format(claim["margin"], "g"), claim["unit"])
    command = f"maxsup study run {claim['label']} --scale small --data-root DIR"
    lines = [f"# {claim['states']}", ""]
    lines += [f"**{claim['word'].capitalize()}** at the small scale: {claim['reason']}.", ""]
    lines += [f"- Paper: {claim['label']}, {claim['paper']}.", f"- Number: {contrast}."]
    lines += [f"- Claimed: {claim['direction']}; margin {margin}.", f"- Scale: {claim['scale']}.", ""]
    lines += ["```", command, "maxsup study collect studies/runs", "maxsup report docs/evidence", "```", ""]
    if claim["num_pairs"]:
        lines += [f"{difference_text(claim)}, {claim['num_pairs']} paired seeds, exact p = {claim['p']:.3g}.", ""]
        if claim["num_pairs"] > 1:
            lines += [f"![Difference of every seed](../figures/{claim['name']}.svg)", ""]
        lines += [f"| seed | {claim['claim']} | {claim['than']} | difference |", "|---|---|---|---|"]
        lines += [f"| {seed} | {own:.4g} | {other:.4g} | {own - other:+.3g} |" for seed, own, other in claim["values"]]
    else:
        lines.append("No results yet.")
    return "\n".join([*lines, "", f"**Limits.** {claim['limits']}"]) + "\n"


def difference_text(claim: Mapping[str, Any]) -> str:
    """``+0.31 points [+0.10, +0.52]``; a dash where there is none, and no interval of a single pair."""
    if not claim["num_pairs"]:
        return "-"
    digits = max(0, -math.floor(math.log10(claim["margin"]))) + 1
    mean, low, high = (f"{claim[key]:+.{digits}f}" for key in ("mean", "low", "high"))
    interval = f" [{low}, {high}]" if claim["num_pairs"] > 1 else ""
    return f"{_with_unit(mean, claim['unit'])}{interval}"


def _with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}".rstrip()


def _claims_figure(claims: Sequence[Mapping[str, Any]]) -> Any:
    """Every claim in units of its margin, claimed direction to the right."""
    shown = [claim for claim in claims if math.isfinite(claim["low"])]
    figure, [[panel]] = panels(width=WIDE, height=0.6 + 0.28 * max(len(shown), 2))
    panel.axvspan(-1, 1, color=GREY, alpha=0.15, linewidth=0)
    panel.axvline(0, color=GREY, linewidth=0.8)
    for place, claim in enumerate(reversed(shown)):
        sign = -1 if claim["direction"] == "lower" else 1
        mean, *ends = (sign * claim[key] / claim["margin"] for key in ("mean", "low", "high"))
        panel.plot(ends, [place, place], color=_COLORS[claim["word"]], linewidth=1.6)
        panel.plot([mean], [place], "o", color=_COLORS[claim["word"]], markersize=4.5)
    panel.set_yticks(range(len(shown)), [claim["name"].replace("_", " ") for claim in reversed(shown)])
    panel.set_xlabel("difference in units of the margin; to the right as claimed")
    return figure


def _claim_figure(claim: Mapping[str, Any]) -> Any:
    """The difference of every seed, their mean with its interval, and the margin as a band."""
    figure, [[panel]] = panels(width=WIDE, height=1.3)
    panel.axvspan(-claim["margin"], claim["margin"], color=GREY, alpha=0.15, linewidth=0)
    panel.axvline(0, color=GREY, linewidth=0.8)
    color = _COLORS[claim["word"]]
    panel.plot([own - other for _, own, other in claim["values"]], [1] * claim["num_pairs"], "o", color=GREY, alpha=0.7)
    panel.plot([claim["low"], claim["high"]], [0, 0], color=color, linewidth=1.6)
    panel.plot([claim["mean"]], [0], "o", color=color)
    panel.set_yticks([0, 1], ["mean", "seeds"])
    panel.set_ylim(-0.6, 1.6)
    panel.set_xlabel(f"{claim['claim']} minus {claim['than']}" + (f" ({claim['unit']})" if claim["unit"] else ""))
    return figure


def _sweep_figure(sweeps: Sequence[Mapping[str, Any]]) -> Any:
    """Difference of MaxSup to label smoothing against the share of training images that stay wrong."""
    shown = [sweep for sweep in sweeps if sweep["points"]]
    figure, [axes] = panels(1, len(shown), width=WIDE, height=2.6)
    for panel, sweep in zip(axes, shown, strict=True):
        panel.axhline(0, color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))
        for wrong, mean, low, high in sweep["points"]:
            panel.plot([100 * wrong] * 2, [100 * low, 100 * high], color="black", linewidth=1.2)
            panel.plot([100 * wrong], [100 * mean], "o", color="black", markersize=4)
        slope, intercept = sweep["slope"], sweep["intercept"]
        if math.isfinite(slope):
            end = max(point[0] for point in sweep["points"])
            panel.plot([0, 100 * end], [100 * intercept, 100 * (intercept + slope * end)], color=GREY, linewidth=1)
        panel.set_xlim(left=0)
        panel.set_title(sweep["title"])
        panel.set_xlabel("training images wrong (%)")
    axes[0].set_ylabel("accuracy, MaxSup - LS (points)")
    return figure
