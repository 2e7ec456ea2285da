"""The command line in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
"""Runs one command, given its words."""


def run_command(*words: str, **environment: str) -> Outcome:
    """Run ``maxsup`` with these words, on one thread and as if not on a terminal."""
    return run_python("-m", "maxsup", *words, **{"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | environment)


def run_python(*words: str, **environment: str) -> Outcome:
    """Run Python with these words; keywords are set in its environment."""
    options: dict[str, Any] = {"env": os.environ | environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, *words], **options, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_refused(outcome: Outcome, code: int, *sentences: str) -> None:
    """Nothing was printed but one line of complaint, which holds the sentences."""
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith("maxsup: ")
    assert outcome.err.count("\n") == 1
    for sentence in sentences:
        assert sentence in outcome.err
