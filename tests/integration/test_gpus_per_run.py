"""Runs of several processes: here two of gloo, on cards that torch only reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.launch import JobState, create_launcher
from maxsup.lab.experiments.execution.worker import FAILURE, LOG, STARTED
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.launching import complaints, plan_jobs, stat_of, wait_until
from tests.integration.runs import what_is_kept

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

WORDS = ("epochs=6", "accumulation=2")


@pytest.fixture(autouse=True)
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture(scope="module")
def by_hand(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What torchrun makes of the same recipe."""
    folder = tmp_path_factory.mktemp("by_hand")
    [job] = plan_jobs(folder, images, 1, *WORDS)
    recipe = folder / "tiny.yaml"
    recipe.write_text(json.dumps(json.loads((job.folder / "job.json").read_text())["recipe"]))
    run_two_ranks("maxsup", "train", recipe, "--output", folder / "run")
    return what_is_kept(folder / "run")


def test_two_gpus_a_run_are_torchrun_to_the_bit_also_after_a_process_was_killed(
    images: Path, by_hand: dict[str, Any], tmp_path: Path
) -> None:
    [job] = plan_jobs(tmp_path, images, 1, *WORDS, has_analysis=True)
    killed: list[int] = []

    def kill_a_rank(states: Sequence[JobState]) -> None:
        if not killed and states[0].epoch:
            worker = json.loads((job.folder / STARTED).read_text())["process"]
            killed.extend(int(name) for name in os.listdir("/proc") if name.isdigit() and _is_rank_of(name, worker))
            for process in killed[-1:]:
                os.kill(process, signal.SIGKILL)

    launcher = create_launcher("local", gpus_per_run=2)
    assert launcher.sharing() == "2 GPUs: 1 run at a time, 2 GPUs each"
    assert complaints(launcher.launch([job], kill_a_rank)) == []
    assert len(killed) == 2
    assert "a process of this run was lost" in (job.folder / LOG).read_text()
    assert json.loads((job.folder / STARTED).read_text())["gpus"] == "0,1"
    assert json.loads((job.folder / "env.json").read_text())["num_processes"] == 2
    assert (job.folder / "analysis/collapse-test.json").exists()
    assert what_is_kept(job.folder) == by_hand


def _is_rank_of(name: str, worker: int) -> bool:
    return stat_of(name)[1:2] == [str(worker)]


def test_what_one_process_refuses_is_said_once_with_its_code(images: Path, tmp_path: Path) -> None:
    [job] = plan_jobs(tmp_path, images, 1)
    content = json.loads((job.folder / "job.json").read_text())
    content["recipe"]["data"]["name"] = "folder:nowhere"
    (job.folder / "job.json").write_text(json.dumps(content))
    [state] = create_launcher("local", gpus_per_run=2).launch([job])
    assert "must be at nowhere/train" in state.sentence
    assert json.loads((job.folder / FAILURE).read_text())["exit_code"] == 4


def test_a_job_of_slurm_trains_a_run_in_two_processes(images: Path, by_hand: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    [job] = plan_jobs(tmp_path, images, 1, *WORDS)
    launcher = create_launcher("slurm", cluster="local", timeout_min=10, gpus_per_run=2)
    assert complaints(launcher.launch([job])) == []
    assert what_is_kept(job.folder) == by_hand


def test_all_processes_of_a_run_save_when_their_worker_is_stopped(
    images: Path, by_hand: dict[str, Any], tmp_path: Path
) -> None:
    [job] = plan_jobs(tmp_path, images, 1, *WORDS)
    command = [sys.executable, "-m", "maxsup.lab.experiments.execution.worker", "--ranks", "2", str(job.folder)]
    worker = subprocess.Popen(command)
    wait_until(lambda: (job.folder / "metrics.jsonl").exists(), 300.0)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 143
    assert RunDir(job.folder).has_checkpoint
    assert not (job.folder / FAILURE).exists()
    assert "stopped" in (job.folder / LOG).read_text()
    assert subprocess.run(command, check=False).returncode == 0
    assert what_is_kept(job.folder) == by_hand
