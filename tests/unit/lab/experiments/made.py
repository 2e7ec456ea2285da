"""Folders of studies whose runs were never trained: what training and analyses would leave, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.study_folder import StudyFolder, plan_folder, write_folder
from maxsup.lab.experiments.schema import ScaleName, Study


def lay_out(study: Study, output: Path, scale: ScaleName, **options: Any) -> StudyFolder:
    """A study whose runs are planned and written down."""
    folder = plan_folder(study, output, scale, **options)
    write_folder(folder)
    return folder


def finish_run(folder: Path, accuracy: float, *, nll: float = 0.5, val_accuracy: float = 0.5) -> None:
    """A run whose test numbers are these."""
    numbers = {"n": 100, "accuracy": accuracy, "nll": nll, "ece": 0.1, "confidence_wrong": 0.6}
    val = {"accuracy": val_accuracy, "nll": nll}
    run = RunDir(folder)
    run.write_json(
        run.summary, {"test": {"last": numbers, "best": numbers}, "val": {"last": val, "best": val}, "seconds": 1.0}
    )
    run.write_json(run.env, {"maxsup": "0", "python": "3", "packages": {"torch": "2"}, "device": "cpu"})


def without_analyses(folder: StudyFolder) -> None:
    """Ask for no analysis, so that a trained run is a finished one."""
    for job in folder.jobs():
        path = job.folder / "job.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"analyses": []}))
