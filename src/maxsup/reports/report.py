"""The report of comparisons and studies: one page, and tables in four formats, from what is on disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from maxsup.core.files.rundir import RunDir
from maxsup.reports.blocks import Block, Chapter, Page, Section, anchor
from maxsup.reports.folders import FolderView, read_view
from maxsup.reports.page import page_html
from maxsup.reports.sections.figures import FIGURES, figure_blocks, finding_blocks
from maxsup.reports.sections.tables import differences_table, results_table, runs_table
from maxsup.reports.sections.words import (
    banners,
    choice_blocks,
    environment_blocks,
    facts,
    results_blocks,
    run_blocks,
    verdict_blocks,
)


def write_report(
    *folders: Path, output: Path | None = None, on_left_out: Callable[[str], None] | None = None
) -> list[Path]:
    """Write ``report.html`` and ``tables/``; nothing is trained or analysed.

    Args:
        folders: Of comparisons or studies, each with its ``summary.json``; several become chapters of one page.
        output: Where the files go; by default the first folder. With several folders, tables are in a folder for each.
        on_left_out: Called with a sentence about each result that could not be drawn; the page says them too.

    Returns:
        What was written, the page first. The same input gives the same bytes.
    """
    if not folders:
        raise ValueError("folders must be at least one; got none. Give the --output of maxsup compare.")
    views = [read_view(Path(folder)) for folder in folders]
    target = RunDir(output or folders[0])
    files = {target.path / "report.html": report_page(views)}
    for place, view in enumerate(views):
        folder = target.path / "tables"
        folder = folder if len(views) == 1 else folder / f"{place + 1}-{anchor(view.summary.name) or 'table'}"
        for table in (results_table(view.summary), differences_table(view.summary), runs_table(view.summary)):
            for ending, content in table.files().items():
                files[folder / f"{table.name}.{ending}"] = content
    for path, content in files.items():
        target.write_text(path, content)
    for sentence in (sentence for view in views for sentence in view.complaints):
        if on_left_out is not None:
            on_left_out(sentence)
    return list(files)


def report_page(views: Sequence[FolderView]) -> str:
    """The page as HTML, a chapter a folder."""
    with warnings.catch_warnings():
        # Signs that the figures' font lacks are drawn by the browser, which has others.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        chapters = [_chapter(view, place, is_alone=len(views) == 1) for place, view in enumerate(views)]
        title = chapters[0].title if len(views) == 1 else f"{len(views)} comparisons"
        return page_html(Page(title, chapters))


def _chapter(view: FolderView, place: int, *, is_alone: bool) -> Chapter:
    prefix, names = ("", "") if is_alone else (f"{place + 1}-", f"c{place + 1}-")
    summary = view.summary
    choices = "What the paper says, and what it leaves open" if summary.is_study else "What was chosen"
    found: list[tuple[str, list[Block]]] = [
        ("What was found", finding_blocks(view, names)),
        ("Results", results_blocks(view)),
        ("What this shows, number by number", verdict_blocks(view)),
        *((title, figure_blocks(title, view, names)) for title in FIGURES),
        (choices, choice_blocks(view)),
        ("Runs", run_blocks(view)),
        ("Environment", environment_blocks(view)),
    ]
    sections = [Section(title, blocks, prefix) for title, blocks in found if blocks]
    # Banners last: some of what they say is found out by drawing.
    return Chapter(summary.title, sections, summary.question, facts(summary), banners(view), f"chapter-{place + 1}")
