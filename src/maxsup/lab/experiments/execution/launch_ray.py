"""Runs on Ray: a new cluster on this machine, or one that runs already.

Folders must be on a file system that all nodes share, and maxsup must be installed on each node. Ray restarts a run
whose node or process dies elsewhere, and the run continues from its checkpoint.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from typing import Any

from maxsup.core.errors import MaxsupError, first_line
from maxsup.lab.experiments.execution.launch import LAUNCHERS, Job, Launcher, ending, handed_on, missing_extra
from maxsup.lab.experiments.execution.launch_local import num_processors
from maxsup.lab.experiments.execution.worker import SAVE_SECONDS, attempt


@LAUNCHERS.register("ray", summary="tasks on Ray, on this machine or on a cluster")
class RayLauncher(Launcher):
    """Ray tasks.

    Args:
        address: Of a cluster, for instance ``auto`` or ``ray://host:10001``; by default a new one on this machine.
        num_workers: How many runs at once on a new cluster; by default one per processor.
        num_gpus: GPUs per run.
        num_cpus: Processors per run; give one more for each of its loader processes.
        max_retries: How often a run is restarted after its node or process died.
    """

    num_retries = 0  # Ray retries itself
    is_elsewhere = True

    def __init__(
        self,
        address: str | None = None,
        num_workers: int | None = None,
        num_gpus: float = 0.0,
        num_cpus: int = 1,
        max_retries: int = 3,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise missing_extra("ray", "ray") from error
        if address is not None and num_workers is not None:
            raise ValueError(
                f"num_workers must be left out with an address; got {num_workers}. A cluster decides how many run."
            )
        self._ray: Any = ray
        self.address = address
        self.num_workers: int = num_workers or num_processors()
        self.num_gpus, self.num_cpus, self.max_retries = num_gpus, num_cpus, max_retries
        self._tasks: dict[Any, Job] = {}
        self._is_ours = False
        self._handler: Any = None

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """The cluster, and what is requested for each run."""
        place = {"num_workers": self.num_workers} if self.address is None else {"address": self.address}
        return {**place, "num_gpus": self.num_gpus, "num_cpus": self.num_cpus}

    def _open(self, num_jobs: int) -> None:
        self._handler = signal.getsignal(signal.SIGTERM)
        self._is_ours = not self._ray.is_initialized()
        if not self._is_ours:
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        num_cpus = min(self.num_workers, num_jobs) * self.num_cpus
        own = {"include_dashboard": False, "num_cpus": num_cpus} if self.address is None else {}
        try:
            # Otherwise Ray puts the current folder, where anybody's files may lie, on the path of its workers.
            job = self._ray.job_config.JobConfig(_client_job=True)
            self._ray.init(
                address=self.address, job_config=job, log_to_driver=False, logging_level=logging.ERROR, **own
            )
        except ConnectionError as error:
            raise MaxsupError(
                f"address must be that of a Ray cluster that runs; got {self.address!r}. Start one with "
                "`ray start --head`, or leave the address out for one on this machine.",
                code="launcher-missing",
            ) from error
        if self.address is None and self._ray.cluster_resources().get("GPU", 0.0) < self.num_gpus:
            raise MaxsupError(
                f"num_gpus must be at most what this machine has; got {self.num_gpus:g} per run, and Ray sees fewer. "
                "Leave num_gpus out, or give the address of a cluster.",
                code="too-few-gpus",
            )

    def _submit(self, jobs: Sequence[Job]) -> None:
        # Ray gives a task of one processor one thread, and a process does one task after another.
        needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "max_retries": self.max_retries}
        task = self._ray.remote(**needs)(_attempt_on_node)
        for job in jobs:
            self._tasks[task.remote(str(job.folder.resolve()), os.getcwd(), handed_on())] = job

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        over, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [(self._tasks.pop(reference), self._how(reference)) for reference in over]

    def _how(self, reference: Any) -> str:
        try:
            return ending(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            return f"Ray gave up: {first_line(error)}"

    def _stop(self, number: int) -> None:
        for reference in self._tasks:
            # Like Ctrl-C in the worker, which saves.
            self._ray.cancel(reference, force=False)
        self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=SAVE_SECONDS)

    def _close(self) -> None:
        if self._is_ours:
            self._ray.shutdown()
            self._is_ours = False
            if threading.current_thread() is threading.main_thread():
                # Ray installs a handler of its own and leaves it.
                signal.signal(signal.SIGTERM, self._handler)
        self._tasks = {}


def _attempt_on_node(folder: str, current: str, variables: dict[str, str]) -> int:
    """What a node does; relative paths in a recipe start at the launcher's folder."""
    os.environ.update(variables)
    if os.path.isdir(current):
        os.chdir(current)
    return attempt(folder)
