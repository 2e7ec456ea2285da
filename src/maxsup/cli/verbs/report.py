"""``maxsup report``: tables and one page from what is on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxsup.cli.options import JsonOption, show


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Comparisons or studies; or run directories, which become one table; or a folder of evidence.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the page goes; by default into the first directory.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="LOSS", help="For run directories: what others are compared to.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write report.html and tables from what is on disk.

    The tables are HTML, Markdown, LaTeX, CSV and JSON. Nothing is trained.
    """
    from maxsup.studies.evidence.claims import CLAIMS

    if len(folders) == 1 and (folders[0] / CLAIMS).is_file():
        _report_evidence(folders[0], as_json=as_json)
        return
    from maxsup.reports import write_report
    from maxsup.studies.execution.study_folder import STUDY_FILE, read_folder
    from maxsup.studies.loose_runs import folder_of_runs
    from maxsup.studies.outcome import kind_of
    from maxsup.studies.results import summarize

    summaries = []
    if any((folder / STUDY_FILE).is_file() for folder in folders):
        found = [read_folder(folder) for folder in folders]
    else:
        found = [folder_of_runs(folders, output or Path("report"), baseline=baseline)]
    for folder in found:
        summaries.append(summarize(folder, kind=kind_of(folder)).model_dump(mode="json"))
    written = write_report(
        *(folder.path for folder in found),
        output=output,
        on_left_out=lambda sentence: typer.echo(f"maxsup: {sentence}", err=True),
    )
    files = [str(path) for path in written]
    show({"files": files, "summaries": summaries}, files, as_json=as_json)


def _report_evidence(folder: Path, *, as_json: bool) -> None:
    """Judge the claims of a folder of evidence again, and write its pages."""
    from maxsup.reports.export.evidence import difference_text, write_evidence
    from maxsup.studies.evidence.claims import claim_entries, sweep_entries
    from maxsup.studies.evidence.overview import pool_entries

    claims, sweeps, pools = claim_entries(folder), sweep_entries(folder), pool_entries(folder)
    files = [str(path) for path in write_evidence(folder, claims, sweeps, pools)]
    lines = [f"{each['name']}: {each['word']}, {each['reason']} ({difference_text(each)})" for each in claims]
    found = {"files": files, "claims": claims, "sweeps": sweeps, "pools": pools}
    show(found, [*lines, *files], as_json=as_json)
