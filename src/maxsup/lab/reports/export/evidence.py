"""Pages of evidence: the table of claims, a page for each claim, the page of pools, and their figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.figures.comparisons import (
    Difference,
    claim_figure,
    claims_figure,
    differences_figure,
    strengths_figure,
    widths_figure,
)
from maxsup.lab.figures.style import Look, loss_look, save
from maxsup.metrics.facts import Fact, fact

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Entry = Mapping[str, Any]

BEGIN, END = "<!-- claims: written by maxsup report -->", "<!-- end of claims -->"
_DRAWN = ("test.accuracy", "test.ece", "test.confidence_wrong")
_MIN_PAIRS = 3
_POOLS_HEAD = """\
# Pools

Means over seeds of every loss, from [results](results). The last column is the mean paired difference in accuracy
to label smoothing with Student's 95 % interval. Nothing is judged here; the [claims](README.md) are. The
[protocol](protocol.md) has the settings.
"""
_CLAIM_HEAD = """\
# {states}

**{verdict}** at the small scale: {reason}.

- Paper: {label}, {paper}.
- Number: `{number}` of {names}: {claim} minus {than}.
- Claimed: {direction}; margin {size}.
- Scale: {scale}.

```
maxsup study run {study} --scale small --data-root DIR
maxsup study collect studies/runs
maxsup report docs/evidence
```
"""


def write_evidence(
    folder: Path,
    claims: Sequence[Entry],
    sweeps: Sequence[Entry] = (),
    pools: Sequence[Entry] = (),
    strengths: Sequence[Entry] = (),
) -> list[Path]:
    """Write the table of claims into ``README.md``, a page for each claim, the page of pools and the figures.

    Args:
        folder: The folder of evidence; the text around the table in its ``README.md`` stays.
        claims: An entry per claim: the claim, its verdict, the differences of its seeds, and the same when tuned.
        sweeps: An entry per sweep of widths: its name, its points and its line.
        pools: An entry per pool: means of its losses, and MaxSup minus label smoothing.
        strengths: An entry per pool that was tuned: accuracies of its trials.
    """
    page = folder / "README.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else f"# Evidence\n\n{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise MaxsupError(
            f"{page} must hold the lines {BEGIN!r} and {END!r} once. Put the table of claims between them."
        )
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    texts = {
        page: f"{head}{BEGIN}\n\n{claims_table(claims)}\n\n{tuned_table(claims)}{END}{tail}",
        **{folder / "claims" / f"{claim['name']}.md": claim_page(claim) for claim in claims},
        folder / "pools.md": pools_page(pools),
    }
    for path, content in texts.items():
        RunDir(folder).write_text(path, content)
    figures = {"claims": claims_figure(claims)}
    if any(map(_is_drawn, pools)):
        figures["pools"] = pools_figure(pools)
    figures |= {claim["name"]: claim_figure(claim) for claim in claims if claim["num_pairs"] > 1}
    if shown := [sweep for sweep in sweeps if sweep["points"]]:
        figures["widths"] = widths_figure(shown)
    if strengths:
        figures["strengths"] = strengths_figure(strengths)
    pictures = [path for name, figure in figures.items() for path in save(figure, folder / "figures", name)]
    return [*texts, *pictures]


def claims_table(claims: Sequence[Entry]) -> str:
    """The table of claims in Markdown: what the paper says, what was found, the verdict; below it, every scale once."""
    lines = ["| claim | paper | here: difference [95 % interval] | verdict | setting |", "|---|---|---|---|---|"]
    for claim in claims:
        title = f"[{claim['states']}](claims/{claim['name']}.md) ({claim['label']})"
        verdict = f"**{claim['word']}**: {claim['reason']}"
        lines.append(_line(title, claim["paper"], difference_text(claim), verdict, f"`{claim['setting']}`"))
    scales = {claim["setting"]: claim["scale"] for claim in claims}
    lines += ["", "The scale of each setting beside the paper's:", ""]
    return "\n".join([*lines, *(f"- `{setting}`: {scale}." for setting, scale in scales.items())])


def tuned_table(claims: Sequence[Entry]) -> str:
    """The claims whose losses were both tuned, in Markdown; empty where none was."""
    tuned = [(claim, claim["tuned"]) for claim in claims if claim["tuned"] and claim["tuned"]["num_pairs"]]
    if not tuned:
        return ""
    head = ["claim", "losses with tuned strengths", "difference [95 % interval]", "by the same rule"]
    lines = ["With tuned strengths:", "", _line(*head), "|---" * len(head) + "|"]
    for claim, found in tuned:
        contrast = f"{found['claim']} against {found['than']}"
        if (found["claim"], found["than"]) == (claim["claim"], claim["than"]):
            contrast += ", the usual strengths"
        title, verdict = f"[{claim['name']}](claims/{claim['name']}.md)", f"{found['word']}: {found['reason']}"
        lines.append(_line(title, contrast, difference_text(found), verdict))
    return "\n".join(lines) + "\n\n"


def verdicts_in(page: str) -> dict[str, str]:
    """The verdicts in a table of claims, by name of the claim.

    Example:
        >>> verdicts_in("| [It helps.](claims/help.md) (tab:a) | +1 | - | **undecided**: no paired seeds |")
        {'help': 'undecided'}
    """
    return dict(re.findall(r"\]\(claims/(\w+)\.md\).*\*\*(\w+)\*\*", page))


def claim_page(claim: Entry) -> str:
    """The page of a claim: question, verdict, figure, numbers of every seed, limits, and how to repeat it."""
    names, size = ", ".join(claim["pools"]), _with_unit(format(claim["margin"], "g"), claim["unit"])
    lines = [_CLAIM_HEAD.format(**claim, verdict=claim["word"].capitalize(), names=names, size=size)]
    if claim["num_pairs"]:
        lines += [f"{difference_text(claim)}, {claim['num_pairs']} paired seeds, exact p = {claim['p']:.3g}.", ""]
        if claim["num_pairs"] > 1:
            lines += [f"![Difference of every seed](../figures/{claim['name']}.svg)", ""]
        lines += [_line("seed", claim["claim"], claim["than"], "difference"), "|---|---|---|---|"]
        lines += [f"| {seed} | {own:.4g} | {other:.4g} | {own - other:+.3g} |" for seed, own, other in claim["values"]]
    else:
        lines.append("No results yet.")
    tuned = claim["tuned"]
    if tuned and tuned["num_pairs"]:
        found = f"{difference_text(tuned)}, {tuned['num_pairs']} paired seeds: {tuned['word']} ({tuned['reason']})"
        lines += ["", f"**With tuned strengths** ({tuned['claim']} minus {tuned['than']}): {found}."]
    return "\n".join([*lines, "", f"**Limits.** {claim['limits']}"]) + "\n"


def difference_text(claim: Entry) -> str:
    """``+0.31 points [+0.10, +0.52]``; a dash without pairs, and no interval for a single pair."""
    if not claim["num_pairs"]:
        return "-"
    digits = max(0, -math.floor(math.log10(claim["margin"]))) + 1
    mean, low, high = (f"{claim[key]:+.{digits}f}" for key in ("mean", "low", "high"))
    interval = f" [{low}, {high}]" if claim["num_pairs"] > 1 else ""
    return f"{_with_unit(mean, claim['unit'])}{interval}"


def pools_page(pools: Sequence[Entry]) -> str:
    """Every pool in Markdown: means over seeds, and the paired difference in accuracy to label smoothing."""
    lines = [_POOLS_HEAD]
    if any(map(_is_drawn, pools)):
        lines += ["![MaxSup minus label smoothing in every pool](figures/pools.svg)", ""]
    for pool in pools:
        facts = [_fact(number) for number in pool["numbers"]]
        head = ["loss", "seeds", *(known.axis for known in facts), "accuracy against label smoothing (points)"]
        lines += [f"## {pool['pool']}", "", _line(*head), "|---" * len(head) + "|"]
        for row in pool["rows"]:
            means = [
                "-" if mean is None else f"{known.factor * mean:.{known.digits}f}"
                for mean, known in zip(row["means"], facts, strict=True)
            ]
            lines.append(_line(row["loss"], str(row["num_seeds"]), *means, _points(row["difference"])))
        lines.append("")
    return "\n".join(lines)


def pools_figure(pools: Sequence[Entry]) -> Figure:
    """MaxSup minus label smoothing in every pool with enough pairs; filled if the interval does not hold 0."""
    drawn = {pool["pool"]: pool["contrast"] for pool in pools if _is_drawn(pool)}
    look, panels = loss_look("maxsup"), []
    for number in _DRAWN:
        known, found = _fact(number), dict[str, Difference]()
        for pool, contrast in drawn.items():
            if contrast.get(number) is not None:
                mean, low, high = (known.factor * value for value in contrast[number][:3])
                found[pool] = Difference(mean, low, high, is_conclusive=low > 0 or high < 0)
        panels.append((known.title, "points" if known.factor == 100 else "", found))
    return differences_figure(panels, {pool: Look(pool, look.color, look.marker) for pool in drawn})


def _is_drawn(pool: Entry) -> bool:
    found = pool["contrast"].get(_DRAWN[0])
    return found is not None and found[3] >= _MIN_PAIRS


def _fact(number: str) -> Fact:
    """The facts of ``SOURCE.NAME``; the title of a probe starts with its data."""
    source, _, name = number.partition(".")
    known = fact(name)
    if source in ("test", "collapse", "masks"):
        return known
    return replace(known, title=f"{source.replace('_', ' ')}: {known.title}")


def _points(found: Sequence[float] | None) -> str:
    if found is None:
        return "-"
    mean, low, high = (f"{100 * value:+.2f}" for value in found[:3])
    return f"{mean} [{low}, {high}]" if found[3] > 1 else mean


def _with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}".rstrip()


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
