"""``maxsup report``: tables and one page from what is on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from maxsup.lab.cli import say
from maxsup.lab.cli.options import JsonOption
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import argument, option

_FOLDERS = "Comparisons or studies; or run directories, which become one table; or a folder of evidence."


def report(
    folders: Annotated[list[Path], argument("DIR", _FOLDERS)],
    output: Annotated[Path | None, option("DIR", "Where the page goes; by default into the first directory.")] = None,
    baseline: Annotated[str | None, option("LOSS", "For run directories: what others are compared to.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.html and tables from what is on disk.

    The tables are HTML, Markdown, LaTeX, CSV and JSON. Nothing is trained.
    """
    from maxsup.lab.experiments.evidence.claims import CLAIMS

    if len(folders) == 1 and (folders[0] / CLAIMS).is_file():
        _report_evidence(folders[0], as_json=as_json)
        return
    from maxsup.lab.experiments.execution.study_folder import STUDY_FILE, read_folder
    from maxsup.lab.experiments.loose_runs import folder_of_runs
    from maxsup.lab.experiments.results import summarize
    from maxsup.lab.reports import write_report

    if any((folder / STUDY_FILE).is_file() for folder in folders):
        found = [read_folder(folder) for folder in folders]
    else:
        found = [folder_of_runs(folders, output or Path("report"), baseline=baseline)]
    summaries = [summarize(folder).model_dump(mode="json") for folder in found]
    written = write_report(*(folder.path for folder in found), output=output, on_left_out=say)
    files = [str(path) for path in written]
    show({"files": files, "summaries": summaries}, files, as_json=as_json)


def _report_evidence(folder: Path, *, as_json: bool) -> None:
    """Judge the claims of a folder of evidence again, and write its pages."""
    from maxsup.lab.experiments.evidence.claims import RESULTS, claim_entries, pool_entries, sweep_entries
    from maxsup.lab.experiments.evidence.pools import strength_entries
    from maxsup.lab.experiments.evidence.prose import prose_entries
    from maxsup.lab.reports.export.evidence import difference_text, write_evidence

    claims = claim_entries(folder)
    others = {"sweeps": sweep_entries(folder), "pools": pool_entries(folder)}
    others["strengths"], others["texts"] = strength_entries(folder / RESULTS), prose_entries(folder, claims)
    files = [str(path) for path in write_evidence(folder, claims, **others)]
    lines = [f"{each['name']}: {each['word']}, {each['reason']} ({difference_text(each)})" for each in claims]
    show({"files": files, "claims": claims, **others}, [*lines, *files], as_json=as_json)
