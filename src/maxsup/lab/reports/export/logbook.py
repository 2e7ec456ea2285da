"""A logbook of comparisons and studies: a page for each question, the numbers of every seed, and an index.

::

    README.md      the questions and the findings
    NAME.md        question, verdict, command, hardware, scale, table, figure, limits
    NAME.csv       a line per loss and seed, a column per number, in stored units
    figures/       the figures of the pages
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from maxsup.core.errors import MaxsupError
from maxsup.lab.core.files.records import RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.figures.style import save
from maxsup.lab.reports.blocks import anchor, csv_text
from maxsup.lab.reports.folders import FolderView, drop_paths, folders_in, map_texts, read_view
from maxsup.lab.reports.plots import differences_plot, seeds_plot
from maxsup.lab.reports.report import ERRATA_PAGE, short_verdicts
from maxsup.lab.reports.summary import Summary
from maxsup.lab.reports.tables import differences_table, markdown_text, results_table


def write_logbook(commands: Mapping[Path, Sequence[str]], output: Path) -> list[Path]:
    """Write a page for each folder, with the command that repeats it; returns the files, the index first."""
    target, index = RunDir(output), output / "README.md"
    written, lines = [index], ["# Logbook", "", "| question | what was found |", "|---|---|"]
    for place, (folder, command) in enumerate(commands.items()):
        view = read_view(folder)
        summary = _public(view)
        if not summary.num_done:
            raise MaxsupError(
                f"comparison must have a finished run; got {str(folder)!r}, which has none. "
                f"Give its command again: {shlex.join(command)}."
            )
        name = anchor(" ".join([summary.name, summary.scale])) or "question"
        name = name if len(commands) == 1 else f"{place + 1}-{name}"
        figures = []
        for plot in (differences_plot(summary), seeds_plot(summary)):
            if plot is not None:
                written += save(plot.figure, output / "figures", f"{name}-{plot.name}")
                figures += [f"![{markdown_text(plot.title)}](figures/{name}-{plot.name}.png)", "", plot.description, ""]
        texts = {f"{name}.md": _page(view, summary, command, figures, name), f"{name}.csv": seeds_csv(summary)}
        for path, text in texts.items():
            target.write_text(output / path, text)
            written.append(output / path)
        lines.append(f"| [{markdown_text(summary.question)}]({name}.md) | {_verdict(summary)} |")
    target.write_text(index, "\n".join(lines) + "\n")
    return written


def _public(view: FolderView) -> Summary:
    """The summary without the folders that recipes of its runs name; its sentences may name them too."""
    folders = sorted(set().union(*(folders_in(run.recipe) for run in view.runs)), key=len, reverse=True)

    def shortened(text: str) -> str:
        for folder in folders:
            text = text.replace(folder, "")
        return text

    return Summary.model_validate(map_texts(view.summary.model_dump(mode="json"), shortened))


def seeds_csv(summary: Summary) -> str:
    """A line per loss and seed, a column per number."""
    rows = [
        [entry.title, entry.group, seed, *(entry.number(metric).values.get(str(seed)) for metric in summary.metrics)]
        for entry in summary.losses
        for seed in summary.seeds
    ]
    return csv_text(["loss", "group", "seed", *(metric.name for metric in summary.metrics)], rows)


def _page(view: FolderView, summary: Summary, command: Sequence[str], figures: Sequence[str], name: str) -> str:
    tables = [table(summary).markdown() for table in (results_table, differences_table)]
    lines = [
        f"# {markdown_text(summary.title)}",
        "",
        f"**Question.** {markdown_text(summary.question)}",
        "",
        f"**Verdict.** {_verdict(summary)}",
        "",
        *_section("Command", ["```", shlex.join(drop_paths(command)), "```"]),
        *_section("Hardware and versions", _hardware(view, summary)),
        *_section("Scale relative to the paper", [markdown_text(_scale(summary))]),
        *_section("Results", [*tables, markdown_text(summary.bold_rule)]),
        *_section("Figures", figures),
        *_section("What each number shows", _bullets(f"{title}: {text}" for title, text in short_verdicts(summary))),
        *_section("What was chosen", _bullets(f"{one.what}: {one.choice}" for one in summary.unstated)),
        *_section("Limits", _bullets(_limits(summary))),
        f"Numbers of every seed: [{name}.csv]({name}.csv).",
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []


def _bullets(items: Iterable[str]) -> list[str]:
    return [f"- {markdown_text(item)}" for item in items]


def _verdict(summary: Summary) -> str:
    return " ".join(map(markdown_text, summary.conclusions)) or "Nothing was compared."


def _hardware(view: FolderView, summary: Summary) -> list[str]:
    found, done = summary.environment, [RunDir(run.path).summary for run in view.runs if run.status == "done"]
    hours = sum(read_record(RunSummary, path).seconds for path in done) / 3600
    machine = f"{found.get('cpu')}, {found.get('num_cores')} cores; device {found.get('device')}"
    versions = f"maxsup {found.get('maxsup')}, Python {found.get('python')}, torch {found.get('torch')}"
    return [
        *_bullets([machine, versions]),
        *([f"- commit `{found['git_commit']}`"] if found.get("git_commit") else []),
        f"- {summary.num_done} of {len(view.runs)} runs, {hours:.2g} hours of training in all",
    ]


def _scale(summary: Summary) -> str:
    text = f"{summary.label} in the paper's own setting."
    if not summary.is_study:
        text = "This is a comparison of its own and no experiment of the paper."
    elif summary.is_reduced:
        text = f"{summary.label} at the scale {summary.scale}, which is not the paper's experiment."
    return f"{text} {summary.note.strip()}".strip()


def _limits(summary: Summary) -> list[str]:
    found = []
    if summary.missing:
        found.append(f"{summary.missing}; the tables show the gaps.")
    if summary.is_reduced:
        found.append("The scale is reduced: this repeats the question of the paper and not its numbers.")
    if summary.errata:
        found.append(f"Paper and released code disagree where {ERRATA_PAGE} says: {', '.join(summary.errata)}.")
    found.append(f"The findings hold for this data, network and budget, over {len(summary.seeds)} paired seeds.")
    return found
