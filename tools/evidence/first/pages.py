"""Pages of evidence: the table of claims, a page for each claim, the page of pools, and their figures."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.figures.comparisons import Difference, differences_figure
from maxsup.lab.figures.style import Look, loss_look, save
from maxsup.lab.reports.summary import join_words
from maxsup.metrics.facts import Fact, fact
from tools.evidence.first.figures import claim_figure, claims_figure, strengths_figure, widths_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Entry = Mapping[str, Any]

_DRAWN = ("test.accuracy", "test.confidence_correct", "test.confidence_wrong")
_MIN_PAIRS = 3
_POOLS_HEAD = """\
# Pools

Means over seeds of every loss, from [results](results). The last columns are the mean paired difference in accuracy
to label smoothing with Student's 95 % interval, Student's p, and p after Holm's correction over the comparisons of the
pool. Intervals cover seeds and not the choice of the test images. Nothing is judged here; the [claims](README.md) are.
The [protocol](protocol.md) has the settings.
"""
_POOLS_CAPTION = (
    "MaxSup minus label smoothing at equal alpha in every pool; hollow where the 95 % interval over seeds holds 0"
)
_CLAIM_HEAD = """\
# {states}

**{verdict} at this scale ({size}).** {because}.

- Paper: {label}, {paper}.
- Number: `{number}` of {names}: {claim} minus {than}{images}.
- Claimed: {direction}; margin {margin_text}.
- Scale: {scale}.
- Rule, and what was changed after it: [protocol](../protocol.md).

