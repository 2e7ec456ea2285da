"""The numbers of pools of runs, one CSV each: small enough to keep for ever, and enough to judge claims by.

::

    POOL.csv          a line per run: its loss, its seed, one column per number
    trials/POOL.csv   a line per trial of tuning: its loss, its seed, accuracy and NLL on validation images
    origin.json       commits, versions, machines and hours of the runs of each pool
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maxsup.core.errors import DataError
from maxsup.core.old_names import number_name
from maxsup.lab.core.config import LossConfig
from maxsup.lab.core.files.reading import read_json, read_json_lines
from maxsup.lab.core.files.records import AnalysisResult, RunSummary, read_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.study_folder import request_path
from maxsup.lab.experiments.execution.worker import JOB
from maxsup.lab.experiments.tuning import TUNING_SEEDS, Score, validation_score

ORIGIN, TRIALS = "origin.json", "trials"

_BY_HAND = ("calibration", "collapse")

VALIDATION = ("val.accuracy", "val.nll")
"""The numbers of a trial."""

Row = dict[str, Any]
Tables = dict[str, list[Row]]
"""Rows of each pool: ``loss``, ``seed``, and the numbers by name."""


def collect(runs: Path, output: Path, *, keep: bool = False) -> dict[str, int]:
    """Write the numbers of every finished run of a pool, and those of trials apart; gives the lines of each pool.

    ``runs`` is the folder of runs that studies share; ``output`` gets ``POOL.csv`` and ``origin.json``. With ``keep``,
    existing lines stay for losses and seeds without a run in ``runs``: a pool may be trained on several machines.
    """
    tables, trials, origins = Tables(), Tables(), dict[str, list[RunDir]]()
    for file in sorted(runs.glob(f"*/{JOB}")):
        run, job = RunDir(file.parent), read_json(file)
        # Not the whole recipe: runs of older versions stay readable whatever keys recipes have gained since.
        loss, seed = LossConfig.model_validate(job["recipe"]["loss"]), job["recipe"]["seed"]
        if not run.summary.is_file():
            continue
        row = {"loss": loss.label, "seed": seed}
        if seed in TUNING_SEEDS:
            score = dict(zip(VALIDATION, validation_score(run), strict=True))
            trials.setdefault(job["name"], []).append(row | score)
        else:
            tables.setdefault(job["name"], []).append(row | _numbers(run, job))
            origins.setdefault(job["name"], []).append(run)
    if not tables and not trials:
        raise DataError(
            f"runs must hold finished runs of pools; got {str(runs)!r}, which holds none. Run a study first."
        )
    known = read_json(output / ORIGIN) if (output / ORIGIN).is_file() else {}
    found = {}
    for pool, rows in sorted(tables.items()):
        _add_relative_time(rows)  # before older rows are added, whose times may come from another machine
        kept = _kept(rows, output / f"{pool}.csv") if keep else []
        rows += kept
        found[pool] = _origin(origins[pool], rows, known.get(pool, {}) if kept else {})
    if keep:
        for pool, rows in trials.items():
            rows += _kept(rows, output / TRIALS / f"{pool}.csv")
    target = RunDir(output)
    for folder, made in ((output, tables), (output / TRIALS, trials)):
        for pool, rows in made.items():
            target.write_text(folder / f"{pool}.csv", _csv_text(rows))
    target.write_json(output / ORIGIN, known | found)
    return {pool: len(rows) for pool, rows in tables.items()}


def _kept(rows: Sequence[Row], path: Path) -> list[Row]:
    """The rows of an earlier table, if there is one, for losses and seeds that are missing in this one."""
    made = {(row["loss"], row["seed"]) for row in rows}
    return [row for row in _table(path) if (row["loss"], row["seed"]) not in made] if path.is_file() else []


def read_tables(results: Path) -> Tables:
    """The rows of every ``POOL.csv`` of a folder; missing numbers are nan."""
    return {path.stem: _table(path) for path in sorted(results.glob("*.csv"))}


def _table(path: Path) -> list[Row]:
    """The rows of a ``POOL.csv``; the first line that is no row is named."""
    rows: list[Row] = []
    line = 1
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, [])
            if not {"loss", "seed"} <= set(names) or len(set(names)) < len(names):
                raise ValueError(f"the columns {', '.join(names)}"[:200])
            for cells in reader:
                line = reader.line_num
                if cells:
                    rows.append(_row(dict(zip(names, cells, strict=True))))
    except (csv.Error, ValueError) as error:
        raise DataError(
            f"{path} must have a line per run, with its loss, its seed and a number in every other column; got "
            f"{str(error).rstrip('.')} in line {line}. Restore the file, or collect its runs again."
        ) from error
    return rows


def _row(cells: dict[str, str]) -> Row:
    loss, seed = cells.pop("loss"), cells.pop("seed")
    if not loss.strip():
        raise ValueError("no loss")
    return {"loss": loss, "seed": int(seed)} | {
        number_name(key): float(value) if value else math.nan for key, value in cells.items()
    }


def trial_scores(trials: Tables, pools: Iterable[str], name: str) -> dict[str, list[Score]]:
    """Scores of the trials of a loss in some pools, by the label of the loss with its strength."""
    found: dict[str, list[Score]] = {}
    for row in (row for pool in pools for row in trials.get(pool, [])):
        if row["loss"].split()[0] == name:
            accuracy, nll = (row.get(key, math.nan) for key in VALIDATION)
            found.setdefault(row["loss"], []).append((accuracy, nll))
    return found


def strength_entries(results: Path) -> list[dict[str, Any]]:
    """Trials as plain values, one entry per pool: ``lines`` has ``(strength, accuracies of seeds)`` for each loss."""
    trials, entries = read_tables(results / TRIALS), []
    for pool, rows in trials.items():
        lines = {}
        for name in dict.fromkeys(row["loss"].split()[0] for row in rows):
            scores = trial_scores(trials, [pool], name)
            strengths = {loss: _strength(loss, results / TRIALS / f"{pool}.csv") for loss in scores}
            lines[name] = sorted((strengths[loss], [accuracy for accuracy, _ in scores[loss]]) for loss in scores)
        entries.append({"pool": pool, "lines": lines})
    return entries


def _strength(loss: str, path: Path) -> float:
    """The strength in the label of a loss, where it comes first: 0.2 in "ls alpha=0.2 convention=k-1"."""
    try:
        return float(loss.split()[1].partition("=")[2])
    except (IndexError, ValueError):
        raise DataError(
            f"losses of trials in {path} must have a strength, as 'ls alpha=0.2'; got {loss!r}. Restore the file."
        ) from None


def _numbers(run: RunDir, job: Mapping[str, Any]) -> dict[str, float]:
    """All numbers of a run: of the test split, of its analyses, and its times."""
    tested = read_record(RunSummary, run.summary).test.get("last") or {}
    numbers = {f"test.{key}": value for key, value in tested.items()}
    # Also analyses that were made by hand afterwards, without options.
    others = [{"name": what, "what": what, "split": "test", "weights": "last", "options": {}} for what in _BY_HAND]
    for request in [*job["analyses"], *others]:
        path, name = request_path(run.path, request), _analysis_name(request)
        found = read_record(AnalysisResult, path).numbers if path.is_file() else {}
        numbers |= {f"{name}.{key}": entry.value for key, entry in found.items()}
    if epochs := read_json_lines(run.timing):
        # Other programs on the machine stretch wall time far more than processor time.
        fastest = min(epoch.get("cpu_seconds", epoch["seconds"]) for epoch in epochs)
        numbers |= {"timing.seconds": sum(epoch["seconds"] for epoch in epochs), "timing.fastest_seconds": fastest}
    return {key: float(value) for key, value in numbers.items() if isinstance(value, int | float)}


def _analysis_name(request: Mapping[str, Any]) -> str:
    """The name that a study gives an analysis; a probe is named after its target, which differs between scales.

    Example:
        >>> _analysis_name({"name": "probe_cifar10", "what": "probe", "options": {"target": "arrays:cub100.npz"}})
        'probe_cub100'
    """
    target = str(request["options"].get("target", ""))
    if not target:
        return str(request["name"])
    place = target.partition(":")[2] or target
    return f"{request['what']}_{place.removesuffix('.npz').replace('/', '_')}"


def _add_relative_time(rows: Sequence[Row]) -> None:
    """The fastest epoch relative to that of cross-entropy with the same seed; the fastest is the least disturbed."""
    plain = {row["seed"]: row.get("timing.fastest_seconds") for row in rows if row["loss"] == "ce"}
    for row in rows:
        if row.get("timing.fastest_seconds") and plain.get(row["seed"]):
            row["timing.relative_seconds"] = row["timing.fastest_seconds"] / plain[row["seed"]]


def _csv_text(rows: Sequence[Row]) -> str:
    names = sorted({key for row in rows for key in row} - {"loss", "seed"})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["loss", "seed", *names])
    for row in sorted(rows, key=lambda row: (row["loss"], row["seed"])):
        values = (row.get(name, math.nan) for name in names)
        writer.writerow([row["loss"], row["seed"], *("" if math.isnan(value) else f"{value:.6g}" for value in values)])
    return text.getvalue()


def _origin(runs: Sequence[RunDir], rows: Sequence[Row], before: Mapping[str, Any]) -> dict[str, Any]:
    """Where runs of a pool come from, also earlier ones (all values that occur), and the hours of all its rows."""
    found = {key: set(before.get(key, [])) for key in ("maxsup", "git_commit", "python", "torch", "cpu", "num_cores")}
    for run in runs:
        record = read_json(run.env)
        record = {**record, "torch": record.get("packages", {}).get("torch")}
        for key, values in found.items():
            values.add(str(record.get(key)))
    seconds = sum(row["timing.seconds"] for row in rows if math.isfinite(row.get("timing.seconds", math.nan)))
    counts = {"num_runs": len(rows), "hours": round(seconds / 3600, 2)}
    return {key: sorted(values) for key, values in found.items()} | counts
