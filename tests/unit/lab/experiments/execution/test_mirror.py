"""Copies of run folders, in a folder and in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from maxsup.core.errors import StorageError, exit_code
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.experiments.execution.mirror import MIRROR, Mirror, fetch_all
from maxsup.lab.experiments.execution.worker import attempt
from tests.integration.launching import plan_jobs
from tests.integration.runs import image_folder, train_quietly, what_is_kept


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    network = {"name": "small_cnn", "options": {"widths": [4]}}
    folder = tmp_path_factory.mktemp("runs") / "maxsup-s0"
    train_quietly(parse_recipe({"model": network, "epochs": 2, "batch_size": 500}), folder)
    (folder / "outputs").mkdir()
    (folder / "outputs/test.npz").write_bytes(b"large")
    (folder / "analysis/.done").mkdir(parents=True)
    (folder / "analysis/.done/a.json").write_text("{}")
    return folder


@pytest.fixture(params=["file", "memory"])
def mirror(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mirror]:
    yield Mirror(f"file://{tmp_path}/bucket" if request.param == "file" else "memory://bucket/runs")
    fsspec.filesystem("memory").store.clear()


def contents(mirror: Mirror) -> list[str]:
    return sorted(path for path in mirror._files.find(mirror._root))


def test_a_machine_that_starts_empty_gets_the_run_back(run: Path, mirror: Mirror, tmp_path: Path) -> None:
    mirror.push(run)
    other = tmp_path / "other/maxsup-s0"
    assert mirror.pull(other)
    assert RunDir(other).recover() is not None  # makes the links again
    assert what_is_kept(other) == what_is_kept(run)
    assert (other / "analysis/.done/a.json").exists()
    assert not (other / "outputs").exists()
    assert not mirror.pull(other)  # it is here now


def test_a_copy_is_only_renewed_where_something_changed(
    run: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.push(run)
    before = contents(mirror)
    sent: list[Any] = []
    monkeypatch.setattr(mirror._files, "put_file", lambda *words: sent.append(words))
    (run / "notes.txt").write_text("another file\n")
    mirror.push(run)
    assert sent == []
    assert len(contents(mirror)) == len(before) + 1
    (run / "notes.txt").unlink()
    mirror.push(run)
    assert contents(mirror) == before


def test_a_copy_that_was_cut_short_does_not_count(
    run: Path, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: Any) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(mirror._files, "put_file", fail)
    with pytest.raises(StorageError, match=r"got .* and ConnectionError: no route to host"):
        mirror.push(run)
    monkeypatch.undo()
    assert not mirror.pull(tmp_path / "other/maxsup-s0")


@pytest.mark.parametrize("damage", ["missing", "cut", "manifest"])
def test_a_copy_that_is_not_whole_is_refused_and_nothing_of_it_is_used(
    damage: str, run: Path, mirror: Mirror, tmp_path: Path
) -> None:
    mirror.push(run)
    at = f"{mirror._root}/maxsup-s0"
    record = json.loads(mirror._files.cat_file(f"{at}/manifest.json"))["config.yaml"]
    place = f"{at}/files/{record['digest']}"
    if damage == "missing":
        mirror._files.rm_file(place)
    else:
        mirror._files.pipe_file(f"{at}/manifest.json" if damage == "manifest" else place, b"epochs: 1")
    other = tmp_path / "other/maxsup-s0"
    with pytest.raises(StorageError, match="the copy of a run in a mirror must be whole") as refused:
        mirror.pull(other)
    assert exit_code(refused.value) == 5
    assert not RunDir(other).has_checkpoint
    assert not (other / "config.yaml").exists()


def test_a_place_that_cannot_be_written_is_said_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(MIRROR, f"file://{tmp_path}/file/bucket")
    with pytest.raises(StorageError, match="the mirror must be reachable and writable") as refused:
        fetch_all([])
    assert exit_code(refused.value) == 5
    with pytest.raises(StorageError, match="the mirror must be reachable"):
        Mirror("nosuch://bucket")


def test_a_worker_on_an_empty_machine_goes_on_from_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = image_folder(tmp_path / "images")
    monkeypatch.setenv(MIRROR, f"file://{tmp_path}/bucket")
    [job] = plan_jobs(tmp_path / "first", images, 1, "epochs=2")
    assert attempt(job.folder) == 0
    kept, planned = what_is_kept(job.folder), (job.folder / "job.json").read_text()
    # What the mirror would hold had the machine gone after the first epoch: no result yet.
    (job.folder / "summary.json").unlink()
    Mirror(f"file://{tmp_path}/bucket").push(job.folder)
    shutil.rmtree(tmp_path / "first")
    job.folder.mkdir(parents=True)
    (job.folder / "job.json").write_text(planned)
    assert attempt(job.folder) == 0
    assert "fetched from file://" in (job.folder / "worker.log").read_text()
    assert what_is_kept(job.folder) == kept
