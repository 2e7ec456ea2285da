"""``maxsup report``: tables and one page from what is on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from maxsup.lab.cli import say
from maxsup.lab.cli.options import JsonOption
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import argument, option

_FOLDERS = "Comparisons or studies; or run directories, which become one table."


def report(
    folders: Annotated[list[Path], argument("DIR", _FOLDERS)],
    output: Annotated[Path | None, option("DIR", "Folder of the page (default: the first folder given).")] = None,
    baseline: Annotated[str | None, option("LOSS", "Loss to compare the others with, for run folders.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.html and tables from what is on disk.

    The tables are HTML, Markdown, LaTeX, CSV and JSON. Nothing is trained.
    """
    from maxsup.lab.experiments.execution.study_folder import STUDY_FILE, read_folder
    from maxsup.lab.experiments.loose_runs import folder_of_runs
    from maxsup.lab.experiments.summarize import summarize
    from maxsup.lab.reports import write_report

    if any((folder / STUDY_FILE).is_file() for folder in folders):
        found = [read_folder(folder) for folder in folders]
    else:
        found = [folder_of_runs(folders, output or Path("report"), baseline=baseline)]
    summaries = [summarize(folder).model_dump(mode="json") for folder in found]
    written = write_report(*(folder.path for folder in found), output=output, on_left_out=say)
    files = [str(path) for path in written]
    show({"files": files, "summaries": summaries}, files, as_json=as_json)
