"""What the program says, asked in this process."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from maxsup.lab.cli import main


def told(*words: str) -> str:
    """Standard output of ``maxsup WORDS``.

    Example:
        >>> told("ls", "losses", "--json").startswith("[")
        True
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            main(words)
        except SystemExit as leaving:
            if leaving.code:
                raise RuntimeError(f"maxsup {' '.join(words)} must succeed; got exit code {leaving.code}.") from leaving
    return printed.getvalue()


def told_json(*words: str) -> Any:
    """The same, of a verb that can print JSON."""
    return json.loads(told(*words, "--json"))
