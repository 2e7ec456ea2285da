"""Killed at any moment, or on a full disk: what was saved before can always be loaded."""

import errno
import fcntl
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from maxsup.core.errors import Interruption, MaxsupError, StorageError
from maxsup.lab.cli import main
from maxsup.lab.core.config import Recipe
from maxsup.lab.core.files import storage
from maxsup.lab.core.files.rundir import NO_LOCK, RunDir
from maxsup.lab.experiments.execution.launch import handed_on
from maxsup.lab.experiments.execution.worker import _locked
from tests.integration.runs import NUM_STEPS, StopAt, image_folder, tiny_recipe, train_quietly, what_is_kept

NUM_KILLS = 50
SAVE_EVERY = 3
KILLED = ("epochs=12", f"save_every_steps={SAVE_EVERY}", "loss.name=ols")
FULL = ("epochs=2", "loss.name=adaptive_ls")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("images"))


def saved_step(run: Path) -> int:
    """Steps in the last checkpoint, after every file of it and of the best one was read; 0 where there is none yet."""
    if not (run / "checkpoints/last").exists():
        return 0
    for which in ("best", "last"):
        for name in ("model.safetensors", "state.safetensors"):
            assert load_file(run / "checkpoints" / which / name)
        state = json.loads((run / "checkpoints" / which / "state.json").read_text())
    return int(state["global_step"])


@pytest.mark.slow
def test_fifty_kills_lose_at_most_one_save_interval_each_and_change_nothing(images: Path, tmp_path: Path) -> None:
    train_quietly(tiny_recipe(images, *KILLED), tmp_path / "whole")
    expected = what_is_kept(tmp_path / "whole")
    dice = random.Random(5)
    command = [sys.executable, "-m", "tests.integration.nursery", str(images), *KILLED]
    num_killed = num_finished = saved = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        while num_killed < NUM_KILLS or saved > 0:
            run = tmp_path / f"killed{num_finished}"
            orders = f"time {dice.uniform(0, 0.8)}", f"write {dice.randint(1, 9)}", f"rename {dice.randint(1, 5)}"
            order = orders[num_killed % 3] if num_killed < NUM_KILLS else "time 600"
            print(order, run, file=nursery.stdin, flush=True)
            status = int(nursery.stdout.readline())
            if status == 0:
                # It was over before it could be killed: compare, and kill the next one.
                assert what_is_kept(run) == expected
                num_finished, saved = num_finished + 1, 0
                continue
            assert os.WTERMSIG(status) == signal.SIGKILL
            num_killed += 1
            before, saved = saved, saved_step(run)
            assert saved >= before
            steps_file = run.with_suffix(".steps")
            taken = int(steps_file.read_text() or 0) if steps_file.exists() else 0
            assert taken - saved <= SAVE_EVERY
        nursery.stdin.close()
    assert num_killed == NUM_KILLS
    assert num_finished >= 1


def failing(function: Callable[..., Any], left: int, *, is_halfway: bool) -> Callable[..., Any]:
    """The same function, but every call from the ``left``-th on finds the disk full, after half of a write."""

    def call(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left > 0:
            return function(*arguments)
        if is_halfway and left == 0:
            return function(arguments[0], arguments[1][: len(arguments[1]) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return call


def outcome(recipe: Recipe, run: Path) -> StorageError | None:
    try:
        train_quietly(recipe, run)
    except StorageError as error:
        return error
    return None


@pytest.fixture(scope="module")
def half_done(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run stopped after its first epoch, beside one that was not."""
    folder = tmp_path_factory.mktemp("half_done")
    train_quietly(tiny_recipe(images, *FULL), folder / "whole")
    with pytest.raises(Interruption):
        train_quietly(tiny_recipe(images, *FULL), folder / "half", StopAt(NUM_STEPS))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "function"), [("half", "write"), ("half", "fsync"), ("half", "replace"), ("nothing", "write")]
)
def test_a_disk_that_fills_at_any_write_costs_nothing_that_was_saved(
    start: str, function: str, images: Path, half_done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(images, *FULL)
    num_faults = 0
    while True:
        run = tmp_path / f"{function}{num_faults}"
        if start == "half":
            shutil.copytree(half_done / "half", run, symlinks=True)
        with monkeypatch.context() as patch:
            real = getattr(os, function)
            patch.setattr(storage.os, function, failing(real, num_faults + 1, is_halfway=function == "write"))
            error = outcome(recipe, run)
        if error is None:
            break
        assert error.exit_code == 5
        assert str(run) in str(error)
        assert re.search(r"\d bytes", str(error))
        assert "No space left on device" in str(error)
        assert saved_step(run) >= (NUM_STEPS if start == "half" else 0)
        train_quietly(recipe, run)
        assert what_is_kept(run) == what_is_kept(half_done / "whole")
        shutil.rmtree(run)
        num_faults += 1
    # At least: environment, metrics, timing, three files of a checkpoint, summary; renames are fewer.
    assert num_faults >= (4 if function == "replace" else 7)


def test_too_little_room_is_noticed_before_anything_is_written(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(StorageError, match=r"must have room for \d+ bytes; got 1000 bytes free"):
        train_quietly(tiny_recipe(images, "epochs=1"), tmp_path / "run")
    assert list((tmp_path / "run/checkpoints").iterdir()) == []


HOLDER = """
import sys
from maxsup.lab.core.files.rundir import RunDir
RunDir(sys.argv[1]).lock()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone_however_it_went(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    command = [sys.executable, "-c", HOLDER, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(MaxsupError, match=f"in which process {holder.pid} on .* works") as caught:
            run.lock()
        assert caught.value.exit_code == 2
        holder.kill()
    release = run.lock()
    with pytest.raises(MaxsupError, match=f"in which process {os.getpid()}"):
        run.lock()
    release()
    run.lock()()


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no locks."""

    def refused(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", refused)


@pytest.mark.usefixtures("no_locks")
def test_a_file_system_without_locks_is_called_so_and_can_be_used_without(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NO_LOCK, raising=False)
    recipe = tiny_recipe(images, "epochs=1")
    with pytest.raises(StorageError, match=r"must be on a file system with locks; got No locks available.*--no-lock"):
        train_quietly(recipe, tmp_path / "run")
    monkeypatch.setenv(NO_LOCK, "1")
    train_quietly(recipe, tmp_path / "run")
    assert saved_step(tmp_path / "run") == NUM_STEPS
    release = RunDir(tmp_path / "run").lock()
    with pytest.raises(MaxsupError, match=f"in which process {os.getpid()}"):
        RunDir(tmp_path / "run").lock()
    release()


@pytest.mark.usefixtures("no_locks")
def test_a_worker_does_not_wait_for_a_lock_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NO_LOCK, raising=False)
    with pytest.raises(StorageError, match="with locks"):
        _locked(RunDir(tmp_path / "run"), 600, io.StringIO())


@pytest.mark.parametrize("verb", [["train", "digits_cnn"], ["compare"], ["study", "run", "tab_pre"]])
def test_the_option_no_lock_reaches_this_process_and_its_workers(
    verb: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NO_LOCK, "")  # so that it is restored
    monkeypatch.delenv(NO_LOCK)
    with pytest.raises(SystemExit) as leaving:
        main([*verb, "--no-lock", "nonsense=1"])
    assert leaving.value.code == 2
    assert handed_on()[NO_LOCK] == "1"


def test_a_folder_in_the_place_of_the_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "run/.lock").mkdir(parents=True)
    with pytest.raises(
        StorageError, match=r"run/\.lock must be a file that can be locked; got Is a directory\. Remove"
    ):
        RunDir(tmp_path / "run").lock()
