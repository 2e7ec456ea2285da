"""``python -m tools.site``: generate the pages, let Sphinx build them, check what came out."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tools.site.built import problems, remove_ways_back
from tools.site.search import write_words
from tools.site.staging import stage

DOCS = Path(__file__).resolve().parents[2] / "docs"
BUILD = DOCS / "_build"


def main() -> None:
    """Build the site; exits with 1 where Sphinx warns or a link leads nowhere."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--no-gallery", action="store_true", help="show the examples without running them")
    options = parser.parse_args()
    # Late: the pages above cost seconds of imports, a wrong option should not.
    from sphinx.cmd.build import main as sphinx

    begin = time.monotonic()
    source, html = BUILD / "source", BUILD / "html"
    stage(DOCS.parent, source)
    print(f"{sum(1 for path in source.rglob('*') if path.is_file())} sources after {time.monotonic() - begin:.0f} s")
    # Examples start the program by its name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    words = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(DOCS), "-d", str(BUILD / "doctrees")]
    if options.no_gallery:
        words += ["-D", "plot_gallery=0"]
    if sphinx([*words, str(source), str(html)]) != 0:
        sys.exit(1)
    remove_ways_back(html)
    write_words(html)
    found = problems(html)
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"{html / 'index.html'} after {time.monotonic() - begin:.0f} s; every internal link leads somewhere.")


if __name__ == "__main__":
    main()
