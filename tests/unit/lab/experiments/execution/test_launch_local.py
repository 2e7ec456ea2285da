"""Processes on this machine, with workers that only pretend to train and so start at once."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from maxsup.core.errors import Interruption
from maxsup.lab.experiments.execution.launch import Job, JobState, create_launcher
from maxsup.lab.experiments.execution.launch_local import LocalLauncher
from maxsup.lab.experiments.execution.worker import LOG
from tests.unit.lab.experiments.launching import make_jobs

pytestmark = pytest.mark.slow

PRETENDING = """
import json, os, sys, time
for line in open(int(sys.argv[-1])):
    folder = json.loads(line)
    name = os.path.basename(folder)
    with open(folder + "/processes", "a") as file:
        print(os.getpid(), os.environ["OMP_NUM_THREADS"], os.getpgid(0), file=file)
    open(folder + "/started.json", "w").write("{}")
    if name.startswith("slow") and not os.path.exists(folder + "/quick"):
        time.sleep(60)
    if name.startswith("bad"):
        open(folder + "/failure.json", "w").write('{"sentence": "no images.", "exit_code": 4}')
        sys.exit(4)
    if name.startswith("crash"):
        sys.exit("cannot import")
    open(folder + "/summary.json", "w").write("{}")
    print("done", flush=True)
"""


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> LocalLauncher:
    monkeypatch.setattr(LocalLauncher, "_command", (sys.executable, "-c", PRETENDING))
    return LocalLauncher(num_workers=2)


def processes(job: Job) -> list[int]:
    path = job.folder / "processes"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def once_running(job: Job, action: Callable[[int], None]) -> Callable[[Sequence[JobState]], None]:
    """Do something to the worker of a job when it first has one."""
    done: list[int] = []

    def look(states: Sequence[JobState]) -> None:
        if not done and (found := processes(job)):
            done.extend(found)
            action(found[0])

    return look


def test_a_few_processes_take_many_runs(launcher: LocalLauncher, tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, *"abcdef")
    assert {state.status for state in launcher.launch(jobs)} == {"done"}
    used = {process for job in jobs for process in processes(job)}
    assert len(used) <= 2
    assert not any(is_alive(process) for process in used)


def test_a_run_gets_one_worker_with_one_thread_and_a_group_of_its_own(launcher: LocalLauncher, tmp_path: Path) -> None:
    launcher.num_workers = 50
    [job] = make_jobs(tmp_path, "a")
    launcher.launch([job])
    [(process, threads, group)] = [line.split() for line in (job.folder / "processes").read_text().splitlines()]
    assert (threads, group) == ("1", process)


def test_a_failing_run_leaves_the_others_alone(launcher: LocalLauncher, tmp_path: Path) -> None:
    states = launcher.launch(make_jobs(tmp_path, "bad1", "a", "bad2", "b", "c"))
    assert [state.status for state in states] == ["failed", "done", "failed", "done", "done"]
    assert states[0].sentence == "no images."
    assert states[0].log is not None


def test_a_worker_that_cannot_start_is_said_with_its_log(launcher: LocalLauncher, tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "crash")
    [state] = launcher.launch([job])
    assert (state.status, state.sentence) == ("failed", "worker ended with exit code 1")
    assert "cannot import" in (job.folder / LOG).read_text()


def test_a_killed_worker_is_replaced_and_its_run_goes_on(launcher: LocalLauncher, tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "slow", "a", "b")

    def kill(process: int) -> None:
        os.kill(process, signal.SIGKILL)
        (jobs[0].folder / "quick").touch()

    states = launcher.launch(jobs, once_running(jobs[0], kill))
    assert [state.status for state in states] == ["done"] * 3
    assert len(processes(jobs[0])) == 2


def test_a_signal_leaves_no_worker_behind(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = make_jobs(tmp_path, "slow", "slow2", "a")
    # The pretending worker does not watch its input, so its time to save runs out.
    look = once_running(jobs[0], lambda process: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr("maxsup.lab.experiments.execution.launch_local.SAVE_SECONDS", 0.1)
    with pytest.raises(Interruption, match="0 of 3 runs done, 0 with a checkpoint to go on from, 3 without"):
        launcher.launch(jobs, look)
    assert not any(is_alive(process) for job in jobs for process in processes(job))


def test_a_launcher_can_be_used_again_and_outside_the_main_thread(launcher: LocalLauncher, tmp_path: Path) -> None:
    states = launcher.launch(make_jobs(tmp_path, "a"))
    thread = threading.Thread(target=lambda: states.extend(launcher.launch(make_jobs(tmp_path, "b"))))
    thread.start()
    thread.join(60)
    assert [state.status for state in states] == ["done", "done"]


def test_waiting_costs_no_processor_time(launcher: LocalLauncher, tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "slow")
    look = once_running(job, lambda process: threading.Timer(3.0, lambda: os.kill(process, signal.SIGKILL)).start())
    launcher.num_retries = 0
    before = time.thread_time()
    launcher.launch([job], look)
    # Three seconds, if it looked all the time.
    assert time.thread_time() - before < 1


def test_workers_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="num_workers must be at least 1; got -1"):
        create_launcher("local", num_workers=-1)
