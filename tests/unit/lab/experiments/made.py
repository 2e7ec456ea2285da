"""Folders of studies whose runs were never trained: what training and analyses would leave, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.design import Design
from maxsup.lab.experiments.execution.study_folder import StudyFolder, plan_folder, write_folder


def lay_out(design: Design, output: Path, **options: Any) -> StudyFolder:
    """A design whose runs are planned and written down."""
    folder = plan_folder(design, output, **options)
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


def of_tested_numbers(design: Design, count: int | None = None) -> Design:
    """A design without analyses, whose table shows so many of the numbers that training gives."""
    shown = [column for column in design.table.columns if column.metric and column.metric.source == "test"]
    bare = tuple(each.model_copy(update={"analyses": ()}) for each in design.experiments)
    table = design.table.model_copy(update={"columns": tuple(shown[:count])})
    return design.model_copy(update={"experiments": bare, "table": table})
