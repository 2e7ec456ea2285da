"""One worker and one folder: nothing is done twice, and what goes wrong is left in words."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import maxsup.lab.analysis.outputs
import maxsup.lab.training
from maxsup.core.errors import DataError, NonFiniteError, error_code, out_of_memory
from maxsup.lab.analysis import Analyzed
from maxsup.lab.core.display import Display
from maxsup.lab.core.files.reading import read_json
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.worker import FAILURE, JOB, LOG, STARTED, analysis_marker, attempt, is_done, main

COLLAPSE = {"what": "collapse", "split": "test", "weights": "last", "options": {}, "data": None}
LOGITS = {"what": "logits", "split": "val", "weights": "best", "options": {"bins": 3}, "data": {"name": "digits"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_job(tmp_path, COLLAPSE, LOGITS)
    return tmp_path


def write_job(folder: Path, *analyses: dict[str, Any]) -> None:
    recipe = {"epochs": 1, "model": {"options": {"widths": [4]}}, "data": {"val_share": 0.5}, "threads": 1}
    (folder / JOB).write_text(json.dumps({"recipe": recipe, "name": "tiny", "analyses": analyses}))


class Pretended:
    """Training and analyses that only leave their files."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: list[int] = []
        self.options: list[dict[str, Any]] = []
        self.runs: list[list[SimpleNamespace]] = []
        self.error: dict[str, BaseException] = {}

    def train(self, recipe: Any, output: Path, **options: Any) -> None:
        self._note("train")
        (output / "summary.json").write_text("{}")

    def opened(self, path: Path, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(path=path, options=options)

    def analyze(self, runs: list[SimpleNamespace], what: list[str], **options: Any) -> Analyzed:
        self.runs.append(runs)
        self.options.append(runs[0].options | options)
        self._note(what[0])
        file = runs[0].path / "analysis" / f"{what[0]}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
        return Analyzed(files=[file])

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self.threads.append(torch.get_num_threads())
        if call in self.error:
            raise self.error[call]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    stage = Pretended()
    monkeypatch.setattr(maxsup.lab.training, "train", stage.train)
    monkeypatch.setattr(maxsup.lab.analysis, "analyze", stage.analyze)
    monkeypatch.setattr(maxsup.lab.analysis.outputs, "RunOutputs", stage.opened)
    return stage


@pytest.mark.slow
def test_a_real_job_leaves_a_run_and_its_analysis(tmp_path: Path) -> None:
    write_job(tmp_path, COLLAPSE)
    assert attempt(tmp_path) == 0, (tmp_path / LOG).read_text()
    assert is_done(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["recipe"] == "tiny"
    assert "within" in (tmp_path / "analysis/collapse-test.json").read_text()
    assert " 1/1 " in (tmp_path / LOG).read_text()


def test_a_job_is_trained_and_then_analysed_and_not_done_again(folder: Path, pretended: Pretended) -> None:
    assert not is_done(folder)
    for _ in range(2):
        attempt(folder)
        assert pretended.calls == ["train", "collapse", "logits"]
        assert is_done(folder)


def test_an_analysis_is_asked_for_in_the_words_of_the_job(folder: Path, pretended: Pretended) -> None:
    attempt(folder)
    # The log of a run says which analysis is made; how far each is would drown it.
    assert type(pretended.options[1].pop("progress")) is Display
    assert pretended.options[1] == {
        "split": "val",
        "weights": "best",
        "overrides": ('data.name="digits"',),
        "options": {"logits": {"bins": 3}},
        "with_figures": False,
    }


@pytest.mark.parametrize(
    ("change", "made"),
    [
        (lambda folder: analysis_marker(folder, LOGITS).unlink(), "logits"),
        (lambda folder: (folder / "analysis/collapse.json").unlink(), "collapse"),
        (lambda folder: write_job(folder, COLLAPSE, LOGITS, COLLAPSE | {"split": "train"}), "collapse"),
    ],
    ids=["no marker", "no result", "asked for later"],
)
def test_only_the_analysis_that_is_missing_is_made(
    folder: Path, pretended: Pretended, change: Callable[[Path], None], made: str
) -> None:
    attempt(folder)
    change(folder)
    assert not is_done(folder)
    attempt(folder)
    assert pretended.calls[3:] == [made]


def test_analyses_of_the_same_weights_and_data_share_an_open_run(tmp_path: Path, pretended: Pretended) -> None:
    write_job(tmp_path, COLLAPSE, COLLAPSE | {"what": "probe"}, LOGITS)
    attempt(tmp_path)
    first, second, other = pretended.runs
    assert first is second
    assert other is not first


def test_an_analysis_that_is_asked_for_under_two_names_is_made_once(tmp_path: Path, pretended: Pretended) -> None:
    write_job(tmp_path, *(COLLAPSE | {"name": name} for name in ("first", "second")))
    attempt(tmp_path)
    assert pretended.calls == ["train", "collapse"]
    assert is_done(tmp_path)


def test_an_analysis_that_fails_does_not_stop_the_others(folder: Path, pretended: Pretended) -> None:
    pretended.error["collapse"] = DataError("no data.")
    assert attempt(folder) == 4
    assert pretended.calls == ["train", "collapse", "logits"]
    assert not is_done(folder)
    assert analysis_marker(folder, LOGITS).exists()


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NonFiniteError("loss is nan."), 3, "loss is nan."),
        (DataError("no images."), 4, "no images."),
        (ValueError("lr must be positive."), 2, "lr must be positive."),
        (PermissionError(13, "Permission denied"), 5, "[Errno 13] Permission denied"),
        (MemoryError("2 GiB"), 2, str(out_of_memory(MemoryError("2 GiB")))),
        (KeyError("x"), 1, "KeyError: 'x'"),
        (RuntimeError(), 1, "RuntimeError: RuntimeError"),
    ],
)
def test_a_failure_is_left_with_its_sentence_and_its_code(
    folder: Path, pretended: Pretended, error: Exception, code: int, sentence: str
) -> None:
    pretended.error["train"] = error
    assert attempt(folder) == code
    assert read_json(folder / FAILURE) == {"sentence": sentence, "exit_code": code, "code": error_code(error)}
    assert "Traceback" in (folder / LOG).read_text()


