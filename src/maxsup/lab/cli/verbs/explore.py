"""``maxsup explore``: the page on which one plays with the losses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from maxsup.lab.cli import say
from maxsup.lab.cli.options import JsonOption
from maxsup.lab.cli.printing import show
from maxsup.lab.cli.shorthands import option

_NAME = "maxsup-explore.html"


def explore(
    output: Annotated[Path | None, option("FILE", "Write the page to this .html file and do not open it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Open an interactive page about the losses.

    Drag logits and see what each loss does to them, follow one error, train a small network. The page is one file,
    maxsup-explore.html in this folder, and works offline.
    """
    import webbrowser

    from maxsup.lab.core.files.storage import write_file
    from maxsup.lab.reports.explore import explore_page

    # Here, not in a temporary folder, which browsers in a sandbox cannot read.
    file = output or Path(_NAME)
    if file.is_dir():
        file /= _NAME
    if file.suffix not in (".html", ".htm"):
        raise ValueError(f"output must be an .html file or a folder; got {str(file)!r}. Write {file}.html.")
    write_file(file, explore_page().encode())
    is_open = output is None and webbrowser.open(file.absolute().as_uri())
    show({"path": str(file), "is_open": is_open}, [str(file)], as_json=as_json)
    if output is None and not is_open:
        say(f"no browser was found; open {file.absolute()} in one.")
