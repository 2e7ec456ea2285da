"""Runs on SLURM through submitit: one job array for all runs, each of its jobs one run.

Folders must be on a file system that all nodes share. A job that reaches its time limit, or is preempted, is put into
the queue again by submitit and goes on from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxsup.studies.launch import LAUNCHERS, Job, Launcher, ending, missing_extra
from maxsup.studies.worker import SAVE_SECONDS, attempt

_LOOK_SECONDS = 0.2


class Task:
    """What a node does; submitit asks it for its own continuation when the time is up."""

    def __init__(self, wait_seconds: float) -> None:
        self.wait_seconds = wait_seconds

    def __call__(self, folder: str) -> int:
        """One attempt; gives the exit code."""
        return attempt(folder, wait_seconds=self.wait_seconds)

    def checkpoint(self, folder: str) -> Any:
        """The same again: what was done is in the folder."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, folder)


@LAUNCHERS.register("slurm", summary="a SLURM job array, through submitit")
class SlurmLauncher(Launcher):
    """A job array.

    Args:
        folder: Of submitit's own files; ``slurm`` beside the folder of the runs by default.
        cluster: ``slurm``; ``local`` and ``debug`` for tests; whatever is there by default.
        timeout_min: Time limit of a job; a longer run goes on in a further one.
        partition: Where to.
        num_workers: How many at once; as many as SLURM gives by default.
        parameters: Others of submitit's ``AutoExecutor``, for instance ``gpus_per_node=1`` or ``slurm_account="x"``.
    """

    is_elsewhere = True

    def __init__(
        self,
        folder: str | Path | None = None,
        cluster: str | None = None,
        timeout_min: int = 240,
        partition: str | None = None,
        num_workers: int | None = None,
        **parameters: Any,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise missing_extra("submitit", "slurm") from error
        self._submitit: Any = submitit
        self.folder = folder
        self.cluster = cluster
        self.parameters: dict[str, Any] = {
            "name": "maxsup",
            "cpus_per_task": 1,
            "timeout_min": timeout_min,
            **({"slurm_partition": partition} if partition is not None else {}),
            **({"slurm_array_parallelism": num_workers} if num_workers is not None else {}),
            **parameters,
        }
        self._executor: Any = None
        self._jobs: list[tuple[Any, Job]] = []

    def _open(self, num_jobs: int) -> None:
        self._executor, self._jobs = None, []

    def _submit(self, jobs: Sequence[Job]) -> None:
        if self._executor is None:
            self._executor = self._create_executor(jobs[0].folder.resolve().parent.parent / "slurm")
        # Jobs of an earlier launch may still be in the queue or at work: what they do need not be done again.
        task = Task(wait_seconds=60.0 * self.parameters["timeout_min"])
        submitted = self._executor.map_array(task, [str(job.folder.resolve()) for job in jobs])
        self._jobs += zip(submitted, jobs, strict=True)

    def _create_executor(self, default: Path) -> Any:
        executor = self._submitit.AutoExecutor(folder=self.folder or default, cluster=self.cluster)
        executor.update_parameters(**self.parameters)
        return executor

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        end = time.monotonic() + seconds
        while not (over := [pair for pair in self._jobs if pair[0].done()]) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        self._jobs = [pair for pair in self._jobs if pair not in over]
        return [(job, self._how(submitted)) for submitted, job in over]

    def _how(self, submitted: Any) -> str:
        error = submitted.exception()
        if error is None:
            return ending(submitted.result())
        return f"SLURM job {submitted.job_id} ended: {str(error).strip().splitlines()[0]}"

    def _stop(self) -> None:
        for submitted, _ in self._jobs:
            submitted.cancel()
        end = time.monotonic() + SAVE_SECONDS
        while time.monotonic() < end and not all(submitted.done() for submitted, _ in self._jobs):
            time.sleep(_LOOK_SECONDS)

    def _close(self) -> None:
        # Jobs that are left belong to a launch that was broken off.
        for submitted, _ in self._jobs:
            submitted.cancel(check=False)
        self._jobs = []
