"""Runs on this machine: processes of one thread each, which together do more than one run with all threads.

A process takes one run after another, so that torch is imported once a process. What is killed with one is the run it
works on, back to that run's last checkpoint.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from selectors import EVENT_READ, DefaultSelector

from maxsup.studies.launch import LAUNCHERS, Job, Launcher, ending
from maxsup.studies.worker import LOG

SAVE_SECONDS = 60.0
"""How long workers may take to save before they are killed; their last checkpoint holds."""

_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    job: Job | None = None


@LAUNCHERS.register("local", summary="processes of one thread each on this machine")
class LocalLauncher(Launcher):
    """Worker processes on this machine.

    Args:
        num_workers: How many at once; one a processor by default.
    """

    _command = (sys.executable, "-m", "maxsup.studies.worker")

    def __init__(self, num_workers: int | None = None) -> None:
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"num_workers must be at least 1; got {num_workers}. Leave it out for one a processor.")
        self.num_workers = num_workers or num_processors()
        self._workers: list[_Worker] = []
        self._waiting: deque[Job] = deque()
        self._selector = DefaultSelector()

    def _open(self, num_jobs: int) -> None:
        self._waiting.clear()
        self._selector = DefaultSelector()

    def _submit(self, jobs: Sequence[Job]) -> None:
        self._waiting.extend(jobs)
        self._feed()

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        ended = []
        heard: list[_Worker] = [key.data for key, _ in self._selector.select(seconds)]
        # The pipe of a dead worker stays open as long as its data processes live.
        dead = [worker for worker in self._workers if worker not in heard and worker.process.poll() is not None]
        for worker in heard + dead:
            assert worker.process.stdout is not None
            is_gone = worker in dead or not os.read(worker.process.stdout.fileno(), 64)
            how = self._forget(worker) if is_gone else ""
            if worker.job is not None:
                ended.append((worker.job, how))
            worker.job = None
        self._feed()
        return ended

    def _feed(self) -> None:
        """Give a job to each worker that has none, and start workers as long as there are jobs for them."""
        idle = [worker for worker in self._workers if worker.job is None]
        while self._waiting and (idle or len(self._workers) < self.num_workers):
            job = self._waiting.popleft()
            worker = idle.pop() if idle else self._start(job)
            worker.job = job
            assert worker.process.stdin is not None
            try:
                worker.process.stdin.write(json.dumps(str(job.folder.resolve())).encode() + b"\n")
                worker.process.stdin.flush()
            except BrokenPipeError:
                # Killed while it waited; its pipe says so at the next look, and the job is begun again.
                continue

    def _start(self, job: Job) -> _Worker:
        # Its first job's log also takes what it says before it knows of the job.
        with (job.folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # The path of a script does not have the current folder in it either.
                env=os.environ | _ONE_THREAD | {"PYTHONSAFEPATH": "1"},
                # Ctrl-C on a terminal is for the launcher alone, which then tells the workers.
                start_new_session=True,
            )
        worker = _Worker(process)
        self._workers.append(worker)
        self._selector.register(process.stdout, EVENT_READ, worker)  # type: ignore[arg-type]
        return worker

    def _forget(self, worker: _Worker) -> str:
        """Take leave of a worker that has ended; gives how it did."""
        process = worker.process
        assert process.stdin is not None
        assert process.stdout is not None
        self._selector.unregister(process.stdout)
        self._workers.remove(worker)
        process.stdout.close()
        _close_quietly(worker)
        return ending(process.wait())

    def _stop(self) -> None:
        self._waiting.clear()
        # The end of its input tells a worker to save and leave, as the death of this process would.
        for worker in self._workers:
            _close_quietly(worker)
        end = time.monotonic() + SAVE_SECONDS
        for worker in self._workers:
            try:
                worker.process.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                return

    def _close(self) -> None:
        for worker in self._workers:
            _close_quietly(worker)
        for worker in list(self._workers):
            if worker.job is not None:
                worker.process.kill()
            self._forget(worker)
        self._selector.close()


def num_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _close_quietly(worker: _Worker) -> None:
    assert worker.process.stdin is not None
    try:
        worker.process.stdin.close()
    except BrokenPipeError:
        return
