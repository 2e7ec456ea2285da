"""Runs on SLURM through submitit: one job array, each of its jobs one run.

Folders must be on a file system that all nodes share. A job that reaches its time limit, or is preempted, saves;
submitit puts it into the queue again, and it continues where it was.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from maxsup.core.errors import MaxsupError, first_line
from maxsup.core.registry import check_known_options
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.experiments.execution.cards import check_requested_gpus
from maxsup.lab.experiments.execution.launch import LAUNCHERS, Job, Launcher, ending, handed_on, missing_extra
from maxsup.lab.experiments.execution.worker import JOB, SAVE_SECONDS, attempt

_LOOK_SECONDS = 0.2
_MAX_TIMEOUTS = 100  # how often a run may reach the time limit and continue


class Task:
    """What a node does; submitit asks it for a continuation when the time is up."""

    def __init__(self, wait_seconds: float, num_ranks: int = 1) -> None:
        self.wait_seconds, self.num_ranks = wait_seconds, num_ranks

    def __call__(self, folder: str) -> int:
        """One attempt; gives the exit code."""
        number = signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
        # Submitit's handler puts the job into the queue again and ends this process at once.
        requeue = signal.getsignal(number)
        is_over = False

        def save(received: int, frame: FrameType | None) -> None:
            nonlocal is_over
            is_over = True
            os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(number, save)
        try:
            code = attempt(folder, wait_seconds=self.wait_seconds, num_ranks=self.num_ranks)
        finally:
            signal.signal(number, requeue)
        if is_over and code and callable(requeue):
            requeue(number, None)
        return code

    def checkpoint(self, folder: str) -> Any:
        """The same task again: what was done is in the folder."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, folder)


