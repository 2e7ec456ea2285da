"""Jobs without training, for tests of launchers."""

import json
from pathlib import Path

from maxsup.lab.experiments.execution.launch import Job
from maxsup.lab.experiments.execution.worker import JOB


def make_jobs(folder: Path, *names: str, epochs: int = 4) -> list[Job]:
    jobs = [Job(name, folder / "runs" / name, epochs) for name in names]
    for job in jobs:
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / JOB).write_text(json.dumps({"recipe": {}, "name": job.name, "analyses": []}))
    return jobs


def add_epochs(job: Job, *seconds: float) -> None:
    """Lines as training leaves them."""
    for name, key in (("metrics.jsonl", "epoch"), ("timing.jsonl", "seconds")):
        with (job.folder / name).open("a") as file:
            file.writelines(json.dumps({key: value}) + "\n" for value in seconds)


def finish(job: Job) -> None:
    (job.folder / "summary.json").write_text("{}")
