"""Runs on this machine: processes of one thread each, which together are faster than one run with all threads.

A process takes one run after another, so that it imports torch once. If it is killed, its current run falls back to the
last checkpoint. Neither ``concurrent.futures`` nor loky can do that: when one worker is killed they give up the
whole pool, they cannot ask a running job to save and exit, and they keep no log for each run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from itertools import count
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from maxsup.lab.experiments.execution.cards import check_gpus_per_run, visible_cards
from maxsup.lab.experiments.execution.launch import (
    LAUNCHERS,
    FollowUp,
    Job,
    JobState,
    Launcher,
    ending,
    is_stop,
    read_state,
)
from maxsup.lab.experiments.execution.worker import LOG, ORDERS, RANKS, SAVE_SECONDS, attempt

_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    orders: FileIO
    slot: int
    job: Job | None = None


@LAUNCHERS.register("local", summary="processes of one thread each on this machine")
class LocalLauncher(Launcher):
    """Worker processes on this machine: ``num_workers`` at once, by default one per GPU or else per processor.

    Each worker sees one GPU, or with ``gpus_per_run`` so many, and trains a run in as many processes. More workers than
    GPUs share them in turns.
    """

    _command = (sys.executable, "-m", "maxsup.lab.experiments.execution.worker")

    def __init__(self, num_workers: int | None = None, gpus_per_run: int | None = None) -> None:
        if num_workers is not None and num_workers < 1:
            raise ValueError(
                f"num_workers must be at least 1; got {num_workers}. Leave it out for one a GPU, or else a processor."
            )
        self._cards = visible_cards()
        self.gpus_per_run = check_gpus_per_run(gpus_per_run, self._cards)
        self.num_workers: int = num_workers or self._cards.num_groups(self.gpus_per_run) or num_processors()
        self._workers: list[_Worker] = []
        self._waiting: deque[Job] = deque()

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """How many runs at once."""
        several = {} if self.gpus_per_run == 1 else {"gpus_per_run": self.gpus_per_run}
        return {"num_workers": self.num_workers, **several}

    def num_at_full_speed(self, num_jobs: int) -> int:
        """How many runs train at once; those that share a GPU slow each other down."""
        return min(self.num_workers, num_jobs, *([self._cards.num_groups(self.gpus_per_run)] if self._cards else []))

    def sharing(self) -> str:
        """How runs share the GPUs of this machine; "" without any."""
        return self._cards.sharing(self.num_workers, self.gpus_per_run) if self._cards else ""

    def _open(self, num_jobs: int) -> None:
        self._selector = DefaultSelector()

    def _submit(self, jobs: Sequence[Job]) -> None:
        self._waiting.extend(jobs)
        self._feed()

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        ended = []
        heard: list[_Worker] = [key.data for key, _ in self._selector.select(seconds)]
        # The pipe of a dead worker stays open as long as its data loaders live.
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
        """Give a job to each idle worker, and start workers as long as there are jobs for them."""
        idle = [worker for worker in self._workers if worker.job is None]
        while self._waiting and (idle or len(self._workers) < self.num_workers):
            job = self._waiting.popleft()
            worker = idle.pop() if idle else self._start(job)
            worker.job = job
            # Broken if the worker was killed while idle: the next look notices, and the job is started again.
            with suppress(BrokenPipeError):
                worker.orders.write(json.dumps(str(job.folder.resolve())).encode() + b"\n")

    def _start(self, job: Job) -> _Worker:
        # Not standard input: a worker forks data loaders, which would wait for the lock of a stream that a thread of
        # the worker was reading.
        orders, write_end = os.pipe()
        slot = next(slot for slot in count() if slot not in {worker.slot for worker in self._workers})
        gpus = self._cards.environment(slot, self.gpus_per_run)
        ranks = [] if self.gpus_per_run == 1 else [RANKS, str(self.gpus_per_run)]
        # The log of its first job also gets what it prints before it knows the job.
        with FileIO(orders), (job.folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                [*self._command, *ranks, ORDERS, str(orders)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[orders],
                env=os.environ | _ONE_THREAD | gpus,
                # Ctrl-C on a terminal reaches the launcher alone, which then tells the workers.
                start_new_session=True,
            )
        worker = _Worker(process, FileIO(write_end, "w"), slot)
        self._workers.append(worker)
        self._selector.register(process.stdout, EVENT_READ, worker)  # type: ignore[arg-type]
        return worker

    def _forget(self, worker: _Worker) -> str:
        """Clean up after a worker that has ended; gives how it ended."""
        process = worker.process
        assert process.stdout is not None
        self._selector.unregister(process.stdout)
        self._workers.remove(worker)
        process.stdout.close()
        worker.orders.close()
        code = process.wait()
        _kill_group(worker)
        return ending(code)

    def _stop(self, number: int) -> None:
        self._waiting.clear()
        # The end of its orders tells a worker to save and exit, as the death of this process would.
        for worker in self._workers:
            worker.orders.close()
        end = time.monotonic() + SAVE_SECONDS
        for worker in self._workers:
            try:
                worker.process.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                return

    def _close(self) -> None:
        for worker in list(self._workers):
            # An idle one has nothing to lose, and one with a job has had its time.
            _kill_group(worker)
            self._forget(worker)
        self._selector.close()
        self._waiting.clear()


class HereLauncher(Launcher):
    """This process, one run after another, for losses and networks that no other process can import."""

    num_retries = 0
    num_workers = 1

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._look: Callable[[], None] | None = None

    def _run(
        self, jobs: Sequence[Job], states: dict[Path, JobState], show: Callable[[], None], then: FollowUp | None
    ) -> None:
        def look() -> None:
            states.update({folder: read_state(state.job) for folder, state in states.items()})
            show()

        self._look = look
        super()._run(jobs, states, show, then)

    def _submit(self, jobs: Sequence[Job]) -> None:
        self._waiting.extend(jobs)

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        job = self._waiting.popleft()
        code = attempt(job.folder, on_pulse=self._look)
        # After a signal it has not ended, which the guard of this launch knows too.
        return [] if is_stop(code) else [(job, ending(code))]

    def _close(self) -> None:
        self._waiting.clear()


def num_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kill_group(worker: _Worker) -> None:
    """Kill a worker and its data loaders, which are in its process group."""
    # macOS answers EPERM if all processes of a group have ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, signal.SIGKILL)
