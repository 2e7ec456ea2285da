"""The command line in a process of its own, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple


class Outcome(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


def run_command(*words: str) -> Outcome:
    """Run ``maxsup`` with these words, on one thread and as if not on a terminal."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "maxsup.cli", *words], capture_output=True, text=True, env=environment, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
