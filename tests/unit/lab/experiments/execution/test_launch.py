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
from maxsup.lab.experiments.execution.launch import Job, JobState, Launcher, create_launcher, read_state
from maxsup.lab.experiments.execution.worker import FAILURE, JOB, LOG, STARTED
from tests.unit.lab.experiments.launching import add_epochs, finish, make_jobs


class ScriptedLauncher(Launcher):
    """An engine whose workers do at once what a function says, and are heard of one at a time."""

    def __init__(self, work: Callable[[Job, int], str]) -> None:
        self.work = work
        self.attempts, self.waiting, self.events = list[Job](), list[Job](), list[str]()

    def _open(self, num_jobs: int) -> None:
        self.events.append("open")

    def _submit(self, jobs: Sequence[Job]) -> None:
        self.waiting += jobs

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        job = self.waiting.pop(0)
        self.attempts.append(job)
        return [(job, self.work(job, self.attempts.count(job)))]

    def _stop(self, number: int) -> None:
        self.events.append("stop")

    def _close(self) -> None:
        self.events.append("close")


def succeed(job: Job, attempt: int) -> str:
    finish(job)
    return ""


def fail(job: Job, sentence: str, code: int) -> str:
    (job.folder / FAILURE).write_text(json.dumps({"sentence": sentence, "exit_code": code}))
    return f"worker ended with exit code {code}"


def test_what_follows_goes_to_the_same_workers_and_is_asked_for_when_all_runs_have_ended(tmp_path: Path) -> None:
    first, last, joint = make_jobs(tmp_path, "a", "b", "joint")
    asked: list[list[str]] = []

    def then(states: Sequence[JobState]) -> list[Job]:
        asked.append([state.status for state in states])
        return [joint]

    launcher = ScriptedLauncher(succeed)
    states = launcher.launch([first, last], then=then)
    assert [state.job.name for state in states if state.status == "done"] == ["a", "b", "joint"]
    assert asked == [["done", "done"]]
    assert launcher.events == ["open", "close"]
    # Where all runs are there already, only what follows is asked for; a launcher with nothing to do is not opened.
    (joint.folder / "summary.json").unlink()
    again = ScriptedLauncher(succeed)
    assert again.launch([first, last], then=then)[-1].status == "done"
    assert again.attempts == [joint]
    idle = ScriptedLauncher(succeed)
    idle.launch([first, last], then=then)
    assert idle.events == []


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_jobs(tmp_path, "a", epochs=5)[0]


def test_a_run_nobody_began_is_queued(job: Job) -> None:
    assert read_state(job) == JobState(job, "queued")


def test_a_run_that_was_begun_runs_and_says_how_long_it_takes(job: Job) -> None:
    (job.folder / STARTED).write_text("{}")
    (job.folder / LOG).write_text("")
    assert read_state(job) == JobState(job, "running", log=job.folder / LOG)
    add_epochs(job, 100.0, 200.0)
    state = read_state(job)
    assert (state.status, state.epoch, state.seconds) == ("running", 2, 300.0)
    # 3 epochs of 150 s, of which a moment has passed
    assert state.seconds_left == pytest.approx(450.0, abs=30.0)
    long_ago = time.time() - 1000
    os.utime(job.folder / "timing.jsonl", (long_ago, long_ago))
    assert read_state(job).seconds_left == 300.0, "never less than the epochs to come"


def test_half_a_line_is_not_an_epoch(job: Job) -> None:
    add_epochs(job, 1.0)
    for name in ("metrics.jsonl", "timing.jsonl"):
        with (job.folder / name).open("a") as file:
            file.write('{"epo')
    state = read_state(job)
    assert (state.epoch, state.seconds) == (1, 1.0)


def test_a_trained_run_with_an_open_analysis_is_not_done(job: Job) -> None:
    (job.folder / JOB).write_text(json.dumps({"recipe": {}, "name": "a", "analyses": [{"what": "collapse"}]}))
    (job.folder / STARTED).write_text("{}")
    add_epochs(job, *[1.0] * 5)
    finish(job)
    state = read_state(job)
    assert (state.status, state.sentence) == ("running", "finishing")