@LAUNCHERS.register("slurm", summary="a SLURM job array, through submitit")
class SlurmLauncher(Launcher):
    """A job array.

    Args:
        folder: For submitit's own files; by default ``slurm`` beside the folder of the runs.
        cluster: ``slurm``; ``local`` and ``debug`` for tests.
        timeout_min: Time limit of a job; a longer run continues in another job.
        num_gpus: GPUs per run.
        gpus_per_run: Train each run in so many processes with a GPU each, on one node.
        num_cpus: Processors per run; by default one for each process, and one for each of its loader processes.
        num_workers: How many runs at once; by default as many as SLURM allows.
        python: Command that starts Python on a node, for instance in a container; by default the current one.
        setup: Shell commands before it, for instance ``module load cuda``.
        parameters: Other options of ``sbatch`` by submitit's names: ``partition``, ``account``, ``qos``,
            ``constraint``, ``mem_gb`` and so on.
    """

    is_elsewhere = True

    def __init__(
        self,
        folder: str | Path | None = None,
        cluster: str = "slurm",
        timeout_min: int = 240,
        num_gpus: int | None = None,
        num_cpus: int | None = None,
        num_workers: int | None = None,
        python: str | None = None,
        setup: str | Sequence[str] | None = None,
        gpus_per_run: int | None = None,
        **parameters: Any,
    ) -> None:
        try:
            import submitit
        except ImportError as error:
            raise missing_extra("submitit", "slurm") from error
        self._submitit: Any = submitit
        self.folder, self.cluster, self.python = folder, cluster, python
        self.num_cpus, self.num_workers = num_cpus, num_workers
        elsewhere = _gpus_in(parameters)
        self.gpus_per_run = check_requested_gpus(num_gpus if elsewhere is None else elsewhere, gpus_per_run)
        given = {
            "gpus_per_node": num_gpus if elsewhere is not None or gpus_per_run is None else gpus_per_run,
            "slurm_array_parallelism": num_workers,
            "slurm_setup": [setup] if isinstance(setup, str) else setup,
            # Otherwise a cluster may refuse to requeue a job that reached its time limit.
            "slurm_additional_parameters": {"requeue": True},
        }
        self.parameters: dict[str, Any] = {
            "name": "maxsup",
            "timeout_min": timeout_min,
            **{name: value for name, value in given.items() if value is not None},
            **{self._parameter(name): value for name, value in parameters.items()},
        }
        self._executor: Any = None
        self._jobs: list[tuple[Any, Job]] = []

    def _parameter(self, name: str) -> str:
        """A parameter as submitit's AutoExecutor names it."""
        shared = self._submitit.AutoExecutor._valid_parameters()
        own = self._submitit.SlurmExecutor._valid_parameters()
        bare = name.removeprefix("slurm_")
        check_known_options("launcher 'slurm'", [bare], shared | own)
        return bare if bare in shared else f"slurm_{bare}"

    def settings(self, num_loaders: int) -> dict[str, Any]:
        """What is requested from SLURM for each run."""
        python = {} if self.python is None else {"python": self.python}
        return {"cpus_per_task": self.num_cpus or self.gpus_per_run * (1 + num_loaders), **self.parameters, **python}

    def check_machine(self) -> None:
        """Raise unless this machine has the commands of SLURM."""
        missing = [name for name in ("sbatch", "srun") if shutil.which(name) is None]
        if missing and self.cluster == "slurm":
            raise MaxsupError(
                f"launcher 'slurm' needs {' and '.join(missing)}, and this machine has no such command. Log in to the "
                "cluster, load its SLURM module, or use the launcher 'local'.",
                code="launcher-missing",
            )

    def _submit(self, jobs: Sequence[Job]) -> None:
        if self._executor is None:
            self._executor = self._create_executor(jobs)
        # Jobs of an earlier launch may still be queued or running; their work need not be done again.
        task = Task(60.0 * self.parameters["timeout_min"], self.gpus_per_run)
        submitted = self._executor.map_array(task, [str(job.folder.resolve()) for job in jobs])
        self._jobs += zip(submitted, jobs, strict=True)

    def _create_executor(self, jobs: Sequence[Job]) -> Any:
        executor = self._submitit.AutoExecutor(
            folder=self.folder or jobs[0].folder.resolve().parent.parent / "slurm",
            cluster=self.cluster,
            slurm_max_num_timeout=_MAX_TIMEOUTS,
            slurm_python=self.python,
        )
        recipes = [read_json(job.folder / JOB)["recipe"] for job in jobs]
        settings = self.settings(max(int(recipe["data"].get("num_workers", 0)) for recipe in recipes))
        settings.pop("python", None)
        # The variables are set here too, but a cluster may not hand on the environment.
        exports = [f"export {name}={value}" for name, value in handed_on().items()]
        settings["slurm_setup"] = [*exports, *settings.get("slurm_setup", ())]
        executor.update_parameters(**settings)
        return executor

    def _ended(self, seconds: float) -> list[tuple[Job, str]]:
        end = time.monotonic() + seconds
        while not (over := [pair for pair in self._jobs if pair[0].done()]) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        self._jobs = [pair for pair in self._jobs if pair not in over]
        return [(job, _how_it_ended(submitted)) for submitted, job in over]

    def _stop(self, number: int) -> None:
        if number == signal.SIGHUP:
            # Whoever logs out leaves the jobs to the cluster; the same command waits for them.
            self._jobs = []
            return
        for submitted, _ in self._jobs:
            submitted.cancel()
        end = time.monotonic() + SAVE_SECONDS
        while time.monotonic() < end and not all(submitted.done() for submitted, _ in self._jobs):
            time.sleep(_LOOK_SECONDS)

    def _close(self) -> None:
        # Jobs that are left belong to a launch that was aborted.
        for submitted, _ in self._jobs:
            submitted.cancel(check=False)
        self._executor, self._jobs = None, []


def _gpus_in(parameters: Mapping[str, Any]) -> int | None:
    """GPUs of a job in sbatch's own words: ``gpus_per_node=a100:4`` or ``gres=gpu:a100:4``; None without any."""
    for name, value in parameters.items():
        word, text = name.removeprefix("slurm_"), str(value).split(",")[0]
        if word in ("gpus_per_node", "gpus_per_task") or (word == "gres" and text.startswith("gpu")):
            found = re.search(r"(?:^|:)(\d+)$", text)
            return int(found[1]) if found else 1
    return None


def _how_it_ended(submitted: Any) -> str:
    if (error := submitted.exception()) is None:
        return ending(submitted.result())
    return f"SLURM job {submitted.job_id} ended: {first_line(error)}"
