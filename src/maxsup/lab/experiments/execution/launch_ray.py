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

from maxsup.core.errors import MaxsupError, counted, first_line
from maxsup.lab.experiments.execution.cards import check_requested_gpus
from maxsup.lab.experiments.execution.launch import LAUNCHERS, Job, Launcher, ending, handed_on, missing_extra
from maxsup.lab.experiments.execution.launch_local import num_processors
from maxsup.lab.experiments.execution.worker import SAVE_SECONDS, attempt


@LAUNCHERS.register("ray", summary="tasks on Ray, on this machine or on a cluster")
class RayLauncher(Launcher):
    """Ray tasks.

    Args:
        address: Of a cluster, for instance ``auto`` or ``ray://host:10001``; by default a new one on this machine.
        num_workers: How many runs at once on a new cluster; by default one per processor.
        num_gpus: GPUs per run, perhaps a share of one; by default one if the cluster has any.
        gpus_per_run: Train each run in so many processes with a GPU each, on one node.
        num_cpus: Processors per run; give one more for each of its loader processes.
        max_retries: How often a run is restarted after its node or process died.
    """

    num_retries = 0  # Ray retries itself
    is_elsewhere = True

    def __init__(
        self,
        address: str | None = None,
        num_workers: int | None = None,
        num_gpus: float | None = None,
        num_cpus: int = 1,
        max_retries: int = 3,
        gpus_per_run: int | None = None,
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
        self.gpus_per_run = check_requested_gpus(num_gpus, gpus_per_run)
        self.num_gpus = num_gpus if gpus_per_run is None else gpus_per_run
        # One process may share a processor with its loaders; several may not.
        self.num_cpus, self.max_retries = max(num_cpus, self.gpus_per_run), max_retries
        self._sharing = ""
        self._tasks: dict[Any, Job] = {}
        self._is_ours = False
        self._handler: Any = None

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """The cluster, and what is requested for each run."""
        place = {"num_workers": self.num_workers} if self.address is None else {"address": self.address}
        gpus = "1 if there are any" if self.num_gpus is None else self.num_gpus
        return {**place, "num_gpus": gpus, "num_cpus": self.num_cpus}

    def sharing(self) -> str:
        """That each run takes one GPU, if nobody has said so."""
        return self._sharing

    def _open(self, num_jobs: int) -> None:
        self._handler = signal.getsignal(signal.SIGTERM)
        self._is_ours = not self._ray.is_initialized()
        if not self._is_ours:
            self._choose_gpus()
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
        self._choose_gpus()

    def _choose_gpus(self) -> None:
        """Take one GPU a run if there are any and nobody has asked; raise if no node has as many as a run needs."""
        nodes = [node["Resources"].get("GPU", 0.0) for node in self._ray.nodes() if node["Alive"]]
        if self.num_gpus is None:
            self.num_gpus = 1.0 if any(nodes) else 0.0
            found = counted(int(sum(nodes)), "GPU")
            self._sharing = f"{found} in the cluster: each run takes one; num_gpus or gpus_per_run changes that"
            self._sharing = self._sharing if any(nodes) else ""
        # A cluster may add nodes when they are needed, a machine cannot.
        if self.address is None and max(nodes, default=0.0) < self.num_gpus:
            raise MaxsupError(
                f"num_gpus must be at most what this machine has; got {self.num_gpus:g} per run, and Ray sees fewer. "
                "Leave num_gpus and gpus_per_run out, or give the address of a cluster.",
                code="too-few-gpus",
            )

    def _submit(self, jobs: Sequence[Job]) -> None:
        # Ray gives a task of one processor one thread, and a process does one task after another.
        needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, "max_retries": self.max_retries}
        task = self._ray.remote(**needs)(_attempt_on_node)
        for job in jobs:
            words = (str(job.folder.resolve()), os.getcwd(), handed_on(), self.gpus_per_run)
            self._tasks[task.remote(*words)] = job

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


def _attempt_on_node(folder: str, current: str, variables: dict[str, str], num_ranks: int) -> int:
    """What a node does; relative paths in a recipe start at the launcher's folder."""
    os.environ.update(variables)
    if os.path.isdir(current):
        os.chdir(current)
    return attempt(folder, num_ranks=num_ranks)
