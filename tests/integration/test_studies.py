"""Every study at the tiny scale, from its file to its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from maxsup.lab.experiments.execution.launch import FollowUp, Job, JobState, read_state
from maxsup.lab.experiments.execution.study_folder import execute
from maxsup.lab.experiments.execution.worker import attempt
from maxsup.lab.experiments.study_files import load_study, study_names
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.reports import write_report
from tests.unit.lab.experiments.made import lay_out

NAMES = study_names()


class _ThisProcess:
    """Makes runs here and now: a process of their own would import torch for every study."""

    def launch(self, jobs: Sequence[Job], on_change: object, then: FollowUp) -> list[JobState]:
        states = [self.state(job) for job in jobs]
        return [*states, *map(self.state, then(states))]

    def state(self, job: Job) -> JobState:
        attempt(job.folder)
        return read_state(job)


def test_there_is_a_study_for_every_table_and_figure() -> None:
    assert len(NAMES) >= 24


@pytest.mark.slow
# At this scale the other two sweeps of widths are that over digits again.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("ours_width_cifar")])
def test_a_study_runs_at_the_tiny_scale_and_stands_beside_the_published_numbers(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    # One seed tells whether a study works; how several are compared is the same for all of them.
    design = study.at("tiny")
    one_seed = tuple(each.model_copy(update={"seeds": each.seeds[:1]}) for each in design.experiments)
    folder = lay_out(design.model_copy(update={"experiments": one_seed}), tmp_path)
    states = execute(folder, _ThisProcess(), lambda states: None)
    assert [state.sentence for state in states if state.status != "done"] == []
    summary = summarize(folder)
    cells = summary.table.cells
    for cell in study.cells():
        entry = cells[cell.row][cell.column]
        assert entry.left_out or entry.mean is not None, f"{cell} has no number"
    printed = [entry.published for row in cells.values() for entry in row.values() if entry.published]
    assert len(printed) == len(study.published_numbers())
    headings = [verdict.title for verdict in summary.verdicts]
    assert len(set(headings)) == len(headings)
    write_report(folder.path)
    page = (folder.path / "report.html").read_text()
    assert summary.note.split(",")[0] in page
    assert all(number.text in page for number in printed)
