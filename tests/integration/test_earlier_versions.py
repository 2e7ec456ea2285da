"""Folders of version 0.1.0 open in this one; damaged files are named.

``comparison_0_1_0.tar.xz`` is what ``maxsup compare --data digits --losses ce,maxsup --seeds 2 epochs=1
'model.options={widths: [4, 4]}'`` wrote, without its pages, figures, projections and paths of the machine.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from maxsup import __version__
from maxsup.core.errors import StorageError
from maxsup.lab.analysis import draw_figures, read_results
from maxsup.lab.core.files.records import AnalysisResult, RunSummary, read_record
from maxsup.lab.experiments.execution.study_folder import read_folder
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.reports.folders import read_view
from maxsup.lab.reports.summary import Summary
from tests.architecture.source import ROOT
from tests.integration.command import run_command
from tools.evidence.first.pools import read_tables


@pytest.fixture
def compared(tmp_path: Path) -> Path:
    """The folder as 0.1.0 left it."""
    with tarfile.open(Path(__file__).with_name("comparison_0_1_0.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "compared"


def plain(path: Path) -> dict[str, Any]:
    """The content of a file, without what this version adds."""
    found = json.loads(path.read_text())
    return {key: value for key, value in found.items() if key not in ("version", "checksum")}


def in_new_words(content: dict[str, Any]) -> dict[str, Any]:
    """The content with the names of today for the numbers of comparisons."""
    for cells in content.get("table", {}).get("cells", {}).values():
        for cell in cells.values():
            if (found := cell["comparison"]) is not None:
                found["difference"], found["p"] = found.pop("mean_difference"), found.pop("p_value")
    return content


def test_files_without_a_version_are_read_and_keep_what_they_say(compared: Path) -> None:
    run = compared / "runs/maxsup-s0-6259303a"
    files = {
        Summary: compared / "summary.json",
        RunSummary: run / "summary.json",
        AnalysisResult: run / "analysis/collapse-test.json",
    }
    for kind, path in files.items():
        record = read_record(kind, path)
        assert record.version == ""
        assert record.model_dump(mode="json", exclude_unset=True) == in_new_words(plain(path))


def test_numbers_that_had_another_name_are_read_under_that_of_today(compared: Path) -> None:
    path = compared / "runs/ce-s0-f9584902"
    before = plain(path / "analysis/logits-test.json")["numbers"]["confidence_right"]["value"]
    assert read_record(AnalysisResult, path / "analysis/logits-test.json").value("confidence_right") == before
    [run] = [run for run in read_view(compared).runs if run.path == path]
    for result in (run.result("logits"), *read_results(path, "logits")):
        assert result["numbers"]["confidence_correct"]["value"] == before
        assert "confidence_right" not in result["numbers"] | result["data"]
        assert set(draw_figures("logits", {"CE": result})) == {"logits", "confidence"}


def test_evidence_that_was_collected_under_another_name_is_read_under_that_of_today() -> None:
    results = ROOT / "docs" / "evidence" / "results"
    assert "logits.confidence_right" in (results / "c10.csv").read_text().partition("\n")[0]
    [first, *_] = read_tables(results)["c10"]
    assert 0.5 < first["logits.confidence_correct"] < 1


def test_an_earlier_comparison_is_read_as_one_experiment_and_its_runs(compared: Path) -> None:
    folder = read_folder(compared)
    [experiment] = folder.design.experiments
    assert (folder.design.kind, folder.design.scale, experiment.seeds) == ("comparison", "", (0, 1))
    assert [arm.loss.label for arm in experiment.arms] == ["ce", "maxsup alpha=0.1"]
    assert {(run.arm, run.seed) for run in folder.runs.values()} == {
        (arm, seed) for arm in ("ce", "maxsup") for seed in (0, 1)
    }
    assert all(len(run.cells) == len(folder.design.table.columns) for run in folder.runs.values())


def test_the_numbers_of_an_earlier_comparison_come_out_the_same(compared: Path) -> None:
    before = in_new_words(json.loads((compared / "summary.json").read_text()))
    after = json.loads(json.dumps(summarize(read_folder(compared)).model_dump(mode="json")))
    assert after["version"] == __version__
    for key in ("runs", "metrics", "seeds", "baseline", "conclusions", "verdicts"):
        assert after[key] == before[key]
    for was, now in zip(before["losses"], after["losses"], strict=True):
        for name, numbers in was["metrics"].items():
            assert {key: now["metrics"][name][key] for key in numbers} == numbers
    for row, cells in before["table"]["cells"].items():
        for column, cell in cells.items():
            now = after["table"]["cells"][row][column]
            assert {**now, "comparison": None} == {**cell, "comparison": None}
            for key in ("difference", "p", "low", "high", "adjusted_p", "differences", "baseline_mean", "num_pairs"):
                assert (now["comparison"] or {}).get(key) == (cell["comparison"] or {}).get(key)


@pytest.mark.slow
def test_report_analyze_and_eval_open_an_earlier_folder(compared: Path) -> None:
    run = str(compared / "runs/ce-s0-f9584902")
    page = run_command("report", str(compared), "--json")
    assert page.code == 0, page.err
    assert "2 losses on digits" in (compared / "report.html").read_text()
    done = run_command("analyze", run, "--what", "calibration", "--json")
    assert done.code == 0, done.err
    [result] = json.loads(done.out)["results"]["calibration"].values()
    before = json.loads((compared / "runs/ce-s0-f9584902/summary.json").read_text())["test"]["last"]
    assert result["numbers"]["nll"]["value"] == pytest.approx(before["nll"], rel=1e-6)
    judged = run_command("eval", run, "--json")
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["accuracy"] == before["accuracy"]


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("summary.json", "table", {"rows": 1}),
        ("summary.json", "losses", [{"loss": "ce"}]),
        ("study.json", "runs", {"ce": {"arm": "ce"}}),
        ("runs/ce-s0-f9584902/summary.json", "test", [1]),
        ("runs/ce-s0-f9584902/analysis/collapse-test.json", "numbers", {"train_within": 1}),
    ],
)
def test_a_file_of_another_form_is_named_in_one_sentence(compared: Path, file: str, key: str, value: object) -> None:
    path = compared / file
    path.write_text(json.dumps({**plain(path), key: value}))
    read = read_view if file == "summary.json" else lambda folder: summarize(read_folder(folder))
    with pytest.raises(StorageError, match=rf"{path.name} must be as it was written; got .* at {key}") as caught:
        read(compared)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "file", ["summary.json", "runs/ce-s0-f9584902/summary.json", "runs/ce-s0-f9584902/analysis/collapse-test.json"]
)
def test_numbers_that_were_measured_in_another_way_are_not_mixed_with_these(compared: Path, file: str) -> None:
    path = compared / file
    path.write_text(json.dumps({**plain(path), "protocol": 2, "version": "7.0"}))
    read = read_view if file == "summary.json" else lambda folder: summarize(read_folder(folder))
    with pytest.raises(StorageError, match=rf"{path.name} must hold numbers of protocol 1.*got protocol 2.*7\.0"):
        read(compared)
