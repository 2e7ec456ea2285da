"""Two processes of one module, started as a user starts them."""

import os
import subprocess
import sys
from pathlib import Path


def run_two_ranks(module: str, *words: str | Path, timeout: float = 240.0, num_ranks: int = 2) -> None:
    """Run ``python -m module words...`` in two gloo processes; what they complain about is shown if they fail."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(num_ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [*launch, "-m", module, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as launcher:
        try:
            _, complaints = launcher.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # Asked to stop, the launcher stops its processes; they are in sessions of their own and outlive its death.
            launcher.terminate()
            launcher.communicate(timeout=60)
            raise
    assert launcher.returncode == 0, complaints
