"""The page to play with the losses: logits to drag, recovery from an error, a network that trains in the browser."""

from __future__ import annotations

from maxsup.lab.reports.blocks import Chapter, Page
from maxsup.lab.reports.page import page_html

# Each script may need those before it.
_SCRIPTS = ("losses", "drawing", "predictions", "question", "logits", "path", "network", "training")


def explore_page() -> str:
    """The page as one HTML file that works offline."""
    title = "Play with the losses"
    lead = (
        "What cross-entropy (CE), label smoothing (LS), Max Suppression (MaxSup) and margin-based label smoothing "
        "(MbLS) do to one prediction, to one error, and to a small network."
    )
    return page_html(
        Page(title, [Chapter(title, [], lead)]),
        "explore.html",
        styles=("page.css", "explore.css"),
        scripts=("page.js", *(f"explore_{name}.js" for name in _SCRIPTS)),
    )
