"""A folder of a comparison or a study as a report reads it: its summary, and its run directories."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.core.files.reading import read_json as stored_json
from maxsup.core.files.reading import read_json_lines
from maxsup.core.files.records import AnalysisResult, RunSummary, as_record
from maxsup.core.files.rundir import RunDir
from maxsup.reports.summary import Summary, SummaryRun

LOG_FILE = "worker.log"
LOG_LINES = 30  # of a failed run that are shown, from the end

_FOLDERS = re.compile(r"(?<![\w.~-])/(?:[^/]*/)+")
# What XML and UTF-8 cannot hold; a tab and the end of a line can stay.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class RunView:
    """A run of a folder: what was planned, and what it left.

    ``label`` is what figures call it among runs with the same seed. ``complaints`` are sentences about results that
    had to be left out; they come in as results are read and drawn.
    """

    path: Path
    title: str  # what readers know its arm by
    loss: str
    seed: int
    status: str  # done, failed or missing
    log: Path | None  # of the worker, if it failed
    recipe: Mapping[str, Any] = field(repr=False)  # empty where nothing was trained
    label: str = ""
    complaints: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def setting(self) -> str:
        """Model and data."""
        if not self.recipe:
            return ""
        return f"{self.recipe['model']['name']} on {self.recipe['data']['name']}"

    @cached_property
    def epochs(self) -> list[dict[str, Any]]:
        """What was logged, a line an epoch."""
        run = RunDir(self.path)
        return [cleaned(line) for line in read_json_lines(run.check(run.metrics))]

    @cached_property
    def test(self) -> dict[str, Any]:
        """Final numbers of the test split."""
        path = RunDir(self.path).summary
        return as_record(RunSummary, read_json(path), path).test.get("last") or {}

    def result(self, name: str) -> dict[str, Any] | None:
        """What an analysis found about the run; of several results one with pictures, and for the test split."""
        if not RunDir(self.path).config.is_file():
            return None
        found = []
        for file in sorted(RunDir(self.path).analysis.glob(f"{name}-*.json")):
            try:
                values = read_json(file)
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
        sentence = cleaned(f"{place} was left out: {reason}. Run maxsup analyze again, or delete it.")
        if sentence not in self.complaints:
            self.complaints.append(sentence)

    def log_end(self) -> str:
        """The last lines of the log."""
        if self.log is None or not _is_file(self.log):
            return ""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return cleaned("\n".join(lines[-LOG_LINES:]))


@dataclass(frozen=True)
class FolderView:
    """A summary and the runs it speaks of."""

    path: Path
    summary: Summary
    runs: Sequence[RunView]

    @property
    def complaints(self) -> list[str]:
        """Sentences about results that had to be left out so far."""
        return [sentence for run in self.runs for sentence in run.complaints]

    @cached_property
    def settings(self) -> dict[str, list[RunView]]:
        """Runs that left something, by model and data."""
        found: dict[str, list[RunView]] = {}
        for run in self.runs:
            if run.recipe:
                found.setdefault(run.setting, []).append(run)
        return found


def read_view(path: Path) -> FolderView:
    """Read a folder with a ``summary.json``."""
    file = path / "summary.json"
    if not file.is_file():
        raise MaxsupError(
            f"folder must hold the summary.json of a comparison or a study; got {str(path)!r}, which has none. "
            "Give the --output of maxsup compare or maxsup study run."
        )
    values = read_json(file)
    if not isinstance(values.get("table"), Mapping):
        raise MaxsupError(
            f"summary must be that of a comparison or a study; got {str(file)!r}, which has no table. Give the folder "
            "above the run directories."
        )
    summary = as_record(Summary, values, file)
    runs = [_run(path, entry, summary.arm_titles) for entry in summary.runs]
    return FolderView(path, summary, _labelled(runs))


def read_json(path: Path) -> Any:
    """A JSON object from a file, all its text printable; empty where there is no file."""
    return cleaned(stored_json(path)) if os.path.lexists(path) else {}


def cleaned(value: Any) -> Any:
    r"""The same value with a mark in the place of every character that no page can hold.

    Example:
        >>> cleaned({"a\x00": ["b\ud800", 1]})
        {'a�': ['b�', 1]}
    """
    return with_texts(value, lambda text: _UNPRINTABLE.sub("\ufffd", text))


def without_paths(value: Any) -> Any:
    """The same value with the last name in the place of every text that is, or ends in, an absolute path.

    Example:
        >>> without_paths({"data": "folder:/home/me/my photos", "command": ["/usr/bin/maxsup", "train", "hf:a/b"]})
        {'data': 'folder:my photos', 'command': ['maxsup', 'train', 'hf:a/b']}
    """
    return with_texts(value, lambda text: _FOLDERS.sub("", text))


def folders_in(value: Any) -> set[str]:
    """The folders of all absolute paths that texts of a value are, or end in.

    Example:
        >>> folders_in({"data": "folder:/home/me/my photos", "model": "hf:a/b"})
        {'/home/me/'}
    """
    found: set[str] = set()

    def noted(text: str) -> str:
        found.update(_FOLDERS.findall(text))
        return text

    with_texts(value, noted)
    return found


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every text in it changed, names of keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {with_texts(key, change): with_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_texts(inner, change) for inner in value]
    return value


def _run(path: Path, entry: SummaryRun, titles: Mapping[str, str]) -> RunView:
    from maxsup.core.recipes import run_recipe

    folder = path / entry.folder
    config, log = RunDir(folder).config, entry.log or ""
    return RunView(
        path=folder,
        title=titles.get(entry.arm, entry.arm),
        loss=entry.loss,
        seed=entry.seed,
        status=entry.status,
        # Nothing but a log: a summary from elsewhere must not have other files shown.
        log=path / log if Path(log).name == LOG_FILE else None,
        recipe=cleaned(run_recipe(RunDir(folder)).model_dump(mode="json")) if os.path.lexists(config) else {},
    )


def _labelled(runs: Sequence[RunView]) -> list[RunView]:
    """Arms are named by their titles; where runs of one arm differ in strength, by that too."""
    strengths: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        if run.recipe:
            strengths.setdefault((run.setting, run.title), set()).add(_strength(run))
    return [
        replace(run, label=f"{run.title} {_strength(run)}".strip())
        if len(strengths.get((run.setting, run.title), ())) > 1
        else replace(run, label=run.title)
        for run in runs
    ]


def _strength(run: RunView) -> str:
    """Options of the loss, in short."""
    options = {key: value for key, value in run.recipe.get("loss", {}).items() if key != "name"}
    return ", ".join(
        f"{key} {value.get('start')}-{value.get('end')}" if isinstance(value, Mapping) else f"{key} {value}"
        for key, value in options.items()
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file system takes
        return False
