"""A study in a process that outlives the command, and a look at it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.detached import LAUNCH, watch
from maxsup.lab.experiments.execution.launch import JobState
from maxsup.lab.experiments.execution.study_folder import write_folder
from maxsup.lab.experiments.execution.worker import FAILURE
from tests.integration.command import Cli
from tests.integration.launching import is_alive, wait_until
from tests.unit.lab.experiments.launching import finish
from tests.unit.lab.experiments.made import lay_out

pytestmark = pytest.mark.slow


def test_submit_returns_at_once_and_watch_says_that_a_launch_has_ended(cli: Cli, tmp_path: Path) -> None:
    # What is wrong is found when the network is made, so the process ends by itself.
    assert cli("study", "submit", "tab_alpha", "model.options.widths=[4]", "--output", "out").code == 0
    launch = json.loads((tmp_path / "out" / LAUNCH).read_text())
    assert os.getsid(launch["process"]) == launch["process"]  # no terminal can hang it up
    wait_until(lambda: not is_alive(launch["process"]), 400.0)
    assert "option of model" in (tmp_path / "out/launch.log").read_text()
    found = cli("study", "watch", "out")
    assert (found.code, "Submit the same study again to go on" in found.err) == (1, True)


def test_a_second_launch_into_the_same_folder_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    record = {"process": os.getpid(), "host": socket.gethostname()}
    (tmp_path / "out" / LAUNCH).write_text(json.dumps(record))
    again = cli("study", "submit", "tab_alpha", "--output", "out")
    assert (again.code, f"in which process {os.getpid()} is at work" in again.err) == (2, True)


def test_watching_ends_with_the_runs_and_names_those_that_failed(tmp_path: Path) -> None:
    folder = lay_out(comparison("digits_cnn", ["ce", "ls"], seeds=1), tmp_path / "out")
    write_folder(folder)
    first, second = folder.jobs()
    seen: list[str] = []

    def look(states: Sequence[JobState]) -> None:
        seen.append(" ".join(state.status for state in states))
        finish(first)
        (second.folder / FAILURE).write_text(json.dumps({"sentence": "no images.", "exit_code": 4}))
        (first.folder / "job.json").write_text(json.dumps({"recipe": {}, "name": "ce", "analyses": []}))

    found, failed = watch(tmp_path / "out", look)
    assert found.path == tmp_path / "out"
    assert [(state.job.name, state.sentence) for state in failed] == [(second.name, "no images.")]
    assert (seen[0], seen[-1]) == ("queued queued", "done failed")


def test_a_folder_without_a_study_cannot_be_watched(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = cli("study", "watch", "empty")
    assert (found.code, "which has no study.json" in found.err) == (2, True)


def test_mistakes_in_what_is_submitted_are_said_before_anything_starts(cli: Cli, tmp_path: Path) -> None:
    assert cli("study", "submit", "tab_alhpa").code == 2
    assert cli("study", "submit", "tab_alpha", "--gpus-per-run", "64").code == 2
    assert list(tmp_path.iterdir()) == []
