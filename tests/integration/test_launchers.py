"""Local launches of real runs: killed and interrupted, always with the numbers of an undisturbed launch."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.launch import Job, create_launcher
from maxsup.lab.experiments.execution.worker import FAILURE, LOG, is_done
from tests.integration.launching import (
    LONGER,
    NUM_JOBS,
    complaints,
    num_epochs,
    numbers_of,
    plan_jobs,
    start,
    stat_of,
    wait_until,
)

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found through /proc")

NUM_KILLS = 20
# Processes of a worker, which must not outlive it.
LOADED = "data.num_workers=2"


def workers_of(process: int) -> list[int]:
    """Children of a process."""
    path = Path(f"/proc/{process}/task/{process}/children")
    with suppress(FileNotFoundError):
        return [int(word) for word in path.read_text().split()]
    return []


def is_somewhere_in_training(jobs: Sequence[Job]) -> bool:
    return any(RunDir(job.folder).metrics.exists() and not is_done(job.folder) for job in jobs)


def wait_for_a_moment(launcher: subprocess.Popen[bytes], jobs: Sequence[Job], dice: random.Random) -> None:
    """Any moment of a worker's life, imports included; every other time one at which a run is under way."""
    before, is_in_training = num_epochs(jobs), dice.random() < 0.5

    def has_come() -> bool:
        return num_epochs(jobs) > before if is_in_training else bool(workers_of(launcher.pid))

    wait_until(lambda: launcher.poll() is not None or has_come())
    time.sleep(dice.uniform(0.0, 0.3 if is_in_training else 2.0))


@needs_proc
def test_twenty_kills_of_workers_and_of_the_launcher_change_no_number(
    images: Path, undisturbed: list[Any], tmp_path: Path
) -> None:
    dice = random.Random(20)
    jobs = plan_jobs(tmp_path, images, NUM_JOBS, *LONGER)
    kills = {"worker": 0, "launcher": 0}
    launcher = start(tmp_path)
    try:
        while sum(kills.values()) < NUM_KILLS:
            wait_for_a_moment(launcher, jobs, dice)
            if launcher.poll() is not None:
                # Done, or given up on a run that was killed too often: begin again, from nothing where all is done.
                if all(is_done(job.folder) for job in jobs):
                    assert numbers_of(jobs) == undisturbed
                    jobs = plan_jobs(tmp_path / f"after{sum(kills.values())}", images, NUM_JOBS, *LONGER)
                launcher = start(jobs[0].folder.parents[1])
                continue
            workers = workers_of(launcher.pid)
            if workers and dice.random() < 0.75:
                os.kill(dice.choice(workers), signal.SIGKILL)
                kills["worker"] += 1
            else:
                launcher.kill()
                launcher.wait()
                kills["launcher"] += 1
    finally:
        launcher.kill()
        launcher.wait()
    assert min(kills.values()) > 0
    states = create_launcher("local").launch(jobs)
    assert complaints(states) == []
    assert numbers_of(jobs) == undisturbed


def all_of(workers: Sequence[int]) -> list[int]:
    """Workers and the processes that they have started, alive or orphaned: each worker leads a session of its own."""
    stats = {path.name: stat_of(path.name) for path in Path("/proc").glob("[0-9]*")}
    return [int(name) for name, stat in stats.items() if stat and int(stat[3]) in workers and stat[0] != "Z"]


@needs_proc
def test_the_workers_of_a_killed_launcher_save_and_leave(images: Path, tmp_path: Path) -> None:
    jobs = plan_jobs(tmp_path, images, 1, "epochs=300", LOADED)
    launcher = start(tmp_path, 1)
    wait_until(lambda: is_somewhere_in_training(jobs))
    workers = workers_of(launcher.pid)
    wait_until(lambda: len(all_of(workers)) > 1)
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not all_of(workers), 20.0)
    assert "Give the same command again to go on" in (jobs[0].folder / LOG).read_text()
    assert (jobs[0].folder / "checkpoints/last").exists()
    assert not (jobs[0].folder / FAILURE).exists()


@needs_proc
def test_an_interrupted_launch_saves_and_goes_on(images: Path, undisturbed: list[Any], tmp_path: Path) -> None:
    jobs = plan_jobs(tmp_path, images, NUM_JOBS, *LONGER, LOADED)
    launcher = start(tmp_path)
    wait_until(lambda: is_somewhere_in_training(jobs))
    workers = workers_of(launcher.pid)
    wait_until(lambda: len(all_of(workers[:1])) > 1)
    os.kill(workers[0], signal.SIGKILL)
    wait_until(lambda: not all_of(workers[:1]), 4.0)
    wait_until(lambda: set(workers_of(launcher.pid)) > set(workers[1:]))
    workers += workers_of(launcher.pid)
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(20) == 130
    assert not all_of(workers)
    assert not any((job.folder / FAILURE).exists() for job in jobs)
    assert not all(is_done(job.folder) for job in jobs)
    assert complaints(create_launcher("local").launch(jobs)) == []
    assert numbers_of(jobs) == undisturbed


@needs_proc
def test_an_interrupted_comparison_tells_what_is_saved(images: Path, tmp_path: Path) -> None:
    output = tmp_path / "compared"
    choice = ["--data", f"folder:{images}", "--recipe", "folder_finetune", "--losses", "ce,maxsup", "--seeds", "1"]
    words = ["model.name=small_cnn", "model.pretrained=false", "data.image_size=10", "epochs=4", LOADED]
    command = [sys.executable, "-m", "maxsup", "compare", *choice, "--output", str(output), *words]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        # It imports torch three times and tries a few steps before.
        wait_until(lambda: any(output.glob("runs/*/metrics.jsonl")), 400.0)
        workers = workers_of(first.pid)
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate(timeout=30)
    finally:
        first.kill()
    assert first.returncode == 143
    num_saved = sum((folder / "checkpoints/last").exists() for folder in output.glob("runs/*"))
    assert f"0 of 2 runs done, {num_saved} with a checkpoint to go on from, {2 - num_saved} without" in said
    assert not all_of(workers)


def test_runs_that_fail_are_named_and_the_others_are_made(images: Path, tmp_path: Path) -> None:
    jobs = plan_jobs(tmp_path, images, 3, "epochs=1", has_analysis=True)
    for job, key, value in ((jobs[0], "data", {"name": "folder:nowhere"}), (jobs[1], "optimizer", {"lr": 1e30})):
        content = json.loads((job.folder / "job.json").read_text())
        content["recipe"][key] |= value
        (job.folder / "job.json").write_text(json.dumps(content))
    states = create_launcher("local").launch(jobs)
    assert [state.status for state in states] == ["failed", "failed", "done"]
    assert "must be at nowhere/train" in states[0].sentence
    codes = [json.loads((job.folder / FAILURE).read_text())["exit_code"] for job in jobs[:2]]
    assert codes == [4, 3]
    assert all(state.log is not None and "Traceback" in state.log.read_text() for state in states[:2])
    assert "within" in (jobs[2].folder / "analysis/collapse-test.json").read_text()
