"""The folder of a comparison or a study as a report reads it: its summary and its run directories."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.core.old_names import with_number_names
from maxsup.lab.core.config import LossConfig
from maxsup.lab.core.files.reading import as_written, json_lines, read_json
from maxsup.lab.core.files.records import AnalysisResult, RunSummary, as_record
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.reports.summary import Summary

_LOG_FILE = "worker.log"
_LOG_LINES = 30  # shown from the end of the log of a failed run
_FOLDERS = re.compile(r"(?<![\w.~-])/(?:[^/]*/)+")
# Characters that XML and UTF-8 cannot hold; tabs and line ends are fine.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class RunView:
    """A planned run and what it has written.

    Figures name it by ``label``, which is unique among runs with the same seed. ``complaints`` are sentences about
    results that could not be used; more are added as results are read and drawn.
    """

    path: Path
    title: str  # of its arm
    loss: str
    seed: int
    status: str  # done, failed or missing
    log: Path | None  # of the worker, if it failed
    recipe: Mapping[str, Any] = field(repr=False)  # empty if nothing was trained
    label: str = ""
    complaints: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def setting(self) -> str:
        """Model and data."""
        return f"{self.recipe['model']['name']} on {self.recipe['data']['name']}" if self.recipe else ""

    @property
    def options(self) -> str:
        """Options of the loss, in short."""
        return LossConfig(**self.recipe["loss"]).label.partition(" ")[2] if self.recipe else ""

    def epochs(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Number and line of the log of each epoch; only its numbers are for a page."""
        run = RunDir(self.path)
        for line in json_lines(run.check(run.metrics)):
            with as_written(run.metrics):
                number = int(line["epoch"])
            yield number, line

    @cached_property
    def last_strength(self) -> Any:
        """The strength in the last epoch, if one was logged."""
        strength = None
        for _, line in self.epochs():
            strength = line.get("alpha")
        return strength

    @cached_property
    def test(self) -> dict[str, Any]:
        """Final numbers of the test split."""
        path = RunDir(self.path).summary
        return as_record(RunSummary, printable_json(path), path).test.get("last") or {}

    def result(self, name: str) -> dict[str, Any] | None:
        """Return the result of an analysis; one with pictures comes first, then one for the test split."""
        run, found = RunDir(self.path), []
        for file in sorted(run.analysis.glob(f"{name}-*.json")) if run.config.is_file() else ():
            try:
                values = with_number_names(printable_json(file))
                result = as_record(AnalysisResult, values, file)
            except StorageError:
                self.leave_out(file.name, "it is no result of maxsup analyze")
            else:
                rank = (not result.data.get("indices"), result.facts.split != "test")
                found.append((rank, values | {"file": file.name}))
        return min(found, key=lambda entry: entry[0])[1] if found else None

    def leave_out(self, file: str, reason: str) -> None:
        """Note that a result was left out, and why."""
        place = f"{self.path.parent.name}/{self.path.name}/analysis/{file}"
        sentence = make_printable(f"{place} was left out: {reason}. Run maxsup analyze again, or delete it.")
        if sentence not in self.complaints:
            self.complaints.append(sentence)

    def log_end(self) -> str:
        """Return the last lines of the log."""
        if self.log is None or not os.path.isfile(self.log):
            return ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return make_printable("\n".join(lines[-_LOG_LINES:]))


@dataclass(frozen=True)
class FolderView:
    """A summary and its runs."""

    summary: Summary
    runs: Sequence[RunView]

    @property
    def complaints(self) -> list[str]:
        """Sentences about results that had to be left out so far."""
        return [sentence for run in self.runs for sentence in run.complaints]

    @cached_property
    def settings(self) -> dict[str, list[RunView]]:
        """Runs that have started, by model and data."""
        found: dict[str, list[RunView]] = {}
        for run in self.runs:
            if run.recipe:
                found.setdefault(run.setting, []).append(run)
        return found


def read_view(path: Path) -> FolderView:
    """Read a folder with a ``summary.json``."""
    from maxsup.lab.core.recipes import run_recipe

    file = path / "summary.json"
    if not file.is_file():
        raise MaxsupError(
            f"folder must hold the summary.json of a comparison or a study; got {str(path)!r}, which has none. "
            "Give the output folder of maxsup compare or maxsup study run.",
            code="not-a-comparison",
        )
    values = printable_json(file)
    if not isinstance(values.get("table"), Mapping):
        raise MaxsupError(
            f"summary must be that of a comparison or a study; got {str(file)!r}, which has no table. Give the folder "
            "above the run directories.",
            code="not-a-comparison",
        )
    summary, runs = as_record(Summary, values, file), []
    for entry in summary.runs:
        run, title = RunDir(path / entry.folder), summary.arm_titles.get(entry.arm, entry.arm)
        # Only a log: a summary from elsewhere must not show other files.
        log = path / entry.log if entry.log and Path(entry.log).name == _LOG_FILE else None
        recipe = make_printable(run_recipe(run).model_dump(mode="json")) if os.path.lexists(run.config) else {}
        runs.append(RunView(path / entry.folder, title, entry.loss, entry.seed, entry.status, log, recipe))
    return FolderView(summary, _label_runs(runs))


def _label_runs(runs: Sequence[RunView]) -> list[RunView]:
    """Label runs with the title of their arm, and with options of the loss if they differ within it."""
    options: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        if run.recipe:
            options.setdefault((run.setting, run.title), set()).add(run.options)
    several = {key for key, found in options.items() if len(found) > 1}
    return [
        replace(run, label=f"{run.title} {run.options}".strip() if (run.setting, run.title) in several else run.title)
        for run in runs
    ]


def printable_json(path: Path) -> Any:
    """Return the JSON object in a file with all its text printable; empty if there is no file."""
    return make_printable(read_json(path)) if os.path.lexists(path) else {}


def make_printable(value: Any) -> Any:
    r"""Return the same value; a mark replaces every character that a page cannot hold.

    Example:
        >>> make_printable({"a\x00": ["b\ud800", 1]})
        {'a�': ['b�', 1]}
    """
    return map_texts(value, lambda text: _UNPRINTABLE.sub("\ufffd", text))


def drop_paths(value: Any) -> Any:
    """Return the same value; the last name replaces every absolute path at the end of a text.

    Example:
        >>> drop_paths({"data": "folder:/home/me/my photos", "command": ["/usr/bin/maxsup", "train", "hf:a/b"]})
        {'data': 'folder:my photos', 'command': ['maxsup', 'train', 'hf:a/b']}
    """
    return map_texts(value, lambda text: _FOLDERS.sub("", text))


def folders_in(value: Any) -> set[str]:
    """Return the folders of all absolute paths at the end of texts of a value.

    Example:
        >>> folders_in({"data": "folder:/home/me/my photos", "model": "hf:a/b"})
        {'/home/me/'}
    """
    if isinstance(value, str):
        return set(_FOLDERS.findall(value))
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return set[str]().union(*map(folders_in, parts))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the same value with every text in it changed, including keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {map_texts(key, change): map_texts(inner, change) for key, inner in value.items()}
    return [map_texts(inner, change) for inner in value] if isinstance(value, list) else value