def test_a_failure_is_told_in_its_own_words_unless_the_run_was_finished_later(job: Job) -> None:
    assert read_state(job, ended=fail(job, "no images.", 4)).sentence == "no images."
    finish(job)
    state = read_state(job, ended="worker was killed by SIGKILL")
    assert (state.status, state.epoch, state.seconds_left) == ("done", 5, 0.0)


def test_all_runs_are_made_and_reported(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b")
    seen: list[list[str]] = []
    states = ScriptedLauncher(succeed).launch(jobs, lambda states: seen.append([state.status for state in states]))
    assert [state.status for state in states] == ["done", "done"]
    assert seen == [["queued", "queued"], ["done", "queued"], ["done", "done"]]


def test_nothing_is_started_where_all_is_done(job: Job) -> None:
    finish(job)
    launcher = ScriptedLauncher(succeed)
    assert launcher.launch([job])[0].status == "done"
    assert launcher.events == []


def test_one_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b", "c")

    def work(job: Job, attempt: int) -> str:
        return fail(job, "loss is nan.", 3) if job.name == "b" else succeed(job, attempt)

    launcher = ScriptedLauncher(work)
    states = launcher.launch(jobs)
    assert [state.status for state in states] == ["done", "failed", "done"]
    assert states[1].sentence == "loss is nan."
    assert len(launcher.attempts) == 3, "what fails by itself fails again: no retry"


def test_a_killed_worker_is_tried_twice_more(tmp_path: Path) -> None:
    jobs = make_jobs(tmp_path, "a", "b")

    def work(job: Job, attempt: int) -> str:
        return succeed(job, attempt) if job.name == "a" or attempt == 3 else "worker was killed by SIGKILL"

    launcher = ScriptedLauncher(work)
    assert [state.status for state in launcher.launch(jobs)] == ["done", "done"]
    assert [job.name for job in launcher.attempts].count("b") == 3


def test_a_worker_that_is_always_killed_has_failed(job: Job) -> None:
    launcher = ScriptedLauncher(lambda job, attempt: "worker was killed by SIGKILL")
    [state] = launcher.launch([job])
    assert (state.status, state.sentence) == ("failed", "worker was killed by SIGKILL")
    assert len(launcher.attempts) == 3


def test_files_of_another_machine_may_come_later(job: Job) -> None:
    def work(job: Job, attempt: int) -> str:
        threading.Timer(0.5, finish, [job]).start()
        return ""

    launcher = ScriptedLauncher(work)
    assert launcher.launch([job])[0].status == "done"
    assert len(launcher.attempts) == 1


def test_a_worker_that_only_says_it_is_done_has_failed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxsup.lab.experiments.execution.launch.SETTLE_SECONDS", 0.0)
    [state] = ScriptedLauncher(lambda job, attempt: "").launch([job])
    assert (state.status, state.sentence) == ("failed", "worker says it is done, but its files do not")


def test_an_old_failure_is_not_shown_as_this_one(job: Job) -> None:
    fail(job, "old.", 2)
    (job.folder / STARTED).write_text("{}")
    seen: list[str] = []
    ScriptedLauncher(succeed).launch([job], lambda states: seen.append(states[0].status))
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
    sentence = "1 of 3 runs done, 0 with a checkpoint to go on from, 2 without one yet"
    with pytest.raises(Interruption, match=sentence) as caught:
        launcher.launch(jobs)
    assert caught.value.exit_code == code
    assert launcher.events == ["open", "stop", "close"]
    assert ScriptedLauncher(succeed).launch(jobs)[1].status == "done"


def test_the_launcher_is_closed_whatever_happens(job: Job) -> None:
    def broken(states: Sequence[JobState]) -> None:
        if states[0].status == "done":
            raise RuntimeError("no terminal")

    launcher = ScriptedLauncher(succeed)
    with pytest.raises(RuntimeError, match="no terminal"):
        launcher.launch([job], broken)
    assert launcher.events == ["open", "close"]


def test_two_jobs_in_one_folder_are_refused(job: Job) -> None:
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
