"""The run directory: checkpoints appear whole, lines can be undone, one process at a time."""

import json
import os
import shutil
from pathlib import Path

import pytest

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.lab.core.files.rundir import RunDir
from tests.refusals import refused


def files(best: str, mark: str = "") -> dict[str, bytes]:
    state = {"best": best, "global_step": int(mark.removeprefix("step-")) if mark.startswith("step-") else 0}
    return {"model.safetensors": mark.encode(), "state.json": json.dumps(state).encode()}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path / "run")


def names(run: RunDir) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_last_and_best_lead_to_their_checkpoints_and_others_go(run: RunDir) -> None:
    for name, best in (("step-1", "step-1"), ("step-2", "step-1"), ("step-3", "step-1")):
        run.save_checkpoint(name, best, files(best, name))
    assert names(run) == ["best", "last", "step-1", "step-3"]
    assert run.weights("last").read_text() == "step-3"
    assert run.weights("best").read_text() == "step-1"


def test_a_name_is_never_used_twice(run: RunDir) -> None:
    first = run.new_checkpoint_name(7)
    run.save_checkpoint(first, first, files(first))
    assert (first, run.new_checkpoint_name(7)) == ("step-00000007", "step-00000007.1")


def test_a_crash_between_the_two_links_is_repaired_by_what_last_says(run: RunDir) -> None:
    run.save_checkpoint("step-1", "step-1", files("step-1", "one"))
    run.save_checkpoint("step-2", "step-2", files("step-2", "two"))
    (run.checkpoints / "best").unlink()
    (run.checkpoints / ".step-3.tmp").mkdir()
    found = run.recover()
    assert found == run.checkpoints / "step-2"
    assert names(run) == ["best", "last", "step-2"]
    assert run.weights("best").read_text() == "two"


@pytest.mark.parametrize("num_links", [0, 1])
def test_a_crash_while_the_first_checkpoint_is_linked_loses_nothing(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, num_links: int
) -> None:
    replace, left = os.replace, [num_links]

    def stopping(source: Path, destination: Path) -> None:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        replace(source, destination)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            run.save_checkpoint("step-1", "step-1", files("step-1", "one"))
    assert run.recover() == run.checkpoints / "step-1"
    assert run.weights("best").read_text() == run.weights("last").read_text() == "one"
    assert names(run) == ["best", "last", "step-1"]


@pytest.fixture
def trained(run: RunDir) -> RunDir:
    """A run with its newest and its best checkpoint, and folders of somebody else."""
    for name, best in (("step-1", "step-1"), ("step-2", "step-1")):
        run.save_checkpoint(name, best, files(best, name))
    for other in ("step-by-step", "my-step-1", "notes"):
        (run.checkpoints / other).mkdir()
    return run


def test_a_copy_without_links_goes_on_from_the_newest_checkpoint(trained: RunDir) -> None:
    for link in ("last", "best"):
        (trained.checkpoints / link).unlink()
    assert trained.weights("last").read_text() == "step-2"
    assert trained.weights("best").read_text() == "step-1"
    assert trained.recover() == trained.checkpoints / "step-2"
    assert names(trained) == ["best", "last", "my-step-1", "notes", "step-1", "step-2", "step-by-step"]


@pytest.mark.parametrize("has_steps", [True, False])
def test_a_copy_that_followed_the_links_goes_on(trained: RunDir, tmp_path: Path, has_steps: bool) -> None:
    shutil.copytree(trained.path, tmp_path / "copy", symlinks=False)
    copy = RunDir(tmp_path / "copy")
    if not has_steps:
        for name in ("step-1", "step-2"):
            shutil.rmtree(copy.checkpoints / name)
    assert copy.weights("last").read_text() == "step-2"
    assert copy.weights("best").read_text() == "step-1"
    found = copy.recover()
    assert found is not None
    assert (found / "model.safetensors").read_text() == "step-2"
    assert os.readlink(copy.checkpoints / "last") == found.name
    assert copy.weights("best").read_text() == "step-1"
    copy.save_checkpoint("step-3", "step-3", files("step-3", "step-3"))
    assert copy.weights("last").read_text() == "step-3"


def test_links_that_a_copy_made_files_of_are_put_right(trained: RunDir) -> None:
    for link in ("last", "best"):
        target = os.readlink(trained.checkpoints / link)
        (trained.checkpoints / link).unlink()
        (trained.checkpoints / link).write_text(target)
    assert trained.recover() == trained.checkpoints / "step-2"
    assert (trained.checkpoints / "last").is_symlink()


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_offered(trained: RunDir) -> None:
    path = trained.checkpoints / "step-2/model.safetensors"
    path.write_bytes(b"stap-2")
    with pytest.raises(StorageError, match=rf"{path} must be as it was written; got other content\. Copy it again, or"):
        trained.check(path)
    path.unlink()
    with pytest.raises(StorageError, match=rf"remove {path.parent} to go on from {trained.checkpoints}/step-1"):
        trained.recover()
    shutil.rmtree(path.parent)
    assert trained.recover() == trained.checkpoints / "step-1"


def test_a_directory_that_goes_away_while_it_is_used_is_noticed(trained: RunDir, tmp_path: Path) -> None:
    release = trained.lock()
    trained.append_json(trained.metrics, {"epoch": 0}, num_before=0)
    trained.metrics.unlink()
    with refused(StorageError, "damaged-file", "1", "0"):
        trained.append_json(trained.metrics, {"epoch": 1}, num_before=1)
    os.rename(trained.path, tmp_path / "elsewhere")
    with refused(StorageError, "run-moved"):
        trained.save_checkpoint("step-3", "step-3", files("step-3"))
    assert not trained.path.exists()
    release()


def test_a_new_directory_has_nothing_to_recover(run: RunDir) -> None:
    assert run.recover() is None
    with pytest.raises(MaxsupError, match="has no checkpoint 'best'"):
        run.weights("best")
    with refused(MaxsupError, "run-not-found"):
        run.require()


def test_a_copied_run_still_works(run: RunDir, tmp_path: Path) -> None:
    run.save_checkpoint("step-1", "step-1", files("step-1", "one"))
    os.rename(run.path, tmp_path / "elsewhere")
    assert RunDir(tmp_path / "elsewhere").weights("last").read_text() == "one"


def test_lines_after_the_checkpoint_are_undone(run: RunDir) -> None:
    run.write_text(run.metrics, "")
    for epoch in range(3):
        run.append_json(run.metrics, {"epoch": epoch}, num_before=epoch)
    with run.metrics.open("a") as file:
        file.write('{"epo')
    run.truncate(run.metrics, 2)
    assert run.metrics.read_text() == '{"epoch": 0}\n{"epoch": 1}\n'
    with refused(StorageError, "damaged-file", "3", "2"):
        run.truncate(run.metrics, 3)


def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"must be a folder that can be made; got .*Choose another output"):
        RunDir(tmp_path / "file/run").lock()
