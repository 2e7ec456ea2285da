"""The report of comparisons and studies: one page, and tables in four formats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.reports.blocks import (
    Banner,
    Block,
    Bullets,
    Chapter,
    Definitions,
    Glance,
    Log,
    Mark,
    Page,
    Section,
    Text,
    Verdicts,
    anchor,
)
from maxsup.lab.reports.figure_sections import FIGURES, finding_blocks
from maxsup.lab.reports.folders import FolderView, read_view
from maxsup.lab.reports.page import page_html
from maxsup.lab.reports.summary import DIFFERENT, Finding, LossNumber, Summary, SummaryMetric, join_words
from maxsup.lab.reports.tables import MainTable, differences_table, results_table, runs_table
from maxsup.metrics.facts import Direction

ERRATA_PAGE = "docs/errata.md"


def write_report(
    *folders: Path, output: Path | None = None, on_left_out: Callable[[str], None] | None = None
) -> list[Path]:
    """Write ``report.html`` and ``tables/``; nothing is trained or analysed.

    Args:
        folders: Comparisons or studies, each with its ``summary.json``; each becomes a chapter of the page.
        output: Where the files go, by default the first folder. Each of several folders has its own folder of tables.
        on_left_out: Called with a sentence about each result that could not be drawn; the page shows it too.

    Returns:
        The files, the page first. The same input gives the same bytes.
    """
    if not folders:
        raise ValueError("write_report needs at least one folder. Give the output folder of maxsup compare.")
    views = [read_view(Path(folder)) for folder in folders]
    target = RunDir(output or folders[0])
    files = {target.path / "report.html": report_page(views)}
    for number, view in enumerate(views, start=1):
        folder = target.path / "tables"
        folder = folder if len(views) == 1 else folder / f"{number}-{anchor(view.summary.name) or 'table'}"
        for table in (results_table(view.summary), differences_table(view.summary), runs_table(view.summary)):
            files |= {folder / f"{table.name}.{ending}": content for ending, content in table.files().items()}
    for path, content in files.items():
        target.write_text(path, content)
    if on_left_out is not None:
        for sentence in (sentence for view in views for sentence in view.complaints):
            on_left_out(sentence)
    return list(files)


def report_page(views: Sequence[FolderView]) -> str:
    """Return the page as HTML, with a chapter for each folder."""
    with warnings.catch_warnings():
        # The browser has other fonts for characters that the figures' font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        chapters = [_chapter(view, number, is_alone=len(views) == 1) for number, view in enumerate(views, start=1)]
        title = chapters[0].title if len(views) == 1 else f"{len(views)} comparisons"
        return page_html(Page(title, chapters))


def short_verdicts(summary: Summary) -> list[tuple[str, str]]:
    """Return a sentence per metric: which losses are better, which are worse, and which are undecided."""
    titles: dict[str, list[str]] = {}
    for group in dict.fromkeys(entry.group for entry in summary.losses):
        losses = [entry for entry in summary.losses if entry.group == group and not entry.is_baseline]
        for metric in summary.metrics:
            found = {entry.title: entry.number(metric) for entry in losses}
            numbers = {title: number for title, number in found.items() if not math.isnan(number.difference)}
            if numbers:
                sentence = _short_sentence(numbers, metric.direction, summary.baseline_title)
                titles.setdefault(sentence, []).append(", ".join(word for word in (group, metric.label) if word))
    # A sentence that holds for several metrics is written once.
    return [(join_words(names), sentence) for sentence, names in titles.items()]


_LEVELS: Mapping[Finding, tuple[str, str]] = {
    "better": ("good", "better"),
    "worse": ("error", "worse"),
    "higher": ("note", "higher"),
    "lower": ("note", "lower"),
    "equal": ("good", "no difference"),
    "open": ("unknown", "inconclusive"),
    "too few seeds": ("unknown", "too few seeds"),
}


def glance_blocks(summary: Summary) -> list[Block]:
    """Return a table with a verdict word for each number and loss, for comparisons without groups."""
    losses = [entry for entry in summary.losses if not entry.is_baseline]
    if not losses or any(entry.group for entry in losses):
        return []
    rows = [(metric.title, [_mark(entry.number(metric), metric) for entry in losses]) for metric in summary.metrics]
    caption = (
        f"Against {summary.baseline_title}: mean difference over paired seeds with its 95 % interval; "
        "\N{DAGGER} holds after Holm's correction for all losses."
    )
    shown = [(title, marks) for title, marks in rows if any(marks)]
    return [Glance(caption, [entry.title for entry in losses], shown)] if shown else []


def _mark(number: LossNumber, metric: SummaryMetric) -> Mark | None:
    finding = number.finding(metric.direction)
    if finding == "nothing":
        return None
    level, word = _LEVELS[finding]
    dagger = " \N{DAGGER}" if finding in DIFFERENT and number.holds_after_correction else ""
    ends = "" if math.isnan(number.low) else f" [{metric.signed(number.low)}, {metric.signed(number.high)}]"
    size = f"{metric.signed(number.difference)} {metric.difference_unit}".rstrip()
    return Mark(level, f"{word}{dagger}", f"{size}{ends}")


def _chapter(view: FolderView, number: int, *, is_alone: bool) -> Chapter:
    prefix, names = ("", "") if is_alone else (f"{number}-", f"c{number}-")
    summary = view.summary
    choices = "What the paper says, and what it leaves open" if summary.is_study else "What was chosen"
    verdicts = [(entry.title, entry.sentences) for entry in summary.verdicts if entry.sentences]
    environment = [(str(key), str(value)) for key, value in summary.environment.items()]
    found: dict[str, Sequence[Block]] = {
        "What was found": [*glance_blocks(summary), *finding_blocks(view, names)],
        "Results": _results_blocks(summary),
        "What this shows, number by number": [Verdicts(short_verdicts(summary), verdicts)] if verdicts else [],
        **{title: [block for make in makes for block in make(view, names)] for title, makes in FIGURES.items()},
        choices: _choice_blocks(summary),
        "Runs": _run_blocks(view),
        "Environment": [Definitions(environment)] if environment else [],
    }
    sections = [Section(title, blocks, prefix) for title, blocks in found.items() if blocks]
    # Banners come last: drawing finds some of what they say.
    return Chapter(summary.title, sections, summary.question, _facts(summary), _banners(view), f"chapter-{number}")


def _banners(view: FolderView) -> list[Banner]:
    """Warnings at the top: a reduced scale, missing runs, results that were left out."""
    summary, found = view.summary, []
    if summary.is_reduced:
        text = summary.note or "The numbers show that the study works and say nothing about the paper's results."
        found.append(Banner(f"{summary.scale.upper()} SCALE: this is not the paper's experiment", text))
    if summary.missing:
        text = (
            f"{summary.missing}. The tables show the gaps, and the list of runs at the end says what happened to each."
        )
        found.append(Banner("Some runs are missing", text, "error"))
    if view.complaints:
        found.append(Banner("Some results are not shown", " ".join(view.complaints)))
    return found


def _facts(summary: Summary) -> dict[str, str]:
    """Return names and values under the title."""
    done, planned = summary.num_done, len(summary.runs)
    found = {
        "Baseline": summary.baseline_title,
        "Paired seeds": str(len(summary.seeds)),
        "Runs": str(done) if done == planned else f"{done} of {planned}",
        "In the paper": summary.label,
        "Scale": summary.scale.upper() if summary.is_reduced else summary.scale,
    }
    titles = {"device": "Device", "torch": "torch", "maxsup": "maxsup"}
    known = {title: str(summary.environment[key]) for key, title in titles.items() if key in summary.environment}
    return {title: text for title, text in found.items() if text} | known


def _results_blocks(summary: Summary) -> list[Block]:
    """Return the main table, how to read its cells, and the rule for bold print."""
    notes = [Text(summary.note)] if summary.note and not summary.is_reduced else []
    whole = MainTable(results_table(summary), (differences_table(summary),))
    has_published = any(cell.published for line in summary.table.cells.values() for cell in line.values())
    published = " Numbers marked with their label are those of the paper." if has_published else ""
    how_to_read = (
        f"Below each mean are the mean difference to {summary.baseline_title} over paired seeds with its 95 % "
        "interval, the p of its sign-flip test, and p after Holm's correction for all losses."
        f"{published} {summary.bold_rule}".rstrip()
    )
    return [*notes, whole, Text(how_to_read)]


def _short_sentence(numbers: Mapping[str, LossNumber], direction: Direction, baseline: str) -> str:
    findings = {title: number.finding(direction) for title, number in numbers.items()}
    shown = {title: number for title, number in numbers.items() if findings[title] in DIFFERENT}
    words = [
        f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {word} than {baseline}"
        for word in DIFFERENT
        if (names := [title for title, finding in findings.items() if finding == word])
    ]
    if rest := [title for title in numbers if title not in shown]:
        words.append(f"nothing can be concluded about {join_words(rest)}")
    text = "; ".join(words)
    has_proof = any(number.holds_after_correction for number in shown.values())
    if shown and not has_proof and len(numbers) > 1:
        text += f". Taken together, the {len(numbers)} comparisons prove none of this: read it as leads"
    return f"{text[0].upper() if not shown else text[0]}{text[1:]}."


def _choice_blocks(summary: Summary) -> list[Block]:
    """Return what the paper states, what it leaves open and what was chosen, and its contradictions."""
    blocks: list[Block] = []
    if summary.stated:
        blocks += [Text("What the paper states:"), Bullets(summary.stated)]
    if summary.unstated:
        blocks += [Text("What it leaves open, and what is done here:")] if summary.is_study else []
        blocks.append(Definitions([(entry.what, entry.choice) for entry in summary.unstated]))
    if summary.errata:
        intro = f"Contradictions of paper and released code that matter here, by their names in {ERRATA_PAGE}:"
        blocks += [Text(intro), Bullets(summary.errata)]
    return blocks


def _run_blocks(view: FolderView) -> list[Block]:
    """Return all runs, and the last lines of the logs of failed runs."""
    logs = [
        Log(f"End of the log: {run.title}, seed {run.seed}", text)
        for run in view.runs
        if run.status != "done" and (text := run.log_end())
    ]
    return [MainTable(runs_table(view.summary)), *logs]
