"""The page to play with as a part of the site: the file that ``maxsup explore`` opens, in a frame."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.site.program import told
from tools.site.rst import document, titled


def files() -> dict[str, str]:
    """The file itself, and the page of the site that shows it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "explore.html"
        told("explore", "--output", str(file))
        content = file.read_text(encoding="utf-8")
    text = document(
        titled("Play with the losses", "="),
        "Drag logits and see what cross-entropy, label smoothing, MaxSup and MbLS do to them; follow one error; "
        "train a small network with three losses side by side. ``maxsup explore`` opens the same page.",
        '.. raw:: html\n\n   <p><a class="wide" href="whole/explore.html">Open it in the whole window</a></p>\n'
        '   <iframe class="explore" src="whole/explore.html" title="Play with the losses"></iframe>',
    )
    return {"explore.rst": text, "extra/whole/explore.html": content}
