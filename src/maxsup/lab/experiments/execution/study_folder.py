"""The folder of a design: what has to be trained and analysed, and its execution by a launcher.

::

    OUT/study.json      the design, and every run with its cells of the table
    OUT/runs/NAME/      run directories; NAME ends in a digest of the recipe, so that no run is trained twice
    OUT/../runs/NAME/   run directories of a pool, shared by studies in neighbouring folders
    OUT/joint/NAME/     jobs that analyse all runs of a seed at once
    OUT/summary.json    the numbers (see ``summarize``)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import model_validator

from maxsup import __version__
from maxsup.core.errors import MaxsupError
from maxsup.lab.analysis import ANALYSES, data_label, result_path
from maxsup.lab.core.config import LossConfig, Recipe, differing_keys, parse_recipe, recipe_digest
from maxsup.lab.core.files.reading import as_written, read_json
from maxsup.lab.core.files.records import Record, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.design import Design, PlannedRun
from maxsup.lab.experiments.execution.launch import Job, JobState, Launcher, OnChange
from maxsup.lab.experiments.execution.worker import JOB, is_done
from maxsup.lab.experiments.experiment import Analysis
from maxsup.lab.experiments.imports import imports_of
from maxsup.lab.experiments.run import Result, Run
from maxsup.lab.experiments.study_format import Study
from maxsup.lab.experiments.table import Cell

STUDY_FILE = "study.json"
_RUNS, _JOINT = "runs", "joint"


class RunRecord(Record):
    """A planned run in ``study.json``: its arm and its cells of the table."""

    arm: str
    seed: int
    cells: tuple[Cell, ...]
    pool: str = ""


class StudyRecord(Record):
    """``study.json``; files of 0.1.0 hold a study of the paper, or one made for a comparison, and its scale."""

    version: str = ""
    design: Design
    runs: dict[str, RunRecord]
    recipes: dict[str, dict[str, Any]]

    @model_validator(mode="before")
    @classmethod
    def _translated(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "study" not in values:
            return values
        found = Study.model_validate(values["study"]).at(values["scale"]).model_dump(mode="json")
        kind = {"compare": "comparison", "runs": "runs", "tuning": "tuning"}.get(found["name"], "study")
        of_paper = {} if kind == "study" else {"label": "", "scale": ""}
        experiments = [each | {"analyses": values["analyses"]} for each in found["experiments"]]
        made = {"kind": kind, "experiments": experiments, "missing": values.get("missing", ()), **of_paper}
        return {**values, "design": found | made}


@dataclass(frozen=True)
class StudyFolder:
    """A design laid out on disk; ``elsewhere`` has the directories of runs that are not in this folder."""

    path: Path
    design: Design
    runs: dict[str, PlannedRun]
    elsewhere: dict[str, Path] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        """Return the directory of a run; runs of a pool are beside the folders of the studies that share them."""
        if name in self.elsewhere:
            return self.elsewhere[name]
        return (self.path.parent if self.runs[name].pool else self.path) / _RUNS / name

    def run(self, name: str) -> Run:
        """Return a run with the places of its results."""
        path, recipe = self.folder(name), self.runs[name].recipe
        requests = {plan.name: analysis_call(plan, recipe, self.design.weights) for plan in self.design.analyses}
        return Run(path, recipe, {plan: request_path(path, request) for plan, request in requests.items()})

    def results(self) -> list[Result]:
        """Return the experiments of the table with their runs."""
        found: list[dict[tuple[str, int], Run]] = [{} for _ in self.design.experiments]
        for name, planned in self.runs.items():
            run = self.run(name)
            for place in filter(None, map(self.design.table.place, planned.cells)):
                found[place.experiment][place.arm, planned.seed] = run
        pairs = zip(self.design.experiments, found, strict=True)
        return [Result(experiment, runs, self.design.weights) for experiment, runs in pairs]

    def job(self, name: str) -> dict[str, Any]:
        """Return what a worker is asked to do for a run: the content of its ``job.json``."""
        run = self.runs[name]
        return self._job_content(run.recipe, run.pool or self.design.name, is_joint=False)

    def joint_job(self, names: Sequence[str], folder: Path) -> dict[str, Any]:
        """Return what a worker is asked to do for several runs at once; paths are relative to the folder of the job."""
        runs = [os.path.relpath(self.folder(name).resolve(), folder.resolve()) for name in names]
        return {"runs": runs, **self._job_content(self.runs[names[0]].recipe, self.design.name, is_joint=True)}

    def _job_content(self, recipe: Recipe, name: str, *, is_joint: bool) -> dict[str, Any]:
        analyses = [analysis for analysis in self.design.analyses if ANALYSES[analysis.what].is_joint == is_joint]
        calls = [analysis_call(analysis, recipe, self.design.weights) for analysis in analyses]
        content = {"recipe": recipe.model_dump(mode="json"), "name": name, "analyses": calls}
        imports = imports_of(recipe)
        return content | ({"imports": imports} if imports else {})

    def open_runs(self) -> dict[str, PlannedRun]:
        """Return runs that are not trained yet, or not analysed."""
        return {name: run for name, run in self.runs.items() if not self._is_done(name)}

    def _is_done(self, name: str) -> bool:
        # What analyses there are is looked up for trained runs only.
        folder = self.folder(name)
        return RunDir(folder).summary.exists() and is_done(folder, self.job(name))

    def jobs(self) -> list[Job]:
        """Return one job per run."""
        return [Job(name, self.folder(name), run.recipe.epochs) for name, run in self.runs.items()]


def plan_folder(design: Design, output: str | Path, *, data_root: str | Path | None = None) -> StudyFolder:
    """Plan what a design needs and where it goes; nothing is written.

    A folder that already holds this design is continued: finished runs stay, even if seeds or losses were added. One
    that holds runs with other settings is refused.
    """
    place = {} if data_root is None else {"data": {"root": str(Path(data_root).resolve())}}
    runs = [replace(run, recipe=run.recipe.changed(**place)) for run in design.runs()]
    folder = StudyFolder(Path(output), design, {_run_name(run): run for run in runs})
    _require_same_study(folder)
    return folder


def write_folder(folder: StudyFolder) -> None:
    """Write down what is planned, before anything runs."""
    for name, run in folder.runs.items():
        directory, job = RunDir(folder.folder(name)), folder.job(name)
        if run.pool and (directory.path / JOB).is_file():
            # Analyses that another study requests of the same run stay requested.
            others = read_json(directory.path / JOB)["analyses"]
            job["analyses"] += [request for request in others if request not in job["analyses"]]
        directory.write_json(directory.path / JOB, job)
    runs = folder.runs.items()
    record = StudyRecord(
        version=__version__,
        runs={name: RunRecord(arm=run.arm, seed=run.seed, cells=run.cells, pool=run.pool) for name, run in runs},
        recipes={name: run.recipe.model_dump(mode="json") for name, run in runs},
        design=folder.design,
    )
    RunDir(folder.path).write_json(folder.path / STUDY_FILE, record.model_dump(mode="json"))


def read_folder(path: str | Path) -> StudyFolder:
    """Read a folder that :func:`write_folder` made."""
    file = Path(path) / STUDY_FILE
    if not file.is_file():
        raise MaxsupError(
            f"folder must be one that maxsup compare or maxsup study run made; got {str(path)!r}, which has no "
            f"{STUDY_FILE}. Give its output folder.",
            code="not-a-comparison",
        )
    record = read_record(StudyRecord, file)
    with as_written(file):
        runs = {
            name: PlannedRun(parse_recipe(record.recipes[name]), run.arm, run.seed, run.cells, run.pool)
            for name, run in record.runs.items()
        }
    return StudyFolder(Path(path), record.design, runs)


def execute(folder: StudyFolder, launcher: Launcher, on_change: OnChange) -> list[JobState]:
    """Train and analyse everything that is missing; a run that fails does not stop the others.

    Analyses of several runs at once are jobs too, launched when these runs are done.
    """
    return launcher.launch(folder.jobs(), on_change, lambda states: _joint_jobs(folder, states))


def analysis_call(analysis: Analysis, recipe: Recipe, weights: str) -> dict[str, Any]:
    """Return a planned analysis of a run as ``job.json`` has it."""
    options, data = dict(analysis.options), analysis.data
    if data is not None and "target" in ANALYSES.options(analysis.what):  # other data beside the run's own
        options["target"], data = data.name, None
    elif data is not None and data.name == recipe.data.name:
        data = None
    return {
        "name": analysis.name,
        "what": analysis.what,
        "split": analysis.split,
        "weights": weights,
        "options": options,
        "data": None if data is None else data.model_dump(mode="json"),
    }


def request_path(run: Path, request: Mapping[str, Any]) -> Path:
    """Return the file with the result of a request of ``job.json``."""
    data, names = request.get("data"), ("split", "weights", "options")
    label = data_label(data["name"], data["options"]) if data else None
    return result_path(run, request["what"], data=label, **{name: request[name] for name in names})


def _joint_jobs(folder: StudyFolder, states: Sequence[JobState]) -> list[Job]:
    """A job, written down, for all finished runs of a seed on the same data; none if no analysis needs several runs."""
    if not any(ANALYSES[analysis.what].is_joint for analysis in folder.design.analyses):
        return []
    done = {state.job.name for state in states if state.status == "done"}
    groups: dict[tuple[int, str], list[str]] = {}
    for name, run in folder.runs.items():
        if name in done:
            groups.setdefault((run.seed, run.recipe.data.name), []).append(name)
    jobs = []
    for (seed, _), members in groups.items():
        digest = hashlib.blake2b("\n".join(members).encode(), digest_size=4).hexdigest()
        place = folder.path / _JOINT / f"s{seed}-{digest}"
        RunDir(place).write_json(place / JOB, folder.joint_job(members, place))
        jobs.append(Job(f"all-s{seed}-{digest}", place, 0))
    return jobs


def _require_same_study(folder: StudyFolder) -> None:
    """Raise if the folder holds another study or scale, which would mix two tables."""
    if not (folder.path / STUDY_FILE).is_file():
        return
    held = read_folder(folder.path)
    for key in ("name", "scale"):
        own, other = getattr(folder.design, key), getattr(held.design, key)
        if own != other:
            raise MaxsupError(
                f"output must hold one study; got {str(folder.path)!r}, which holds {key} {other!r}, for {own!r}. "
                "Choose another output.",
                code="output-taken",
            )
    before, now = _settings(held), _settings(folder)
    if before.keys() <= now.keys() or now.keys() <= before.keys():
        return
    left = next(recipe for key, recipe in before.items() if key not in now)
    right = next(recipe for key, recipe in now.items() if key not in before)
    key, (old, new) = next(iter(differing_settings(left, right).items()))
    raise MaxsupError(
        f"output must hold runs that differ in loss and seed alone; got {str(folder.path)!r}, which was made with "
        f"{key}={old!r}, for {key}={new!r}. Choose another output.",
        code="output-taken",
    )


def differing_settings(left: Recipe, right: Recipe) -> dict[str, tuple[Any, Any]]:
    """Keys in which two recipes differ, apart from loss and seed, with both values."""
    found = differing_keys(left, right).items()
    return {key: pair for key, pair in found if key != "seed" and not key.startswith("loss.")}


def _settings(folder: StudyFolder) -> dict[str, Recipe]:
    """Return one recipe for every setting, apart from loss and seed, by its digest."""
    recipes, neutral = [run.recipe for run in folder.runs.values()], {"loss": LossConfig(), "seed": 0}
    return {recipe_digest(recipe.model_copy(update=neutral)): recipe for recipe in recipes}


def _run_name(run: PlannedRun) -> str:
    """Return the name of a run: that of its arm, or in a pool of its loss, because arms differ between studies."""
    name = f"{run.pool}-{run.recipe.loss.name}" if run.pool else run.arm
    return f"{name}-s{run.seed}-{recipe_digest(run.recipe)}"
