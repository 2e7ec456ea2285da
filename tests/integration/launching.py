"""Tiny jobs, a launch of them in a process of its own, so that it can be killed, and what it is doing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from maxsup.core.errors import Interruption
from maxsup.lab.experiments.execution.launch import Job, JobState, create_launcher, read_state
from maxsup.lab.experiments.execution.launch_display import LineView
from maxsup.lab.experiments.execution.worker import JOB
from tests.integration.runs import tiny_recipe

NUM_JOBS = 4
# Enough epochs to be caught in the middle.
LONGER = ("epochs=40",)
COLLAPSE = {"what": "collapse", "split": "test", "weights": "last", "options": {}, "data": None}


def plan_jobs(folder: Path, images: Path, num_jobs: int, *words: str, has_analysis: bool = False) -> list[Job]:
    jobs = []
    for seed in range(num_jobs):
        recipe = tiny_recipe(images, f"seed={seed}", "threads=1", *words)
        job = Job(f"tiny-s{seed}", folder / "runs" / f"tiny-s{seed}", recipe.epochs)
        job.folder.mkdir(parents=True, exist_ok=True)
        analyses = [COLLAPSE] if has_analysis else []
        content = {"recipe": recipe.model_dump(mode="json"), "name": "tiny", "analyses": analyses}
        (job.folder / JOB).write_text(json.dumps(content))
        jobs.append(job)
    return jobs


def planned(folder: Path) -> list[Job]:
    """The jobs that :func:`plan_jobs` wrote there."""
    found = sorted((folder / "runs").iterdir())
    return [Job(path.name, path, json.loads((path / JOB).read_text())["recipe"]["epochs"]) for path in found]


def numbers_of(jobs: list[Job]) -> list[Any]:
    return [json.loads((job.folder / "summary.json").read_text())["test"] for job in jobs]


def complaints(states: list[JobState]) -> list[str]:
    return [f"{state.job.name} {state.status}: {state.sentence}" for state in states if state.status != "done"]


def start(folder: Path, num_workers: int = 2, *more: str) -> subprocess.Popen[bytes]:
    """A launch of the jobs in a folder, by :func:`main`."""
    words = [sys.executable, "-m", "tests.integration.launching", str(folder), str(num_workers), *more]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def wait_until(is_so: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def stat_of(process: int | str) -> list[str]:
    """State, parent, group, session and so on of a process; nothing if it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return []


def is_alive(process: int) -> bool:
    return stat_of(process)[:1] not in ([], ["Z"])


def num_epochs(jobs: Sequence[Job]) -> int:
    return sum(read_state(job).epoch for job in jobs)


def main(folder: str, num_workers: str, address: str = "") -> None:
    """Local workers, or with an address a Ray cluster."""
    options = {"address": address} if address else {"num_workers": int(num_workers)}
    launcher = create_launcher("ray" if address else "local", **options)
    try:
        states = launcher.launch(planned(Path(folder)), LineView().update)
    except Interruption as stop:
        sys.exit(stop.exit_code)
    sys.exit(bool(complaints(states)))


if __name__ == "__main__":
    main(*sys.argv[1:])
