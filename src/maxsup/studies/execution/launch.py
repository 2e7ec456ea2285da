"""Many runs at once: one interface for processes on this machine, Ray, and SLURM.

An engine only starts workers and hears of their end. How far a run is, and whether it is done, is read from its folder,
so it is the same for every engine.
"""

from __future__ import annotations

import json
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from maxsup.core.errors import Interruption
from maxsup.core.files.checkpoints import whole_lines
from maxsup.core.files.reading import as_written, read_json
from maxsup.core.files.rundir import RunDir
from maxsup.core.installation import install_command
from maxsup.core.interrupt import SignalGuard
from maxsup.core.registry import Registry
from maxsup.studies.execution.heartbeat import Pulse, read_pulse
from maxsup.studies.execution.worker import FAILURE, LOG, STARTED, is_done

LOOK_SECONDS = 0.4  # between two looks at the folders
SETTLE_SECONDS = 30.0  # that a file system may take to show what another machine has written

Status = Literal["queued", "running", "done", "failed"]


@dataclass(frozen=True)
class Job:
    """A run to be made in a folder that holds its ``job.json``, and how many epochs it trains."""

    name: str
    folder: Path
    epochs: int


@dataclass(frozen=True)
class JobState:
    """How far a run is."""

    job: Job
    status: Status
    epoch: int = 0  # finished
    seconds: float | None = None  # spent on training, in all attempts
    seconds_left: float | None = None  # of training, as far as one can tell
    sentence: str = ""  # why it failed, or what it does besides training
    log: Path | None = None  # what its worker printed
    pulse: Pulse = field(default_factory=Pulse)

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens to it in this launch."""
        return self.status in ("done", "failed")


OnChange = Callable[[Sequence[JobState]], None]


def read_state(job: Job, *, ended: str = "") -> JobState:
    """How far a run is, from its folder alone; ``ended`` says how its worker did: what is not done then has failed."""
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
        # Never less than the epochs after the one that runs: it may only be slow.
        left = max(each * (job.epochs - epoch) - age, each * (job.epochs - epoch - 1), 0.0)
    pulse = read_pulse(folder, folder / STARTED)
    if pulse.seconds_left is not None:
        left = max(pulse.seconds_left - pulse.age, 0.0)
    activity = pulse.doing or ("finishing" if epoch >= job.epochs else "")
    return JobState(job, "running", epoch, spent, left, activity, log, pulse)


class Launcher(ABC):
    """Starts a worker a run and stays until all have ended; one that fails does not stop the others."""

    num_retries = 2
    """How often a run whose worker was killed is begun again; it goes on from its checkpoint."""

    num_workers: int | None = None
    """How many runs at once; None where somebody else decides."""

    is_elsewhere = False
    """Whether runs may be made on other machines, which may have data that this one lacks."""

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """What is asked for each run, for people to read, if no run has more loader processes than these."""
        return {}

    def check_machine(self) -> None:  # noqa: B027 (most launchers need nothing)
        """Raise where this machine lacks what the launcher needs to start runs; a dry run does without."""

    def launch(self, jobs: Sequence[Job], on_change: OnChange | None = None) -> list[JobState]:
        """Make all runs that are not there yet.

        Args:
            jobs: The runs.
            on_change: Called with the state of all of them, a few times a second.

        Returns:
            How each one ended.

        Raises:
            Interruption: After Ctrl-C or SIGTERM. Workers had the time to save; the same call goes on.
        """
        if len({job.folder.resolve() for job in jobs}) < len(jobs):
            raise ValueError("Each job must have a folder of its own, and two of these share one. Drop the duplicate.")
        self.check_machine()
        states = {job.folder: read_state(job) for job in jobs}
        left = [job for job in jobs if states[job.folder].status != "done"]

        def show() -> None:
            if on_change is not None:
                on_change([states[job.folder] for job in jobs])

        for job in left:
            for name in (FAILURE, STARTED):
                (job.folder / name).unlink(missing_ok=True)
            states[job.folder] = read_state(job)
        show()
        if left:
            self._run(left, states, show)
        return [states[job.folder] for job in jobs]

    def _run(self, jobs: Sequence[Job], states: dict[Path, JobState], show: Callable[[], None]) -> None:
        left, deaths = {job.folder: job for job in jobs}, Counter[Path]()
        try:
            self._open(len(jobs))
            # After opening: engines may install handlers of their own.
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
                    states |= {folder: _unfinished(read_state(job)) for folder, job in left.items()}
                    show()
                    if guard.received is not None and left:
                        self._stop()
                        raise _interruption(guard.received, [read_state(state.job) for state in states.values()])
        finally:
            self._close()

    @abstractmethod
    def _open(self, num_jobs: int) -> None:
        """Get ready for so many jobs."""

    @abstractmethod
    def _submit(self, jobs: Sequence[Job]) -> None:
        """Let jobs be done as soon as there is room."""

    @abstractmethod
    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        """Jobs whose worker has ended, each with how as :func:`ending` says, after waiting at most so long for one."""

    @abstractmethod
    def _stop(self) -> None:
        """Ask all workers to save and leave, and give them the time to."""

    @abstractmethod
    def _close(self) -> None:
        """Leave nothing behind, whatever happened."""


LAUNCHERS: Registry[type[Launcher]] = Registry("launcher")

_MODULES = ("launch_local", "launch_ray", "launch_slurm")


def launcher_names() -> list[str]:
    """Names that :func:`create_launcher` knows.

    Example:
        >>> launcher_names()
        ['local', 'ray', 'slurm']
    """
    for module in _MODULES:
        import_module(f"maxsup.studies.execution.{module}")
    return LAUNCHERS.names()


def create_launcher(name: str = "local", **options: Any) -> Launcher:
    """A launcher by name.

    Args:
        name: ``local``, ``ray`` or ``slurm``.
        options: Those of its class.

    Example:
        >>> create_launcher("local", num_workers=2).num_workers
        2
        >>> create_launcher("local", workers=2)
        Traceback (most recent call last):
        TypeError: option of launcher 'local' must be one it has; got 'workers'. Did you mean 'num_workers'?
    """
    launcher_names()
    LAUNCHERS.check_options(name, options)
    return LAUNCHERS[name](**options)


def missing_extra(package: str, extra: str) -> ImportError:
    """The sentence about an engine that is not installed."""
    return ImportError(
        f"launcher {extra!r} must have {package} installed; got none. Run {install_command(extra)}, or use the "
        "launcher 'local'."
    )


def ending(code: int) -> str:
    """How a worker ended, from its exit code; nothing where it did what it should.

    Example:
        >>> ending(-9), ending(143), ending(1), ending(0)
        ('worker was killed by SIGKILL', 'worker was stopped by SIGTERM', 'worker ended with exit code 1', '')
    """
    if code == 0:
        return ""
    if code < 0:
        return f"worker was killed by {signal.Signals(-code).name}"
    if code in (130, 143):
        return f"worker was stopped by {signal.Signals(code - 128).name}"
    return f"worker ended with exit code {code}"


def _settled(job: Job, how: str) -> JobState:
    """The last state of a run whose worker has ended; files of another machine may be seen a while later."""
    end = time.monotonic() + SETTLE_SECONDS
    while not how and not read_state(job).is_final and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return read_state(job, ended=how or "worker says it is done, but its files do not")


def _unfinished(state: JobState) -> JobState:
    """What files say of a run whose worker has not ended: a failure is final only when the worker has."""
    return state if not state.is_final else JobState(state.job, "running", state.epoch, state.seconds, log=state.log)


def _interruption(number: int, states: Sequence[JobState]) -> Interruption:
    left = [state.job.folder for state in states if state.status != "done"]
    num_saved = sum(RunDir(folder).has_checkpoint for folder in left)
    num_done = len(states) - len(left)
    return Interruption(
        f"stopped by {signal.Signals(number).name}; of {len(states)} runs {num_done} are done, {num_saved} have a "
        f"checkpoint to go on from, {len(left) - num_saved} have none yet. Give the same command again to go on.",
        signal_number=number,
    )
