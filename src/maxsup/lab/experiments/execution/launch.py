"""Many runs at once: one interface for processes on this machine, Ray, and SLURM.

A launcher only starts workers and learns when they end. Progress and results of a run are read from its folder, the
same way for every launcher.
"""

from __future__ import annotations

import json
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from maxsup.core.errors import ExitCode, Interruption, MaxsupError, counted
from maxsup.core.installation import install_command
from maxsup.core.registry import Registry
from maxsup.lab.core.files.reading import as_written, read_json, whole_lines
from maxsup.lab.core.files.rundir import NO_LOCK, RunDir
from maxsup.lab.core.interrupt import SignalGuard
from maxsup.lab.experiments.execution.heartbeat import Pulse, read_pulse
from maxsup.lab.experiments.execution.mirror import MIRROR
from maxsup.lab.experiments.execution.worker import FAILURE, LOG, STARTED, is_done

LOOK_SECONDS = 0.4  # between two looks at the folders
SETTLE_SECONDS = 30.0  # that a file system may take to show what another machine wrote
SAFE_PATH = "PYTHONSAFEPATH"

Status = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True)
class Job:
    """A run to make in a folder that holds its ``job.json``, and how many epochs it trains."""

    name: str
    folder: Path
    epochs: int


@dataclass(frozen=True)
class JobState:
    """How far a run is."""

    job: Job
    status: Status
    epoch: int = 0  # finished
    seconds: float | None = None  # of training, in all attempts
    seconds_left: float | None = None  # of training, estimated
    sentence: str = ""  # why it failed, or what it does besides training
    log: Path | None = None  # what its worker printed
    pulse: Pulse = field(default_factory=Pulse)
    gpus: str = ""  # those that were handed to its worker

    @property
    def is_final(self) -> bool:
        """Whether its worker has ended for good."""
        return self.status in ("done", "failed")


OnChange = Callable[[Sequence[JobState]], None]
FollowUp = Callable[[Sequence[JobState]], Sequence[Job]]


def read_state(job: Job, *, ended: str = "") -> JobState:
    """Progress of a run, from its folder alone; if its worker ``ended``, it is done or has failed."""
    folder, run = job.folder, RunDir(job.folder)
    log = folder / LOG if (folder / LOG).exists() else None
    with as_written(run.timing):
        seconds = [float(json.loads(line)["seconds"]) for line in whole_lines(run.timing)]
    epoch, spent = len(whole_lines(run.metrics)), sum(seconds) if seconds else None
    if is_done(folder):
        return JobState(job, "done", job.epochs, spent, 0.0, log=log)
    failure = read_json(folder / FAILURE) if (folder / FAILURE).exists() else None
    if failure is not None or ended:
        sentence = str(failure.get("sentence")) if failure is not None else ended
        return JobState(job, "failed", epoch, spent, sentence=sentence, log=log)
    if not (folder / STARTED).exists():
        return JobState(job, "queued", epoch, spent, log=log)
    left = None
    if spent is not None:
        each, age = spent / len(seconds), max(time.time() - run.timing.stat().st_mtime, 0.0)
        # Never less than the epochs after the current one, which may just be slow.
        left = max(each * (job.epochs - epoch) - age, each * (job.epochs - epoch - 1), 0.0)
    pulse = read_pulse(folder, folder / STARTED)
    if pulse.seconds_left is not None:
        left = max(pulse.seconds_left - pulse.age, 0.0)
    activity = pulse.doing or ("finishing" if epoch >= job.epochs else "")
    return JobState(job, "running", epoch, spent, left, activity, log, pulse, _gpus_of(folder / STARTED))


def _gpus_of(started: Path) -> str:
    try:
        return str(read_json(started).get("gpus", ""))
    except (MaxsupError, OSError, ValueError):
        return ""  # a launch must not fail because something cannot be shown


