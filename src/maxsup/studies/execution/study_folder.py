"""From a study to its folder: what has to be trained and analysed, done by a launcher, and what came of it.

::

    OUT/study.json      the study, the scale, and every run with its place in the table
    OUT/runs/NAME/      run directories; NAME ends in a digest of the recipe: no run is trained twice
    OUT/../runs/NAME/   run directories of a pool, which studies beside one another share
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
from maxsup.analysis import ANALYSES, data_label, result_path
from maxsup.core.config import LossConfig, Recipe, differing_keys, parse_recipe
from maxsup.core.errors import DataError, MaxsupError
from maxsup.core.files.reading import as_written
from maxsup.core.files.records import Record, read_record
from maxsup.core.files.rundir import RunDir
from maxsup.core.recipes import load_recipe
from maxsup.data import DATASETS, load_data
from maxsup.studies.entries import Cell, DataChoice
from maxsup.studies.execution.launch import Job, JobState, Launcher, OnChange
from maxsup.studies.execution.worker import JOB, is_done, read_job
from maxsup.studies.expansion import PlannedAnalysis, PlannedRun, expand, planned_analyses
from maxsup.studies.imports import imports_of
from maxsup.studies.schema import ScaleName, Study
from maxsup.training.run import recipe_digest

STUDY_FILE = "study.json"
_RUNS, _JOINT = "runs", "joint"


class RunRecord(Record):
    """A planned run in ``study.json``: what it is compared as, and its cells of the table."""

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
    """A study laid out on disk: which run is where.

    ``missing`` are sentences about analyses that are left out because their data is not there.
    """

    path: Path
    study: Study
    scale: ScaleName
    runs: dict[str, PlannedRun]
    analyses: tuple[PlannedAnalysis, ...]
    missing: tuple[str, ...] = ()

    def folder(self, name: str) -> Path:
        """The run directory of that name; runs of a pool are beside the folders of the studies that share them."""
        return (self.path.parent if self.runs[name].pool else self.path) / _RUNS / name

    def job(self, name: str) -> dict[str, Any]:
        """What a worker is asked to do for a run: the content of its ``job.json``."""
        single = [analysis for analysis in self.analyses if not _is_joint(analysis)]
        return self._order(self.runs[name].recipe, self.runs[name].pool or self.study.name, single)

    def joint_job(self, names: Sequence[str], folder: Path) -> dict[str, Any]:
        """What a worker is asked to do for several runs at once; their paths are seen from the folder of the job."""
        joint = [analysis for analysis in self.analyses if _is_joint(analysis)]
        runs = [os.path.relpath(self.folder(name).resolve(), folder.resolve()) for name in names]
        return {"runs": runs, **self._order(self.runs[names[0]].recipe, self.study.name, joint)}

    def _order(self, recipe: Recipe, name: str, analyses: Sequence[PlannedAnalysis]) -> dict[str, Any]:
        calls = [analysis_call(analysis, recipe, self.study.weights) for analysis in analyses]
        order = {"recipe": recipe.model_dump(mode="json"), "name": name, "analyses": calls}
        imports = imports_of(recipe)
        return order | ({"imports": imports} if imports else {})

    def open_runs(self) -> dict[str, PlannedRun]:
        """Runs that are not trained yet, or not analysed."""
        return {name: run for name, run in self.runs.items() if not is_done(self.folder(name), self.job(name))}

    def jobs(self) -> list[Job]:
        """One job a run."""
        return [Job(name, self.folder(name), run.recipe.epochs) for name, run in self.runs.items()]


def plan_folder(
    study: Study,
    output: str | Path,
    scale: ScaleName = "tiny",
    *,
    overrides: Iterable[str] = (),
    data_root: str | Path | None = None,
) -> StudyFolder:
    """What a study needs and where it goes; nothing is written.

    A folder that already holds this study is taken up again: finished runs stay, also where seeds or losses were added.
    One that holds runs with other settings is refused. Overrides are for every recipe.
    """
    words = [*overrides, *([f"data.root={Path(data_root).resolve()}"] if data_root else [])]
    for word in words:
        if word.partition("=")[0].partition(".")[0] in ("loss", "seed"):
            raise ValueError(
                f"overrides must leave losses and seeds to the study, whose table they are; got {word!r}. Copy the "
                "study's file, change them there and run that."
            )

    def obstacle(choice: DataChoice) -> str:
        return _obstacle(choice.name, json.dumps(choice.options), None if data_root is None else str(data_root))

    def is_available(choice: DataChoice) -> bool:
        return not obstacle(choice)

    planned = expand(study, scale, is_available=is_available, overrides=words)
    analyses, missing = list[PlannedAnalysis](), list[str]()
    for analysis in planned_analyses(study, scale, is_available=is_available):
        data = _data_of(analysis) if scale == "small" else None
        if data is not None and (sentence := obstacle(data)):
            missing.append(f"{analysis.name} is left out: {sentence}")
        else:
            analyses.append(analysis)
    runs = {_run_name(run): run for run in planned}
    folder = StudyFolder(Path(output), study, scale, runs, tuple(analyses), tuple(missing))
    _require_same_study(folder)
    return folder


def write_folder(folder: StudyFolder) -> None:
    """Write down what is planned, before anything runs."""
    for name, run in folder.runs.items():
        directory, job = RunDir(folder.folder(name)), folder.job(name)
        if run.pool and (directory.path / JOB).is_file():
            # What another study asks of the same run stays asked for.
            others = read_job(directory.path)["analyses"]
            job["analyses"] += [request for request in others if request not in job["analyses"]]
        directory.write_json(directory.path / JOB, job)
    runs = folder.runs.items()
    record = StudyRecord(
        version=__version__,
        study=folder.study,
        scale=folder.scale,
        runs={name: RunRecord(arm=run.arm, seed=run.seed, cells=run.cells, pool=run.pool) for name, run in runs},
        recipes={name: run.recipe.model_dump(mode="json") for name, run in runs},
        analyses=folder.analyses,
        missing=folder.missing,
    )
    RunDir(folder.path).write_json(folder.path / STUDY_FILE, record.model_dump(mode="json"))


def lay_out(study: Study, output: str | Path, scale: ScaleName = "tiny", **options: Any) -> StudyFolder:
    """:func:`plan_folder`, written down; the options are the same."""
    folder = plan_folder(study, output, scale, **options)
    write_folder(folder)
    return folder


def read_folder(path: str | Path) -> StudyFolder:
    """A folder that :func:`lay_out` made."""
    file = Path(path) / STUDY_FILE
    if not file.is_file():
        raise MaxsupError(
            f"folder must be one that maxsup compare or maxsup study run made; got {str(path)!r}, which has no "
            f"{STUDY_FILE}. Give its --output."
        )
    record = read_record(StudyRecord, file)
    with as_written(file):
        runs = {
            name: PlannedRun(parse_recipe(record.recipes[name]), run.arm, run.seed, run.cells, run.pool)
            for name, run in record.runs.items()
        }
    return StudyFolder(Path(path), record.study, record.scale, runs, record.analyses, record.missing)


def execute(folder: StudyFolder, launcher: Launcher, on_change: OnChange) -> list[JobState]:
    """Train and analyse everything that is not there yet; a run that fails does not stop the others.

    Analyses of several runs at once are jobs of the launcher too, and wait until these runs are there.
    """
    states = launcher.launch(folder.jobs(), on_change)
    done = {state.job.name for state in states if state.status == "done"}
    joint = _joint_jobs(folder, [name for name in folder.runs if name in done])
    return [*states, *launcher.launch(joint, lambda others: on_change([*states, *others]))]


def analysis_call(analysis: PlannedAnalysis, recipe: Recipe, weights: str) -> dict[str, Any]:
    """What a worker is asked to do for a planned analysis of a run."""
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
    """The file that holds the result of a request of ``job.json``."""
    data, names = request.get("data"), ("split", "weights", "options")
    label = data_label(data["name"], data["options"]) if data else None
    return result_path(run, request["what"], data=label, **{name: request[name] for name in names})


def _is_joint(analysis: PlannedAnalysis) -> bool:
    """Whether runs that are compared must agree on something first, such as the classes to show."""
    return ANALYSES[analysis.what].is_joint


def _joint_jobs(folder: StudyFolder, names: Sequence[str]) -> list[Job]:
    """A job for all runs of a seed on the same data, written down; none where no analysis asks for several runs."""
    groups: dict[tuple[int, str], list[str]] = {}
    for name in names if any(map(_is_joint, folder.analyses)) else ():
        run = folder.runs[name]
        groups.setdefault((run.seed, run.recipe.data.name), []).append(name)
    jobs = []
    for (seed, _), members in groups.items():
        digest = hashlib.blake2b("\n".join(members).encode(), digest_size=4).hexdigest()
        place = folder.path / _JOINT / f"s{seed}-{digest}"
        RunDir(place).write_json(place / JOB, folder.joint_job(members, place))
        jobs.append(Job(f"all-s{seed}-{digest}", place, 0))
    return jobs


def _require_same_study(folder: StudyFolder) -> None:
    """Another study or another scale in the same folder would mix two tables."""
    file = folder.path / STUDY_FILE
    if not file.is_file():
        return
    record = read_record(StudyRecord, file)
    with as_written(file):
        recorded = [parse_recipe(values, source=str(file)) for values in record.recipes.values()]
    for key, own, other in (("name", folder.study.name, record.study.name), ("scale", folder.scale, record.scale)):
        if own != other:
            raise MaxsupError(
                f"output must hold one study; got {str(folder.path)!r}, which holds {key} {other!r}, for {own!r}. "
                "Choose another --output."
            )
    before, now = _settings(recorded), _settings([run.recipe for run in folder.runs.values()])
    if before.keys() <= now.keys() or now.keys() <= before.keys():
        return
    left, right = (
        next(found[key] for key in found if key not in other) for found, other in ((before, now), (now, before))
    )
    key, (old, new) = next(iter(differing_settings(left, right).items()))
    raise MaxsupError(
        f"output must hold runs that differ in loss and seed alone; got {str(folder.path)!r}, which was made with "
        f"{key}={old!r}, for {key}={new!r}. Choose another --output."
    )


def differing_settings(left: Recipe, right: Recipe) -> dict[str, tuple[Any, Any]]:
    """Keys, losses and seeds aside, in which two recipes differ, with both values."""
    found = differing_keys(left, right).items()
    return {key: pair for key, pair in found if key != "seed" and not key.startswith("loss.")}


def _settings(recipes: Iterable[Recipe]) -> dict[str, Recipe]:
    """An example of every setting, losses and seeds aside, by a word that stands for it."""
    return {recipe_digest(recipe.model_copy(update={"loss": LossConfig(), "seed": 0})): recipe for recipe in recipes}


def _run_name(run: PlannedRun) -> str:
    """A run of a pool is named after its loss, because studies call it by different names."""
    words = [run.pool, run.recipe.loss.name] if run.pool else [run.arm]
    return "-".join([*words, f"s{run.seed}", recipe_digest(run.recipe)])


def _data_of(analysis: PlannedAnalysis) -> DataChoice | None:
    """The data that an analysis needs besides that of the run: its own, or that of the recipe it fine-tunes with."""
    if analysis.data is None and "recipe" in analysis.options:
        data = load_recipe(analysis.options["recipe"], analysis.options.get("overrides", ())).data
        return DataChoice(name=data.name, options=data.options)
    return analysis.data


@lru_cache(maxsize=64)
def _obstacle(name: str, options: str, root: str | None) -> str:
    """Why data cannot be used, found out by loading it; empty where it can."""
    if name.partition(":")[0] not in DATASETS.names():
        return f"{name!r} is no data set."
    try:
        load_data(name, root=None if root is None else Path(root), **json.loads(options))
    except DataError as error:
        return str(error)
    return ""
