"""The programs in ``examples/``, one for each trainer, on a page."""

from __future__ import annotations

from pathlib import Path

from tools.site.rst import code_block, document, titled


def pages(root: Path) -> dict[str, str]:
    """One page with all programs in full: each is short."""
    parts = [
        titled("A program for each trainer", "="),
        "Each of these is in ``examples/``, takes seconds on a CPU, downloads nothing, and is run by the tests "
        "against the library it is for.",
    ]
    for path in sorted((root / "examples").glob("*.py")):
        parts += [titled(path.name, "-"), code_block("python", path.read_text(encoding="utf-8"))]
    return {"integrations/examples.rst": document(*parts)}
