"""The programs in ``examples/``, one for each trainer, on a page."""

from __future__ import annotations

import textwrap
from pathlib import Path

from docs.builder.rst import titled


def pages(root: Path) -> dict[str, str]:
    """All of them, whole: each is short, and the tests run it."""
    parts = [
        titled("A program for each trainer", "="),
        "Each of these is in ``examples/``, takes seconds on a CPU, downloads nothing, and is run by the tests "
        "against the library it is for.",
    ]
    for path in sorted((root / "examples").glob("*.py")):
        body = textwrap.indent(path.read_text(encoding="utf-8"), "   ")
        parts += [titled(path.name, "-"), f".. code-block:: python\n\n{body}"]
    return {"integrations/examples.rst": "\n\n".join([*parts, ""])}
