"""What all launchers share: states read from folders, retries, interruption."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from maxsup.core.errors import Interruption
from maxsup.studies.execution.launch import Job, JobState, Launcher, create_launcher, read_state
from maxsup.studies.execution.worker import FAILURE, JOB, LOG, STARTED
from tests.unit.studies.launching import add_epochs, finish, make_jobs


class ScriptedLauncher(Launcher):
    """An engine whose workers do at once what a function says, and are heard of one at a time."""

    def __init__(self, work: Callable[[Job, int], str]) -> None:
        self.work = work
        self.attempts: list[Job] = []
        self.waiting: list[Job] = []
        self.events: list[str] = []

    def _open(self, num_jobs: int) -> None:
        self.events.append("open")

    def _submit(self, jobs: Sequence[Job]) -> None:
        self.waiting += jobs

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        job = self.waiting.pop(0)
        self.attempts.append(job)
        return [(job, self.work(job, self.attempts.count(job)))]

    def _stop(self) -> None:
        self.events.append("stop")

    def _close(self) -> None:
        self.events.append("close")


def succeed(job: Job, attempt: int) -> str:
    finish(job)
    return ""


def test_a_run_nobody_began_is_queued(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a")
    assert read_state(job) == JobState(job, "queued")


def test_a_run_that_was_begun_runs_and_says_how_long_it_takes(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a", epochs=5)
    (job.folder / STARTED).write_text("{}")
    (job.folder / LOG).write_text("")
    assert read_state(job) == JobState(job, "running", log=job.folder / LOG)
    add_epochs(job, 100.0, 200.0)
    state = read_state(job)
    assert (state.status, state.epoch, state.seconds) == ("running", 2, 300.0)
    # 3 epochs of 150 s, of which a moment has passed
    assert state.seconds_left == pytest.approx(450.0, abs=30.0)


def test_the_time_left_never_falls_below_the_epochs_to_come(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a", epochs=5)
    (job.folder / STARTED).write_text("{}")
    add_epochs(job, 10.0)
    long_ago = time.time() - 1000
    os.utime(job.folder / "timing.jsonl", (long_ago, long_ago))
    assert read_state(job).seconds_left == 30.0


def test_half_a_line_is_not_an_epoch(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a")
    add_epochs(job, 1.0)
    for name in ("metrics.jsonl", "timing.jsonl"):
        with (job.folder / name).open("a") as file:
            file.write('{"epo')
    state = read_state(job)
    assert (state.epoch, state.seconds) == (1, 1.0)


def test_a_trained_run_with_an_open_analysis_is_not_done(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a", epochs=1)
    (job.folder / JOB).write_text(json.dumps({"recipe": {}, "name": "a", "analyses": [{"what": "collapse"}]}))
    (job.folder / STARTED).write_text("{}")
    add_epochs(job, 1.0)
    finish(job)
    state = read_state(job)
    assert (state.status, state.sentence) == ("running", "finishing")


def test_a_finished_run_is_done_whatever_an_attempt_left(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a")
    (job.folder / FAILURE).write_text(json.dumps({"sentence": "old.", "exit_code": 2}))
    finish(job)
    state = read_state(job, ended="worker was killed by SIGKILL")
    assert (state.status, state.epoch, state.seconds_left) == ("done", 4, 0.0)


def test_a_failure_is_told_in_its_own_words(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a")
    (job.folder / FAILURE).write_text(json.dumps({"sentence": "no images.", "exit_code": 4}))
    assert read_state(job, ended="worker ended with exit code 4").sentence == "no images."


def test_all_runs_are_made_and_reported(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b")
    seen: list[list[str]] = []
    states = ScriptedLauncher(succeed).launch(jobs, lambda states: seen.append([state.status for state in states]))
    assert [state.status for state in states] == ["done", "done"]
    assert seen == [["queued", "queued"], ["done", "queued"], ["done", "done"]]


def test_nothing_is_started_where_all_is_done(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a")
    finish(jobs[0])
    launcher = ScriptedLauncher(succeed)
    assert launcher.launch(jobs)[0].status == "done"
    assert launcher.events == []


def test_one_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b", "c")

    def work(job: Job, attempt: int) -> str:
        if job.name == "b":
            (job.folder / FAILURE).write_text(json.dumps({"sentence": "loss is nan.", "exit_code": 3}))
            return "worker ended with exit code 3"
        return succeed(job, attempt)

    launcher = ScriptedLauncher(work)
    states = launcher.launch(jobs)
    assert [(state.status, state.sentence) for state in states] == [
        ("done", ""),
        ("failed", "loss is nan."),
        ("done", ""),
    ]
    assert len(launcher.attempts) == 3, "what fails by itself fails again: no retry"


def test_a_killed_worker_is_tried_twice_more(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b")

    def work(job: Job, attempt: int) -> str:
        if job.name == "a" or attempt == 3:
            return succeed(job, attempt)
        return "worker was killed by SIGKILL"

    launcher = ScriptedLauncher(work)
    assert [state.status for state in launcher.launch(jobs)] == ["done", "done"]
    assert [job.name for job in launcher.attempts].count("b") == 3


def test_a_worker_that_is_always_killed_has_failed(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a")
    launcher = ScriptedLauncher(lambda job, attempt: "worker was killed by SIGKILL")
    [state] = launcher.launch(jobs)
    assert (state.status, state.sentence) == ("failed", "worker was killed by SIGKILL")
    assert len(launcher.attempts) == 3


def test_files_of_another_machine_may_come_later(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a")

    def work(job: Job, attempt: int) -> str:
        threading.Timer(0.5, finish, [job]).start()
        return ""

    launcher = ScriptedLauncher(work)
    assert launcher.launch(jobs)[0].status == "done"
    assert len(launcher.attempts) == 1


def test_a_worker_that_only_says_it_is_done_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxsup.studies.execution.launch.SETTLE_SECONDS", 0.0)
    [state] = ScriptedLauncher(lambda job, attempt: "").launch(make_jobs(tmp_path, "a"))
    assert (state.status, state.sentence) == ("failed", "worker says it is done, but its files do not")


def test_an_old_failure_is_not_shown_as_this_one(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a")
    (jobs[0].folder / FAILURE).write_text(json.dumps({"sentence": "old.", "exit_code": 2}))
    (jobs[0].folder / STARTED).write_text("{}")
    seen: list[str] = []
    ScriptedLauncher(succeed).launch(jobs, lambda states: seen.append(states[0].status))
    assert seen == ["queued", "done"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_workers_and_says_what_is_saved(tmp_path: Path, number: int, code: int) -> None:
    jobs = make_jobs(tmp_path, "a", "b", "c")

    def work(job: Job, attempt: int) -> str:
        if job.name == "b":
            signal.raise_signal(number)
            return "worker was killed by SIGKILL"
        return succeed(job, attempt)

    launcher = ScriptedLauncher(work)
    with pytest.raises(
        Interruption, match="of 3 runs 1 are done, 0 have a checkpoint to go on from, 2 have none yet"
    ) as caught:
        launcher.launch(jobs)
    assert caught.value.exit_code == code
    assert launcher.events == ["open", "stop", "close"]
    assert ScriptedLauncher(succeed).launch(jobs)[1].status == "done"


def test_the_engine_is_closed_whatever_happens(tmp_path: Path) -> None:
    def broken(states: Sequence[JobState]) -> None:
        if states[0].status == "done":
            raise RuntimeError("no terminal")

    launcher = ScriptedLauncher(succeed)
    with pytest.raises(RuntimeError, match="no terminal"):
        launcher.launch(make_jobs(tmp_path, "a"), broken)
    assert launcher.events == ["open", "close"]


def test_two_jobs_in_one_folder_are_refused(tmp_path: Path) -> None:
    [job] = make_jobs(tmp_path, "a")
    with pytest.raises(ValueError, match="a folder of its own"):
        ScriptedLauncher(succeed).launch([job, Job("b", job.folder, 1)])


def test_an_unknown_launcher_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"launcher must be a registered name; got 'slrm'. Did you mean 'slurm'\?"):
        create_launcher("slrm")


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"must have {package} installed.*pip install .*\[{name}\]'"):
        create_launcher(name)


def test_a_cluster_decides_how_many_runs_it_takes() -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match="num_workers must be left out with an address; got 3"):
        create_launcher("ray", address="auto", num_workers=3)
