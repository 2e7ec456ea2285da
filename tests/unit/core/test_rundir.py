"""The run directory: checkpoints appear whole, lines can be undone, one process at a time."""

import json
import os
from pathlib import Path

import pytest

from maxsup.core.errors import MaxsupError, StorageError
from maxsup.core.rundir import RunDir


def files(best: str, mark: str = "") -> dict[str, bytes]:
    return {"model.safetensors": mark.encode(), "state.json": json.dumps({"best": best}).encode()}


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
    (run.checkpoints / "step-9").mkdir()
    found = run.recover()
    assert found == run.checkpoints / "step-2"
    assert names(run) == ["best", "last", "step-2"]
    assert run.weights("best").read_text() == "two"


@pytest.mark.parametrize("num_links", [0, 1])
def test_a_crash_while_the_first_checkpoint_is_linked_leaves_nothing_that_is_in_the_way(
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
    assert run.recover() is None
    name = run.new_checkpoint_name(1)
    run.save_checkpoint(name, name, files(name, "again"))
    assert run.weights("best").read_text() == run.weights("last").read_text() == "again"
    assert names(run) == ["best", "last", name]


def test_a_new_directory_has_nothing_to_recover(run: RunDir) -> None:
    assert run.recover() is None
    with pytest.raises(MaxsupError, match="must have a checkpoint 'best'; got none"):
        run.weights("best")
    with pytest.raises(MaxsupError, match="run must be a directory that maxsup train made"):
        run.require()


def test_a_copied_run_still_works(run: RunDir, tmp_path: Path) -> None:
    run.save_checkpoint("step-1", "step-1", files("step-1", "one"))
    os.rename(run.path, tmp_path / "elsewhere")
    assert RunDir(tmp_path / "elsewhere").weights("last").read_text() == "one"


def test_lines_after_the_checkpoint_are_undone(run: RunDir) -> None:
    run.write_text(run.metrics, "")
    for epoch in range(3):
        run.append_json(run.metrics, {"epoch": epoch})
    with run.metrics.open("a") as file:
        file.write('{"epo')
    run.truncate(run.metrics, 2)
    assert run.metrics.read_text() == '{"epoch": 0}\n{"epoch": 1}\n'
    with pytest.raises(StorageError, match="must have the 3 lines of the epochs that are done; got 2"):
        run.truncate(run.metrics, 3)


def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"must be a folder that can be made; got .*Choose another --output"):
        RunDir(tmp_path / "file/run").lock()
