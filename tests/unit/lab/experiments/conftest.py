"""The paper's source, where this machine has it."""

import os
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


@pytest.fixture(scope="session")
def paper() -> str:
    """The LaTeX source; tests that need it are skipped where it is absent."""
    path = Path(os.environ.get("MAXSUP_TEST_PAPER") or ROOT.parent / "shared" / "paper" / "maxsup.tex")
    if not path.is_file():
        pytest.skip(f"no source of the paper at {path}; set MAXSUP_TEST_PAPER")
    return path.read_text(encoding="utf-8")
