"""The numbers of the evidence as files to download."""

from __future__ import annotations

from pathlib import Path

from tools.site.rst import document, listing, titled


def pages(root: Path) -> dict[str, str]:
    """The page that the evidence links to as its results."""
    folder = root / "docs" / "evidence" / "results"
    origin, *tables = sorted(folder.glob("*.json")) + sorted(folder.glob("*.csv"))
    text = document(
        titled("Results", "="),
        "A file for each pool, with a line for each run: its loss, its seed, and every number that was measured. "
        f"{_file(origin, folder)} has commits, versions, machines and hours.",
        listing(_file(path, folder) for path in tables),
        titled("Trials", "-"),
        "Accuracy and NLL on validation images, a line for each trial of a strength.",
        listing(_file(path, folder) for path in sorted(folder.glob("trials/*.csv"))),
    )
    return {"evidence/results.rst": f":orphan:\n\n{text}"}


def _file(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    return f":download:`{name} <results/{name}>`"
