"""MaxSup through Liger's fused head, on the interpreter of Triton where there is no GPU."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.integration.integrations import liger_cases

pytestmark = pytest.mark.slow
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    """What a process with the interpreter switched on has computed; the switch must be set before Triton is loaded."""
    pytest.importorskip("triton", reason="Liger needs Triton, which this platform does not have")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", "tests.integration.integrations.liger_numbers"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", liger_cases.CASES)
def test_value_and_gradients_equal_those_of_the_plain_loss(case: str, numbers: dict[str, Any]) -> None:
    assert numbers["differences"][case] <= TOLERANCE
    assert set(numbers["differences"]) == set(liger_cases.CASES)


def test_evaluation_is_plain_cross_entropy(numbers: dict[str, Any]) -> None:
    assert numbers["evaluated"] <= TOLERANCE


def test_a_head_on_detached_states_is_refused(numbers: dict[str, Any]) -> None:
    assert numbers["refused"].startswith("hidden must require a gradient, because Liger gives none to the head")


def test_the_example_learns_and_starts_from_the_reference(numbers: dict[str, Any]) -> None:
    example = numbers["example"]
    assert example["first"] == pytest.approx(example["expected"], abs=TOLERANCE)
    assert example["last"] < example["first"] - 0.5
