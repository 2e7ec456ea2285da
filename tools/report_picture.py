"""``python -m tools.report_picture COMPARISON``: what README.md shows of a report, and the numbers it is drawn from.

After ``make demo`` that is ``python -m tools.report_picture comparison``. It writes ``docs/report/summary.json`` and
``docs/report/picture.svg``; a test draws the picture again from the first and fails where it would look different.
"""

from __future__ import annotations

import html
import io
import re
import shutil
import sys
import textwrap
from pathlib import Path

from maxsup.lab.figures.style import styled
from maxsup.lab.reports.folders import read_view
from maxsup.lab.reports.plots import differences_plot

FOLDER = Path(__file__).parents[1] / "docs" / "report"
_COLUMNS = 95
_ROOM = 0.9  # inches for the title and the caption


def picture(folder: Path) -> str:
    """The paired differences of a comparison with their caption, as SVG whose text stays text."""
    import matplotlib

    plot = differences_plot(read_view(folder).summary)
    if plot is None:
        raise ValueError(f"COMPARISON must have differences to a baseline; {str(folder)!r} has none. Run make demo.")
    stream = io.StringIO()
    with styled(), matplotlib.rc_context({"svg.fonttype": "none"}):
        width, height = plot.figure.get_size_inches()
        plot.figure.set_size_inches(width, height + _ROOM)
        plot.figure.suptitle(plot.title, x=0.01, ha="left")
        plot.figure.supxlabel(textwrap.fill(plot.description, _COLUMNS), x=0.01, ha="left", fontsize=6)
        plot.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def texts(svg: str) -> list[str]:
    """All that can be read in a picture: numbers of axes, titles and the caption."""
    return [html.unescape(found) for found in re.findall(r"<(?:text|tspan)[^>]*>([^<]+)<", svg)]


def main(words: list[str]) -> None:
    """Draw the picture of one comparison."""
    if len(words) != 1:
        sys.exit("COMPARISON must be one folder. Write for instance: python -m tools.report_picture comparison")
    svg = picture(Path(words[0]))
    FOLDER.mkdir(exist_ok=True)
    shutil.copy(Path(words[0]) / "summary.json", FOLDER)
    (FOLDER / "picture.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
