"""The page to play with: logits to drag, the way back from an error, and a network that trains in the browser."""

from __future__ import annotations

from maxsup.reports.page import Page, render, template_text

# In the order in which each needs those before it.
_SCRIPTS = ("losses", "drawing", "logits", "path", "network", "training")


def explore_page() -> str:
    """The page as HTML: one file that works without a network."""
    return render(
        Page(
            "Play with the losses",
            sections=(),
            lead="What cross-entropy (CE), label smoothing (LS), Max Suppression (MaxSup) and margin-based label "
            "smoothing (MbLS) do to one prediction, to one error, and to a small network.",
        ),
        "explore.html",
        extra_style=template_text("explore.css"),
        extra_script="".join(template_text(f"explore_{name}.js") for name in _SCRIPTS),
    )
