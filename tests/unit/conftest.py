"""Real data sets, where this machine has them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """Lays one real set out and gives the data root; skips the test where the packed sets are absent."""
    packed = Path(os.environ.get("MAXSUP_TEST_DATA") or ROOT.parent / "shared" / "data")
    # One folder for all processes and runs: unpacking leaves alone what is there.
    root = Path(tempfile.gettempdir()) / f"maxsup-test-data-{os.getuid()}"

    def unpacked(name: str) -> Path:
        if not (packed / "unpack.py").is_file():
            pytest.skip(f"no real data at {packed}; set MAXSUP_TEST_DATA")
        subprocess.run([sys.executable, str(packed / "unpack.py"), str(root), name], check=True, capture_output=True)
        return root

    return unpacked