```
maxsup study run {study} --scale small --data-root DIR
python -m tools.evidence.first collect studies/runs
python -m tools.evidence.first report
```
"""


def write_evidence(
    folder: Path,
    claims: Sequence[Entry],
    sweeps: Sequence[Entry] = (),
    pools: Sequence[Entry] = (),
    strengths: Sequence[Entry] = (),
    texts: Sequence[Entry] = (),
) -> list[Path]:
    """Write the table of claims into ``README.md``, texts into their pages, a page for each claim, pools and figures.

    Args:
        folder: The folder of evidence; what stands around the marks of a table or a text stays.
        claims: An entry per claim: the claim, its verdict, the differences of its seeds, and the same when tuned.
        sweeps: An entry per sweep of widths: its name, its points and its line.
        pools: An entry per pool: means of its losses, and MaxSup minus label smoothing.
        strengths: An entry per pool that was tuned: accuracies of its trials.
        texts: An entry per text with numbers: its name, the path of its page from the folder, and its words.
    """
    pages = pages_of(folder, claims, pools, texts)
    for path, content in pages.items():
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
    return [*pages, *pictures]


def pages_of(
    folder: Path, claims: Sequence[Entry], pools: Sequence[Entry], texts: Sequence[Entry] = ()
) -> dict[Path, str]:
    """What :func:`write_evidence` writes into pages, by path."""
    pages = {folder / "claims" / f"{claim['name']}.md": claim_page(claim) for claim in claims}
    pages[folder / "pools.md"] = pools_page(pools)
    table = {"name": "claims", "page": "README.md", "text": f"{claims_table(claims)}\n\n{tuned_table(claims)}"}
    for each in (table, *texts):
        path = Path(os.path.normpath(folder / each["page"]))
        page = pages.get(path) or path.read_text(encoding="utf-8")
        pages[path] = with_text(page, each["name"], each["text"], str(path))
    return pages


def with_text(page: str, name: str, text: str, source: str) -> str:
    r"""The page with a text between the marks of its name.

    Example:
        >>> with_text("<!-- b: written by tools.evidence.first -->\nold\n<!-- end of b -->\n", "b", "New.", "page.md")
        '<!-- b: written by tools.evidence.first -->\n\nNew.\n\n<!-- end of b -->\n'
    """
    begin, end = f"<!-- {name}: written by tools.evidence.first -->", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise MaxsupError(f"{source} must hold the lines {begin!r} and {end!r} once, in this order. Add them.")
    head, tail = page.split(begin)[0], page.split(end)[1]
    return f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}"


def claims_table(claims: Sequence[Entry]) -> str:
    """The table of claims in Markdown: what the paper says, what was found, the verdict; below it, every scale once."""
    head = ["claim", "paper", "here: difference [95 % interval]", "p", "p (Holm)", "exact p", "verdict at this scale"]
    lines = [_line(*head, "setting"), "|---" * (len(head) + 1) + "|"]
    for claim in claims:
        title = f"[{claim['states']}](claims/{claim['name']}.md) ({claim['label']})"
        verdict = f"**{claim['word']}**: {verdict_reason(claim)}"
        tests = [_p_text(claim["p"]), _corrected_text(claim), _p_text(claim["exact_p"])]
        lines.append(_line(title, claim["paper"], difference_text(claim), *tests, verdict, f"`{claim['setting']}`"))
    scales = {claim["setting"]: claim["scale"] for claim in claims}
    lines += ["", "The scale of each setting beside the paper's:", ""]
    return "\n".join([*lines, *(f"- `{setting}`: {scale}." for setting, scale in scales.items())])


def tuned_table(claims: Sequence[Entry]) -> str:
    """The claims whose losses were both tuned, in Markdown; empty where none was."""
    tuned = [(claim, claim["tuned"]) for claim in claims if claim["tuned"] and claim["tuned"]["num_pairs"]]
    if not tuned:
        return ""
    head = ["claim", "losses with tuned strengths", "strengths", "difference [95 % interval]", "by the same rule"]
    lines = ["With tuned strengths:", "", _line(*head), "|---" * len(head) + "|"]
    for claim, found in tuned:
        contrast = f"{found['claim']} against {found['than']}"
        title, verdict = f"[{claim['name']}](claims/{claim['name']}.md)", f"{found['word']}: {found['reason']}"
        lines.append(_line(title, contrast, strengths_text(found), difference_text(found), verdict))
    return "\n".join(lines) + "\n"


def strengths_text(claim: Entry) -> str:
    """Whether two losses are compared at one strength.

    Example:
        >>> strengths_text({"claim": "maxsup alpha=0.2", "than": "ls alpha=0.1"})
        'different: 0.2 against 0.1'
    """
    own, other = (loss.partition("=")[2].partition(" ")[0] for loss in (claim["claim"], claim["than"]))
    if not own or not other:
        return "one loss has none"
    return f"equal: {own}" if own == other else f"different: {own} against {other}"


def verdict_reason(claim: Entry) -> str:
    """Why a verdict is what it is, whether it stands after correction, and what it does not show."""
    reason = str(claim["reason"])
    if claim["word"] != "inconclusive" and claim["num_family"] > 1:
        stands = "stands" if claim["holds_after_correction"] else "does not stand"
        reason += f"; it {stands} after Holm's correction over the {claim['num_family']} claims of its pool"
    return f"{reason}; but {claim['caveat']}" if claim["caveat"] else reason


def _corrected_text(claim: Entry) -> str:
    return _p_text(claim["holm_p"]) if claim["num_family"] > 1 else "-"


def _p_text(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.2g}"


def verdicts_in(page: str) -> dict[str, str]:
    """The verdicts in a table of claims, by name of the claim.

    Example:
        >>> verdicts_in("| [It helps.](claims/help.md) (tab:a) | +1 | - | **inconclusive**: no paired seeds |")
        {'help': 'inconclusive'}
    """
    return dict(re.findall(r"\]\(claims/(\w+)\.md\).*\*\*([\w ]+)\*\*:", page))


def claim_page(claim: Entry) -> str:
    """The page of a claim: question, verdict, figure, numbers of every seed, limits, and how to repeat it."""
    reason, images = verdict_reason(claim), [f"{n:,}" for n in claim["test_images"]]
    words = {
        "verdict": claim["word"].capitalize() + (" by the rule, with a caveat," if claim["caveat"] else ""),
        "because": reason[0].upper() + reason[1:],
        "names": ", ".join(claim["pools"]),
        "images": f", on {join_words(images)} test images" if images else "",
        "margin_text": _with_unit(format(claim["margin"], "g"), claim["unit"]),
    }
    lines = [_CLAIM_HEAD.format(**claim, **words)]
    if claim["num_pairs"]:
        lines += [*_difference_lines(claim), ""]
        if claim["num_pairs"] > 1:
            level = 90 if claim["is_about_equality"] else 95
            shown = f"Difference of every seed, their mean with its {level} % interval over seeds, the margin in grey"
            lines += [f"![{shown}](../figures/{claim['name']}.svg)", ""]
        units = {"points": " (%)", "%": " (%)"}.get(claim["unit"], "")
        difference = f"difference ({claim['unit']})" if claim["unit"] else "difference"
        lines += [_line("seed", claim["claim"] + units, claim["than"] + units, difference), "|---|---|---|---|"]
        lines += [f"| {seed} | {own:.4g} | {other:.4g} | {own - other:+.3g} |" for seed, own, other in claim["values"]]
    else:
        lines.append("No results yet.")
    tuned = claim["tuned"]
    if tuned and tuned["num_pairs"]:
        found = f"{difference_text(tuned)}, {tuned['num_pairs']} paired seeds: {tuned['word']} ({tuned['reason']})"
        lines += ["", f"**With tuned strengths** ({tuned['claim']} minus {tuned['than']}): {found}."]
        if strengths_text(tuned).startswith("different"):
            lines.append("Both strengths differ, so the difference is one of loss and strength together.")
    if claim["note"]:
        lines += ["", f"**What it means.** {claim['note']}"]
    return "\n".join([*lines, "", f"**Limits.** {claim['limits']}"]) + "\n"


def _difference_lines(claim: Entry) -> list[str]:
    """The difference, its intervals and its tests, each with its name."""
    keys = ("mean", "low", "high", "equal_low", "equal_high")
    mean, *ends = (f"{claim[key]:+.{_digits(claim)}f}" for key in keys)
    lines = [f"{_with_unit(mean, claim['unit'])} on average over {claim['num_pairs']} paired seeds."]
    if claim["num_pairs"] == 1:
        return lines
    return [
        *lines,
        f"Student's intervals: [{ends[0]}, {ends[1]}] at 95 %, for a difference; [{ends[2]}, {ends[3]}] at 90 %, for",
        "equality (two one-sided tests at 5 %). They cover seeds and not the choice of the test images.",
        f"p = {claim['difference_p']:.2g} against no difference (Student's t; sign flips {claim['exact_p']:.2g}),",
        f"p = {claim['equality_p']:.2g} against a difference beyond the margin (the larger of two one-sided t tests).",
    ]


def _digits(claim: Entry) -> int:
    return max(0, -math.floor(math.log10(claim["margin"]))) + 1


def difference_text(claim: Entry) -> str:
    """``+0.31 points [+0.10, +0.52]``; where equality is asked or found, with the 90 % interval that it is judged by.

    A dash without pairs, and no interval for a single pair.
    """
    if not claim["num_pairs"]:
        return "-"
    keys = ("mean", "low", "high", "equal_low", "equal_high")
    mean, low, high, *inner = (f"{claim[key]:+.{_digits(claim)}f}" for key in keys)
    interval = f" [{low}, {high}]" if claim["num_pairs"] > 1 else ""
    if interval and claim["is_about_equality"]:
        interval += f"; 90 %: [{inner[0]}, {inner[1]}]"
    return f"{_with_unit(mean, claim['unit'])}{interval}"


def pools_page(pools: Sequence[Entry]) -> str:
    """Every pool in Markdown: means over seeds, and the paired difference in accuracy to label smoothing."""
    lines = [_POOLS_HEAD]
    if any(map(_is_drawn, pools)):
        lines += [f"![{_POOLS_CAPTION}](figures/pools.svg)", ""]
    for pool in pools:
        facts = [_fact(number) for number in pool["numbers"]]
        head = ["loss", "seeds", *(known.axis for known in facts), "accuracy against label smoothing (points)"]
        head += ["p", "p (Holm)"]
        lines += [f"## {pool['pool']}", "", _line(*head), "|---" * len(head) + "|"]
        for row in pool["rows"]:
            means = [
                "-" if mean is None else f"{known.factor * mean:.{known.digits}f}"
                for mean, known in zip(row["means"], facts, strict=True)
            ]
            tests = (_p_text(row["p"]), _p_text(row["holm_p"]))
            lines.append(_line(row["loss"], str(row["num_seeds"]), *means, _points(row["difference"]), *tests))
        lines.append("")
    return "\n".join(lines)


def pools_figure(pools: Sequence[Entry]) -> Figure:
    """MaxSup minus label smoothing in every pool with enough pairs; filled if the interval does not hold 0."""
    drawn = {pool["pool"]: pool for pool in pools if _is_drawn(pool)}
    look, panels = loss_look("maxsup"), []
    for number in _DRAWN:
        known, found = _fact(number), dict[str, Difference]()
        for name, pool in drawn.items():
            if pool["contrast"].get(number) is not None:
                mean, low, high = (known.factor * value for value in pool["contrast"][number][:3])
                found[name] = Difference(mean, low, high, is_conclusive=low > 0 or high < 0)
        panels.append((known.title, "MaxSup - LS" + (" (points)" if known.factor == 100 else ""), found))
    return differences_figure(
        panels, {name: Look(_pool_label(pool), look.color, look.marker) for name, pool in drawn.items()}
    )


def _pool_label(pool: Entry) -> str:
    """The pool with what its rows do not share: the strength of both losses and the number of pairs."""
    strength, num_pairs = pool["losses"][0].partition(" ")[2], pool["contrast"][_DRAWN[0]][3]
    return f"{pool['pool']}, {strength}, {num_pairs} seeds"


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
