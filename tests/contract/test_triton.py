"""The Triton kernels hold what every form of a loss holds, in a process that interprets them on a CPU.

Triton decides when it is imported whether it interprets, hence the process of its own. It runs what needs kernels
(``interpreted.py``) and the tests of other files that go over every form.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", minversion="3.9", reason="older interpreters do not go with current numpy")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/contract/interpreted.py",
    "tests/contract/test_all_ignored.py",
    "tests/contract/test_extremes.py",
    "tests/contract/test_gradients.py",
    "tests/contract/test_integer_targets.py",
    "tests/contract/test_masked_and_ignored.py",
    "tests/contract/test_numbers.py",
    "tests/contract/test_precision.py",
    "tests/contract/test_second_derivatives.py",
    "tests/contract/test_stale_state.py",
    "tests/contract/test_transforms.py",
    "tests/contract/test_weights.py",
    "tests/contract/test_z_loss.py",
    "tests/properties",
)
# The number of tests in these files for losses with kernels; fewer would mean that the selection is broken.
LEAST = 440
MARK = 'usefixtures("each_implementation")'


def test_every_contract_that_goes_over_the_forms_goes_over_the_kernels():
    files = [path for folder in ("contract", "properties") for path in (ROOT / "tests" / folder).glob("test_*.py")]
    over_forms = {path for path in files if MARK in path.read_text()} - {Path(__file__).resolve()}
    named = {ROOT / name for name in TESTS}
    assert over_forms - named == set()


def test_the_kernels_hold_what_every_form_holds():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-W", "ignore", *TESTS],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
    assert passed is not None
    assert int(passed[1]) >= LEAST
