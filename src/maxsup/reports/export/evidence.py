"""Pages of evidence: the table of claims, a page a claim and two figures, from verdicts and the numbers behind."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError
from maxsup.core.files.rundir import RunDir
from maxsup.figures.evidence import claim_figure, claims_figure, widths_figure
from maxsup.figures.style import save
from maxsup.reports.export.pools import has_figure, pools_figure, pools_page

BEGIN, END = "<!-- claims: written by maxsup report -->", "<!-- end of claims -->"


def write_evidence(
    folder: Path,
    claims: Sequence[Mapping[str, Any]],
    sweeps: Sequence[Mapping[str, Any]],
    pools: Sequence[Mapping[str, Any]],
) -> list[Path]:
    """Write the table into ``README.md``, a page for each claim, the page of pools and the figures.

    Args:
        folder: Of evidence; what stands in its ``README.md`` around the table stays.
        claims: One entry a claim: the claim, its verdict, and the differences of its seeds.
        sweeps: One entry a sweep of widths: its name, its points and its line.
        pools: One entry a pool: means of its losses, and MaxSup minus label smoothing.
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
    target.write_text(folder / "pools.md", pools_page(pools))
    written.append(folder / "pools.md")
    figures = {"claims": claims_figure(claims)}
    if has_figure(pools):
        figures["pools"] = pools_figure(pools)
    figures |= {claim["name"]: claim_figure(claim) for claim in claims if claim["num_pairs"] > 1}
    shown = [sweep for sweep in sweeps if sweep["points"]]
    if shown:
        figures["widths"] = widths_figure(shown)
    for name, figure in figures.items():
        written += save(figure, folder / "figures", name)
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
