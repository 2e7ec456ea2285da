import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from maxsup.lab.experiments import StudyResult, read_result
from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.execution.launch import Job, JobState
from maxsup.lab.experiments.result import FailedRunsError
from tests.unit.lab.experiments.made import finish_run, lay_out, of_tested_numbers, without_analyses

ACCURACIES = {"ce": 0.90, "ls": 0.92, "maxsup": 0.95}


@pytest.fixture
def result(tmp_path: Path) -> StudyResult:
    folder = lay_out(of_tested_numbers(comparison("digits_cnn", list(ACCURACIES), overrides=["epochs=1"]), 1), tmp_path)
    without_analyses(folder)
    for name, run in folder.runs.items():
        finish_run(folder.folder(name), ACCURACIES[run.arm] + 0.001 * run.seed)
    return read_result(folder.path)


def test_a_table_has_a_row_a_loss_and_the_means_over_seeds(result: StudyResult) -> None:
    pandas = pytest.importorskip("pandas")
    table = result.table()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == ["loss", "accuracy"]
    assert table.set_index("loss")["accuracy"]["maxsup"] == pytest.approx(0.9525)


def test_without_pandas_rows_are_plain(result: StudyResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxsup.lab.experiments.result.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    assert result.table()[1] == {"loss": "ls", "accuracy": pytest.approx(0.9225)}
    ce, maxsup = result.differences()
    assert (ce["loss"], ce["number"], ce["num_pairs"], ce["is_better"]) == ("ce", "accuracy", 6, False)
    assert (maxsup["difference"], maxsup["p"], maxsup["is_better"]) == (pytest.approx(0.03), 2 / 64, True)
    assert "pandas" not in sys.modules


def test_the_page_is_written_when_it_is_asked_for(result: StudyResult) -> None:
    assert not (result.path / "report.html").exists()
    page = result.report()
    assert page == result.path / "report.html"
    assert "maxsup" in page.read_text()


def test_a_notebook_shows_sentences_and_the_table_with_what_is_conclusive_in_bold(result: StudyResult) -> None:
    shown = result._repr_html_()
    assert "18 of 18 runs" in shown
    assert "<td><b>95.25 ± 0.19<br>+3.00" in shown
    assert result.conclusions[0][:20] in repr(result)


def test_titles_are_no_markup(result: StudyResult) -> None:
    first, *others = result.summary.table.rows
    table = result.summary.table.model_copy(update={"rows": [first.model_copy(update={"title": "<script>"}), *others]})
    changed = replace(result, summary=result.summary.model_copy(update={"table": table}))
    assert "<th>&lt;script&gt;</th>" in changed._repr_html_()


def test_runs_that_others_wait_for_end_with_the_highest_exit_code(tmp_path: Path) -> None:
    states = []
    for name, code in (("a", 3), ("b", 4)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "failure.json").write_text(json.dumps({"sentence": "no luck.", "exit_code": code}))
        states.append(JobState(Job(name, tmp_path / name, 1), "failed", sentence="no luck."))
    error = FailedRunsError(states)
    assert error.exit_code == 4
    assert str(error).splitlines()[0] == "a failed: no luck. Log: None"
