"""One of two processes of a training dies: the other says so in a sentence, and the same command goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from maxsup.core.errors import ExitCode
from tests.integration.launching import wait_until

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


def start(rank: int, port: int, folder: Path) -> subprocess.Popen[str]:
    """A process as a launcher of another kind than torchrun starts it, which ends none because another one did."""
    words = ["train", "digits_cnn", "epochs=300", "model.options.widths=[2,4]", "--output", str(folder / "run")]
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    environment = os.environ | place | {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "maxsup", *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_a_process_that_dies_is_named_by_the_other_with_the_documented_exit_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    first, second = (start(rank, port, tmp_path) for rank in (0, 1))
    try:
        wait_until(lambda: (tmp_path / "run/checkpoints/last").exists() or first.poll() is not None)
        # Not waited for, so that it stays in the table of processes as long as its launcher looks elsewhere.
        second.send_signal(signal.SIGKILL)
        _, said = first.communicate(timeout=60)
    finally:
        first.kill()
        second.communicate()
    assert first.returncode == ExitCode.CRASH
    assert "Traceback" not in said
    [sentence] = [line for line in said.splitlines() if line.startswith("maxsup: ")]
    assert f"rank 1 (process {second.pid} on " in sentence
    assert "Give the same command again" in sentence
    assert (tmp_path / "run/checkpoints/last/state.json").exists()
