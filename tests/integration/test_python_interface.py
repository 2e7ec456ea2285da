"""Comparisons from Python as users write them: scripts without a guard, code on standard input, Ctrl-C and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.launching import wait_until
from tests.integration.runs import image_folder

pytestmark = pytest.mark.slow

NETS = """
from torch import nn

def small(num_classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, num_classes))
"""

# Neither guarded nor in a file: what a spawned process would import again has side effects and no name.
SCRIPT = """
import os, sys
sys.path.insert(0, os.getcwd())
from maxsup.lab.experiments import compare
{model}
print("begin", os.getpid())
result = compare(
    "folder:images", {name}, ["ce", {{"name": "maxsup", "alpha": 0.2}}], seeds=[4, 7], output="out", workers=1,
    overrides={{"data.image_size": 8, "data.num_workers": 2, "model.pretrained": False, "epochs": {epochs}}},
)
print("failed", len(result.failed))
print("rows", len(result.differences()))
"""


def started(folder: Path, model: str, name: str, epochs: int = 1) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(SCRIPT.format(model=model, name=name, epochs=epochs))
    process.stdin.close()
    process.stdin = None
    return process


def workers_of(folder: Path) -> set[int]:
    return {json.loads(path.read_text())["process"] for path in folder.glob("out/*/*/started.json")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    image_folder(tmp_path / "images")
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path


def test_a_network_in_a_module_is_trained_by_workers_that_import_it(home: Path) -> None:
    process = started(home, "from nets import small", "small")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    # Once: no worker has run the script again.
    assert out.split() == ["begin", str(process.pid), "failed", "0", "rows", "9"]
    assert process.pid not in workers_of(home)
    assert "[6/6]" in err


def test_a_lambda_is_trained_in_this_process_and_goes_on_after_ctrl_c(home: Path) -> None:
    model = NETS + "\nfactory = lambda count: small(count)"
    first = started(home, model, "factory", epochs=400)
    wait_until(lambda: any(home.glob("out/runs/*/checkpoints/last")), 120.0)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=120)
    assert first.returncode != 0
    assert "stopped by SIGINT; 0 of 4 runs done" in err
    assert "Give the same command again to go on" in err
    assert workers_of(home) == {first.pid}
    [run] = [path.parent.parent for path in home.glob("out/runs/*/checkpoints/last")]
    num_before = len((run / "metrics.jsonl").read_text().splitlines())
    for path in home.glob("out/runs/*/metrics.jsonl"):
        assert len(path.read_text().splitlines()) < 400
    again = started(home, model, "factory", epochs=400)
    wait_until(lambda: len((run / "metrics.jsonl").read_text().splitlines()) > num_before, 120.0)
    assert "going on in" in (run / "worker.log").read_text()
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=120)