class Launcher(ABC):
    """Starts a worker for each run and waits for all of them; one that fails does not stop the others."""

    gpus_per_run = 1  # each with a process of the run
    say: Callable[[str], None] = staticmethod(lambda sentence: None)  # tells people what a launch does

    num_retries = 2  # of a run whose worker was killed; it continues from its checkpoint
    num_workers: int | None = None  # how many runs at once; None if the cluster decides
    is_elsewhere = False  # whether runs may be made on other machines, which may have data that this one lacks

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """What is requested for each run, for people to read, if a run has at most so many loader processes."""
        return {}

    def num_at_full_speed(self, num_jobs: int) -> int | None:
        """How many of so many runs train at once without slowing each other down; None if the cluster decides."""
        return None if self.num_workers is None else min(self.num_workers, num_jobs)

    def sharing(self) -> str:
        """How runs share the GPUs, in words, once the launcher is open; "" if there is nothing to say."""
        return ""

    def check_machine(self) -> None:  # noqa: B027 (some launchers need nothing)
        """Raise if this machine lacks what the launcher needs to start runs; a dry run needs nothing."""

    def launch(
        self, jobs: Sequence[Job], on_change: OnChange | None = None, then: FollowUp | None = None
    ) -> list[JobState]:
        """Make all runs that are missing; gives how each one ended.

        Args:
            jobs: The runs.
            on_change: Called with the state of all runs, a few times a second.
            then: Called once with the states when all runs have ended; gives further jobs, for the same workers.

        Raises:
            Interruption: After Ctrl-C or SIGTERM. Workers had the time to save; the same call continues.
        """
        self.check_machine()
        states: dict[Path, JobState] = {}
        left = _missing(jobs, states)
        if then is not None and not left:
            left, then = _missing(then([*states.values()]), states), None

        def show() -> None:
            if on_change is not None:
                on_change([*states.values()])

        show()
        if left:
            with _safe_path():
                self._run(left, states, show, then)
        return [*states.values()]

    def _run(
        self, jobs: Sequence[Job], states: dict[Path, JobState], show: Callable[[], None], then: FollowUp | None
    ) -> None:
        left, deaths = {job.folder: job for job in jobs}, Counter[Path]()
        try:
            self._open(len(jobs))
            if sharing := self.sharing():
                self.say(sharing)
            # After opening, because Ray installs handlers of its own.
            with SignalGuard() as guard:
                guard.is_deferring = True
                self._submit(jobs)
                while left:
                    for job, how in self._ended(LOOK_SECONDS):
                        state = _settled(job, how)
                        has_failed = (job.folder / FAILURE).exists()
                        deaths[job.folder] += 1
                        is_tried_again = guard.received is None and deaths[job.folder] <= self.num_retries
                        if state.status == "failed" and not has_failed and is_tried_again:
                            (job.folder / STARTED).unlink(missing_ok=True)
                            self._submit([job])
                            continue
                        del left[job.folder]
                        states[job.folder] = state
                    if not left and then is not None and guard.received is None:
                        more, then = _missing(then([*states.values()]), states), None
                        left = {job.folder: job for job in more}
                        self._submit(more)
                    states |= {folder: _unfinished(read_state(job)) for folder, job in left.items()}
                    show()
                    if guard.received is not None and left:
                        self._stop(guard.received)
                        raise _interruption(guard.received, [read_state(state.job) for state in states.values()])
        finally:
            self._close()

    def _open(self, num_jobs: int) -> None:  # noqa: B027 (some launchers need nothing)
        """Get ready for so many jobs."""

    @abstractmethod
    def _submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs as soon as there is room."""

    @abstractmethod
    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        """Wait at most so long for a worker to end; gives jobs whose worker has, with how (see :func:`ending`)."""

    def _stop(self, number: int) -> None:  # noqa: B027 (some launchers need nothing)
        """Ask all workers to save and exit because this signal came, and give them the time to."""

    @abstractmethod
    def _close(self) -> None:
        """Clean up, whatever happened."""


LAUNCHERS: Registry[type[Launcher]] = Registry("launcher", package="maxsup.lab.experiments.execution")


def create_launcher(name: str = "local", **options: Any) -> Launcher:
    """A launcher by name (``local``, ``ray`` or ``slurm``) with the options of its class."""
    LAUNCHERS.check_options(name, options)
    return LAUNCHERS[name](**options)


def missing_extra(package: str, extra: str) -> ImportError:
    """The error for a launcher whose package is not installed."""
    return ImportError(
        f"launcher {extra!r} must have {package} installed. Run {install_command(extra)}, or use the launcher 'local'."
    )


def is_stop(code: int) -> bool:
    """Whether a worker ended with this exit code because a signal asked it to stop."""
    return code in (ExitCode.HUNG_UP, ExitCode.INTERRUPTED, ExitCode.TERMINATED)


def ending(code: int) -> str:
    """How a worker ended, from its exit code; "" if it succeeded.

    Example:
        >>> ending(-9), ending(143), ending(1), ending(0)
        ('worker was killed by SIGKILL', 'worker was stopped by SIGTERM', 'worker ended with exit code 1', '')
    """
    if code == 0:
        return ""
    if code < 0:
        return f"worker was killed by {signal.Signals(-code).name}"
    if is_stop(code):
        return f"worker was stopped by {signal.Signals(code - 128).name}"
    return f"worker ended with exit code {code}"


def handed_on() -> dict[str, str]:
    """Environment variables that workers need wherever they are started."""
    return {SAFE_PATH: "1"} | {name: os.environ[name] for name in (NO_LOCK, MIRROR) if name in os.environ}


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep the current folder, where anybody's files may lie, off the path of processes that start meanwhile."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def _missing(jobs: Sequence[Job], states: dict[Path, JobState]) -> list[Job]:
    """The jobs that are not done, made ready to start; the states of all are added."""
    if len({job.folder.resolve() for job in jobs}) < len(jobs):
        raise ValueError("Each job must have a folder of its own, and two of these share one. Drop the duplicate.")
    missing = []
    for job in jobs:
        states[job.folder] = read_state(job)
        if states[job.folder].status != "done":
            for name in (FAILURE, STARTED):
                (job.folder / name).unlink(missing_ok=True)
            states[job.folder] = read_state(job)
            missing.append(job)
    return missing


def _settled(job: Job, how: str) -> JobState:
    """The last state of a run whose worker has ended; files of another machine may appear a while later."""
    end = time.monotonic() + SETTLE_SECONDS
    while not how and not read_state(job).is_final and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return read_state(job, ended=how or "worker says it is done, but its files do not")


def _unfinished(state: JobState) -> JobState:
    """The state of a run whose worker has not ended: until then a failure is not final."""
    return state if not state.is_final else JobState(state.job, "running", state.epoch, state.seconds, log=state.log)


def _interruption(number: int, states: Sequence[JobState]) -> Interruption:
    left = [state.job.folder for state in states if state.status != "done"]
    num_saved = sum(RunDir(folder).has_checkpoint for folder in left)
    return Interruption(
        f"stopped by {signal.Signals(number).name}; {len(states) - len(left)} of {counted(len(states), 'run')} done, "
        f"{num_saved} with a checkpoint to go on from, {len(left) - num_saved} without one yet. Give the same command "
        "again to go on.",
        signal_number=number,
    )
