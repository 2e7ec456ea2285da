"""The folder of a study: what has to be trained and analysed, and its execution by a launcher.

::

    OUT/study.json      the study, the scale, and every run with its place in the table
    OUT/runs/NAME/      run directories; NAME ends in a digest of the recipe, so that no run is trained twice
    OUT/../runs/NAME/   run directories of a pool, shared by studies in neighbouring folders
    OUT/joint/NAME/     jobs that analyse all runs of a seed at once
    OUT/summary.json    the numbers (see ``results``)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from maxsup import __version__
from maxsup.core.errors import DataError, MaxsupError
from maxsup.lab.analysis import ANALYSES, data_label, result_path
from maxsup.lab.core.config import LossConfig, Recipe, differing_keys, parse_recipe
from maxsup.lab.core.files.reading import as_written, read_json
from maxsup.lab.core.files.records import Record, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.data import DATASETS, load_data
from maxsup.lab.experiments.entries import Cell, DataChoice
from maxsup.lab.experiments.execution.launch import Job, JobState, Launcher, OnChange
from maxsup.lab.experiments.execution.worker import JOB, is_done
from maxsup.lab.experiments.expansion import PlannedAnalysis, PlannedRun, expand, planned_analyses
from maxsup.lab.experiments.imports import imports_of
from maxsup.lab.experiments.schema import ScaleName, Study
from maxsup.lab.training.run import recipe_digest

STUDY_FILE = "study.json"
_RUNS, _JOINT = "runs", "joint"


class RunRecord(Record):
    """A planned run in ``study.json``: its arm and its cells of the table."""

    arm: str
    seed: int
    cells: tuple[Cell, ...]
    pool: str = ""


class StudyRecord(Record):
    """``study.json``."""

    version: str = ""
    study: Study
    scale: ScaleName
    runs: dict[str, RunRecord]
    recipes: dict[str, dict[str, Any]]
    analyses: tuple[PlannedAnalysis, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyFolder:
    """A study laid out on disk; ``missing`` are sentences about analyses that are left out for lack of data."""

    path: Path
    study: Study
    scale: ScaleName
    runs: dict[str, PlannedRun]
    analyses: tuple[PlannedAnalysis, ...]
    missing: tuple[str, ...] = ()

    def folder(self, name: str) -> Path:
        """The directory of a run; runs of a pool are beside the folders of the studies that share them."""
        return (self.path.parent if self.runs[name].pool else self.path) / _RUNS / name

    def job(self, name: str) -> dict[str, Any]:
        """What a worker is asked to do for a run: the content of its ``job.json``."""
        run = self.runs[name]
        return self._job_content(run.recipe, run.pool or self.study.name, is_joint=False)

    def joint_job(self, names: Sequence[str], folder: Path) -> dict[str, Any]:
        """What a worker is asked to do for several runs at once; paths are relative to the folder of the job."""
        runs = [os.path.relpath(self.folder(name).resolve(), folder.resolve()) for name in names]
        return {"runs": runs, **self._job_content(self.runs[names[0]].recipe, self.study.name, is_joint=True)}

    def _job_content(self, recipe: Recipe, name: str, *, is_joint: bool) -> dict[str, Any]:
        analyses = [analysis for analysis in self.analyses if ANALYSES[analysis.what].is_joint == is_joint]
        calls = [analysis_call(analysis, recipe, self.study.weights) for analysis in analyses]
        content = {"recipe": recipe.model_dump(mode="json"), "name": name, "analyses": calls}
        imports = imports_of(recipe)
        return content | ({"imports": imports} if imports else {})

    def open_runs(self) -> dict[str, PlannedRun]:
        """Runs that are not trained yet, or not analysed."""
        return {name: run for name, run in self.runs.items() if not is_done(self.folder(name), self.job(name))}

    def jobs(self) -> list[Job]:
        """One job per run."""
        return [Job(name, self.folder(name), run.recipe.epochs) for name, run in self.runs.items()]


def plan_folder(
    study: Study,
    output: str | Path,
    scale: ScaleName = "tiny",
    *,
    overrides: Iterable[str] = (),
    data_root: str | Path | None = None,
) -> StudyFolder:
    """What a study needs and where it goes; nothing is written. Overrides are for every recipe.

    A folder that already holds this study is continued: finished runs stay, even if seeds or losses were added. One
    that holds runs with other settings is refused.
    """
    words = [*overrides, *([f"data.root={Path(data_root).resolve()}"] if data_root else [])]
    for word in words:
        if word.partition("=")[0].partition(".")[0] in ("loss", "seed"):
            raise ValueError(
                f"overrides must leave losses and seeds to the study, whose table they are; got {word!r}. Copy the "
                "study's file, change them there and run that."
            )

    def obstacle(choice: DataChoice) -> str:
        return _obstacle(choice.name, json.dumps(choice.options), data_root)

    def is_available(choice: DataChoice) -> bool:
        return not obstacle(choice)

    analyses, missing = list[PlannedAnalysis](), list[str]()
    for analysis in planned_analyses(study, scale, is_available=is_available):
        data = _data_of(analysis) if scale == "small" else None
        if data is not None and (sentence := obstacle(data)):
            missing.append(f"{analysis.name} is left out: {sentence}")
        else:
            analyses.append(analysis)
    runs = {_run_name(run): run for run in expand(study, scale, is_available=is_available, overrides=words)}
    folder = StudyFolder(Path(output), study, scale, runs, tuple(analyses), tuple(missing))
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
        study=folder.study,
        scale=folder.scale,
        analyses=folder.analyses,
        missing=folder.missing,
    )
    RunDir(folder.path).write_json(folder.path / STUDY_FILE, record.model_dump(mode="json"))


def read_folder(path: str | Path) -> StudyFolder:
    """A folder that :func:`write_folder` made."""
    file = Path(path) / STUDY_FILE
    if not file.is_file():
        raise MaxsupError(
            f"folder must be one that maxsup compare or maxsup study run made; got {str(path)!r}, which has no "
            f"{STUDY_FILE}. Give its output folder."
        )
    record = read_record(StudyRecord, file)
    with as_written(file):
        runs = {
            name: PlannedRun(parse_recipe(record.recipes[name]), run.arm, run.seed, run.cells, run.pool)
            for name, run in record.runs.items()
        }
    return StudyFolder(Path(path), record.study, record.scale, runs, record.analyses, record.missing)


def execute(folder: StudyFolder, launcher: Launcher, on_change: OnChange) -> list[JobState]:
    """Train and analyse everything that is missing; a run that fails does not stop the others.

    Analyses of several runs at once are jobs too, launched when these runs are done.
    """
    return launcher.launch(folder.jobs(), on_change, lambda states: _joint_jobs(folder, states))


def analysis_call(analysis: PlannedAnalysis, recipe: Recipe, weights: str) -> dict[str, Any]:
    """A planned analysis of a run as ``job.json`` has it."""
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
    """The file with the result of a request of ``job.json``."""
    data, names = request.get("data"), ("split", "weights", "options")
    label = data_label(data["name"], data["options"]) if data else None
    return result_path(run, request["what"], data=label, **{name: request[name] for name in names})


def _joint_jobs(folder: StudyFolder, states: Sequence[JobState]) -> list[Job]:
    """A job, written down, for all finished runs of a seed on the same data; none if no analysis needs several runs."""
    if not any(ANALYSES[analysis.what].is_joint for analysis in folder.analyses):
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
    for key, own, other in (("name", folder.study.name, held.study.name), ("scale", folder.scale, held.scale)):
        if own != other:
            raise MaxsupError(
                f"output must hold one study; got {str(folder.path)!r}, which holds {key} {other!r}, for {own!r}. "
                "Choose another output."
            )
    before, now = _settings(held), _settings(folder)
    if before.keys() <= now.keys() or now.keys() <= before.keys():
        return
    left = next(recipe for key, recipe in before.items() if key not in now)
    right = next(recipe for key, recipe in now.items() if key not in before)
    key, (old, new) = next(iter(differing_settings(left, right).items()))
    raise MaxsupError(
        f"output must hold runs that differ in loss and seed alone; got {str(folder.path)!r}, which was made with "
        f"{key}={old!r}, for {key}={new!r}. Choose another output."
    )


def differing_settings(left: Recipe, right: Recipe) -> dict[str, tuple[Any, Any]]:
    """Keys in which two recipes differ, apart from loss and seed, with both values."""
    found = differing_keys(left, right).items()
    return {key: pair for key, pair in found if key != "seed" and not key.startswith("loss.")}


def _settings(folder: StudyFolder) -> dict[str, Recipe]:
    """One recipe for every setting, apart from loss and seed, by its digest."""
    recipes, neutral = [run.recipe for run in folder.runs.values()], {"loss": LossConfig(), "seed": 0}
    return {recipe_digest(recipe.model_copy(update=neutral)): recipe for recipe in recipes}


def _run_name(run: PlannedRun) -> str:
    """A run of a pool is named after its loss, because its arm differs between studies."""
    name = f"{run.pool}-{run.recipe.loss.name}" if run.pool else run.arm
    return f"{name}-s{run.seed}-{recipe_digest(run.recipe)}"


def _data_of(analysis: PlannedAnalysis) -> DataChoice | None:
    """The data that an analysis needs besides the run's: its own, or that of the recipe it fine-tunes with."""
    if analysis.data is None and "recipe" in analysis.options:
        data = load_recipe(analysis.options["recipe"], analysis.options.get("overrides", ())).data
        return DataChoice(name=data.name, options=data.options)
    return analysis.data


@lru_cache(maxsize=64)
def _obstacle(name: str, options: str, root: str | Path | None) -> str:
    """Why loading the data fails; "" if it does not."""
    if name.partition(":")[0] not in DATASETS.names():
        return f"{name!r} is no data set."
    try:
        load_data(name, root=None if root is None else Path(root), **json.loads(options))
    except DataError as error:
        return str(error)
    return ""
