"""Sections of a report in words and tables: what was asked, what was found, what was chosen, what failed."""

from __future__ import annotations

from collections.abc import Mapping

from maxsup.reports.blocks import Banner, Block, Bullets, Definitions, Log, Text, Verdicts
from maxsup.reports.folders import FolderView
from maxsup.reports.sections.tables import differences_table, results_table, runs_table
from maxsup.reports.summary import LossNumber, Summary, listed
from maxsup.reports.tables import MainTable

ERRATA_PAGE = "docs/errata.md"


def banners(view: FolderView) -> list[Banner]:
    """Warnings that stand above everything: a reduced scale, runs that failed, results that were left out."""
    summary, found = view.summary, []
    if summary.is_reduced:
        text = summary.note or "The numbers show that the study works and say nothing about the paper's."
        found.append(Banner(f"{summary.scale.upper()} SCALE: this is not the paper's experiment", text))
    if num_missing := len(summary.runs) - summary.num_done:
        text = (
            f"{num_missing} of {len(summary.runs)} runs {'is' if num_missing == 1 else 'are'} not there; the tables "
            "show the holes, and the list of runs at the end says what happened to each."
        )
        found.append(Banner("Some runs are missing", text, "error"))
    if view.complaints:
        found.append(Banner("Some results are not shown", " ".join(view.complaints)))
    return found


def results_blocks(view: FolderView) -> list[Block]:
    """The main table, what the lines of a cell are, and the rule of bold print."""
    summary = view.summary
    notes = [summary.note] if summary.note and not summary.is_reduced else []
    whole = MainTable(results_table(summary), (differences_table(summary),))
    has_published = any(cell.published for line in summary.table.cells.values() for cell in line.values())
    published = " Numbers marked with their label are those of the paper." if has_published else ""
    how_to_read = (
        f"Under each mean stands the mean difference to {summary.baseline_title} over paired seeds with its 95 % "
        "interval, the p of its sign-flip test, and p after Holm's correction for all losses."
        f"{published} {summary.bold_rule}".rstrip()
    )
    return [*(Text(note) for note in notes), whole, Text(how_to_read)]


def verdict_blocks(view: FolderView) -> list[Block]:
    """What the numbers show, in words."""
    items = [(entry.title, entry.sentences) for entry in view.summary.verdicts if entry.sentences]
    return [Verdicts(short_verdicts(view.summary), items)] if items else []


def short_verdicts(summary: Summary) -> list[tuple[str, str]]:
    """A sentence a metric: which losses are better, which worse, and of which nothing can be said."""
    found = []
    for group in dict.fromkeys(entry.group for entry in summary.losses):
        losses = [entry for entry in summary.losses if entry.group == group and not entry.is_baseline]
        for metric in summary.metrics:
            numbers = {entry.title: entry.number(metric) for entry in losses}
            numbers = {title: number for title, number in numbers.items() if number.difference is not None}
            if numbers:
                title = ", ".join(word for word in (group, metric.label) if word)
                found.append((title, _short_sentence(numbers, metric.direction, summary.baseline_title)))
    # What is said of several numbers alike is said once.
    titles: dict[str, list[str]] = {}
    for title, sentence in found:
        titles.setdefault(sentence, []).append(title)
    return [(listed(names), sentence) for sentence, names in titles.items()]


def _short_sentence(numbers: Mapping[str, LossNumber], direction: str, baseline: str) -> str:
    shown = {title: number for title, number in numbers.items() if number.is_conclusive}
    words = []
    for is_first, better, other in ((True, "better", "higher"), (False, "worse", "lower")):
        if direction == "none":
            names = [title for title, number in shown.items() if ((number.difference or 0) > 0) == is_first]
        else:
            names = [title for title, number in shown.items() if number.is_better == is_first]
        if names:
            word = other if direction == "none" else better
            words.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} {word} than {baseline}")
    rest = [title for title in numbers if title not in shown]
    if rest:
        words.append(f"nothing can be concluded about {listed(rest)}")
    text = "; ".join(words)
    if shown and not any((number.adjusted_p or 1.0) <= 0.05 for number in shown.values()) and len(numbers) > 1:
        text += f". Taken together, the {len(numbers)} comparisons prove none of this: read it as leads"
    return f"{text[0].upper() if not shown else text[0]}{text[1:]}."


def choice_blocks(view: FolderView) -> list[Block]:
    """What the paper states, what it leaves open and what was done, and where its parts disagree."""
    summary = view.summary
    blocks: list[Block] = []
    if summary.stated:
        blocks += [Text("What the paper states:"), Bullets(summary.stated)]
    if summary.unstated:
        if summary.is_study:
            blocks.append(Text("What it leaves open, and what is done here:"))
        blocks.append(Definitions([(entry.what, entry.choice) for entry in summary.unstated]))
    if summary.errata:
        blocks += [
            Text(f"Contradictions of paper and released code that matter here, by their names in {ERRATA_PAGE}:"),
            Bullets(summary.errata),
        ]
    return blocks


def run_blocks(view: FolderView) -> list[Block]:
    """All runs, and the ends of the logs of those that failed."""
    blocks: list[Block] = [MainTable(runs_table(view.summary))]
    for run in view.runs:
        if run.status != "done" and (text := run.log_end()):
            blocks.append(Log(f"End of the log: {run.title}, seed {run.seed}", text))
    return blocks


def environment_blocks(view: FolderView) -> list[Block]:
    """Where it ran."""
    environment = view.summary.environment
    return [Definitions([(str(key), str(value)) for key, value in environment.items()])] if environment else []


def facts(summary: Summary) -> dict[str, str]:
    """Names and values under the title."""
    done, planned = summary.num_done, len(summary.runs)
    found = {
        "Baseline": summary.baseline_title,
        "Paired seeds": str(len(summary.seeds)),
        "Runs": str(done) if done == planned else f"{done} of {planned}",
    }
    if summary.label:
        found["In the paper"] = summary.label
    if summary.scale:
        found["Scale"] = summary.scale.upper() if summary.is_reduced else summary.scale
    environment = summary.environment
    titles = {"device": "Device", "torch": "torch", "maxsup": "maxsup"}
    found |= {title: str(environment[key]) for key, title in titles.items() if key in environment}
    return found