def test_the_failure_of_an_earlier_attempt_is_forgotten(folder: Path, pretended: Pretended) -> None:
    (folder / FAILURE).write_text("{}")
    assert attempt(folder) == 0
    assert not (folder / FAILURE).exists()
    assert json.loads((folder / STARTED).read_text())["process"] == os.getpid()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_no_failure(
    folder: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(maxsup.lab.training, "train", lambda *args, **options: signal.raise_signal(number))
    assert attempt(folder) == code
    assert not (folder / FAILURE).exists()


def test_a_job_runs_on_one_thread_and_puts_the_others_back(folder: Path, pretended: Pretended) -> None:
    torch.set_num_threads(2)
    try:
        attempt(folder)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(pretended.threads) == {1}


def test_everything_that_is_printed_goes_to_the_log(
    folder: Path, pretended: Pretended, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(maxsup.lab.training, "train", lambda *args, **options: os.write(2, b"past Python\n"))
    attempt(folder)
    os.write(2, b"afterwards\n")
    assert "past Python" in (folder / LOG).read_text()
    assert capfd.readouterr().err == "afterwards\n"


def test_a_worker_waits_for_another_one_to_leave(folder: Path, pretended: Pretended) -> None:
    timer = threading.Timer(0.5, RunDir(folder / ".worker").lock())
    timer.start()
    assert attempt(folder) == 0
    timer.join()
    assert "waiting for at most 120 s: run directory must be used by one process" in (folder / LOG).read_text()


def test_a_worker_does_not_wait_for_ever(folder: Path, pretended: Pretended) -> None:
    release = RunDir(folder / ".worker").lock()
    try:
        assert attempt(folder, wait_seconds=0.1) == 2
    finally:
        release()
    assert "must be used by one process at a time" in json.loads((folder / FAILURE).read_text())["sentence"]
    assert pretended.calls == []


def test_a_folder_without_a_job_is_said(tmp_path: Path) -> None:
    assert attempt(tmp_path) == 5
    assert (
        "job.json must be as it was written; got No such file or directory"
        in json.loads((tmp_path / FAILURE).read_text())["sentence"]
    )


def test_the_command_takes_one_folder(folder: Path, pretended: Pretended, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    assert is_done(folder)
    assert main(["a", "b"]) == 2
    assert "words must be one folder, or --orders and a number" in capsys.readouterr().err
