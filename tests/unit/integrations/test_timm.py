"""The launcher for timm's script: where it looks, what it asks of a script, what it replaces."""

import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from maxsup import MaxSupLoss
from maxsup.core.errors import MaxsupError
from maxsup.integrations.timm import load_script, main, use_maxsup
from maxsup.schedules import Linear

pytest.importorskip("timm", reason="the extra timm is not installed")

WITH_SEAMS = "def main():\n    pass\n\n\ndef train_one_epoch(epoch, loss_fn):\n    pass\n\n\nmark = {mark!r}\n"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAXSUP_TIMM_SCRIPT", raising=False)
    return tmp_path


def script_file(path: Path, mark: str) -> Path:
    path.write_text(WITH_SEAMS.format(mark=mark))
    return path


def script_module(train_one_epoch: Any) -> ModuleType:
    script = ModuleType("script")
    script.__file__ = "train.py"
    script.train_one_epoch = train_one_epoch
    script.create_scheduler = lambda args: ("scheduler", 5)
    return script


def prepared(train_one_epoch: Any, criterion: MaxSupLoss) -> ModuleType:
    """A script that trains with the criterion and knows its number of epochs."""
    script = script_module(train_one_epoch)
    use_maxsup(script, criterion)
    script.create_scheduler("args")
    return script


def test_a_given_script_comes_before_the_variable_and_the_current_folder(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_file(empty_folder / "train.py", "here")
    assert load_script().mark == "here"
    monkeypatch.setenv("MAXSUP_TIMM_SCRIPT", str(script_file(empty_folder / "set.py", "variable")))
    assert load_script().mark == "variable"
    assert load_script(script_file(empty_folder / "given.py", "given")).mark == "given"


def test_a_script_inside_timm_is_found(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import timm

    script_file(empty_folder / "train.py", "inside")
    monkeypatch.setattr(timm, "__path__", [*timm.__path__, str(empty_folder)])
    monkeypatch.chdir("/")
    try:
        assert load_script().mark == "inside"
    finally:
        sys.modules.pop("timm.train", None)


def test_a_script_of_another_project_is_not_run(empty_folder: Path) -> None:
    (empty_folder / "train.py").write_text("raise SystemExit('it was run')\n")
    with pytest.raises(MaxsupError, match=r"got 'train.py' without main\(\) and train_one_epoch\(\)"):
        load_script()


@pytest.mark.parametrize("content", [b"def main(:\n", bytes(range(256))])
def test_a_script_that_is_no_python_is_named(empty_folder: Path, content: bytes) -> None:
    (empty_folder / "train.py").write_bytes(content)
    with pytest.raises(MaxsupError, match=r"got 'train.py' without a line of Python that can be read"):
        load_script()


def test_a_script_that_is_not_there_is_named() -> None:
    with pytest.raises(MaxsupError, match=r"the script 'nowhere\.py' is not there"):
        load_script(Path("nowhere.py"))


def test_the_criterion_is_handed_over_as_an_argument_in_older_scripts() -> None:
    seen = []

    def train_one_epoch(epoch: int, model: str, loss_fn: nn.Module, args: Namespace) -> dict[str, float]:
        seen.append((model, loss_fn, loss_fn.alpha))
        return {"loss": 1.0}

    criterion = MaxSupLoss(Linear(0.1, 0.2))
    script = prepared(train_one_epoch, criterion)
    metrics = script.train_one_epoch(2, "model", nn.CrossEntropyLoss(), args=Namespace(rank=0))
    assert seen == [("model", criterion, pytest.approx(0.15, abs=1e-12))]
    assert metrics == {"loss": 1.0, "alpha": pytest.approx(0.15, abs=1e-12)}


def test_the_task_of_a_newer_script_gets_the_criterion_and_keeps_it() -> None:
    criteria: list[Any] = []
    criterion = MaxSupLoss(0.1)
    script = prepared(lambda epoch, task=None: criteria.append(task.criterion), criterion)
    weight = torch.tensor([1.0, 2.0])
    task = Namespace(criterion=nn.CrossEntropyLoss(weight))
    for epoch in range(2):
        assert script.train_one_epoch(epoch, task=task) is None
    assert criteria == [criterion, criterion]
    assert criterion.weight is weight


def test_a_compiled_task_is_looked_into() -> None:
    criterion = MaxSupLoss(0.1)
    script = prepared(lambda epoch, task: None, criterion)
    task = Namespace(criterion=nn.CrossEntropyLoss())
    script.train_one_epoch(0, Namespace(_orig_mod=task))
    assert task.criterion is criterion


def test_a_script_without_its_seams_is_refused() -> None:
    with pytest.raises(MaxsupError, match=r"without train_one_epoch\(epoch, ..., task or loss_fn\)"):
        use_maxsup(script_module(lambda epoch, model: None), MaxSupLoss(0.1))


def test_a_number_of_epochs_nobody_told_is_refused() -> None:
    script = script_module(lambda epoch, loss_fn: None)
    use_maxsup(script, MaxSupLoss(0.1))
    with pytest.raises(MaxsupError, match="without a call of create_scheduler"):
        script.train_one_epoch(0, nn.CrossEntropyLoss())


@pytest.mark.parametrize("flag", ["bce_loss", "jsd_loss"])
def test_flags_for_another_loss_are_refused_wherever_they_came_from(flag: str) -> None:
    script = prepared(lambda epoch, loss_fn, args: None, MaxSupLoss(0.1))
    with pytest.raises(MaxsupError, match=f"--{flag.replace('_', '-')} must be left out"):
        script.train_one_epoch(0, nn.CrossEntropyLoss(), Namespace(**{flag: True}))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["data"], "the first word must be train; got 'data'"),
        ([], "the first word must be train; got 'nothing'"),
        (["train", "data", "--loss", "bce"], "invalid choice: 'bce'"),
    ],
)
def test_wrong_words_end_with_a_usage_error(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--alpha", "-0.1"], "--alpha must be a number of at least 0; got -0.1"),
        (["--alpha-end", "nan"], "--alpha-end must be a number of at least 0; got nan"),
        (["--smoothing", "1.5", "--allow-both"], "--smoothing must be at most 1; got 1.5"),
        (["--smooth", "0.1"], "--smoothing must be 0 with --loss maxsup"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(["train", "data", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_debug_shows_where_an_error_came_from() -> None:
    with pytest.raises(MaxsupError, match=r"timm's train.py must be given"):
        main(["train", "data", "--debug"])
