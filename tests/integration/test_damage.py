"""Every file of a run and of a comparison is damaged in turn: it is named, or what it says is not used."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from maxsup.core.errors import DataError, Interruption, MaxsupError, StorageError
from maxsup.diagnosis.array_files import read_array_files
from maxsup.diagnosis.outputs import checked_outputs
from maxsup.lab.analysis import ANALYSES, analyze, read_results
from maxsup.lab.core.files.reading import read_json, read_json_lines
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.core.recipes import run_recipe
from maxsup.lab.data.sets.arrays import read_npz
from maxsup.lab.experiments.comparison import comparison
from maxsup.lab.experiments.execution.launch import Job, read_state
from maxsup.lab.experiments.execution.study_folder import read_folder
from maxsup.lab.experiments.execution.worker import attempt
from maxsup.lab.experiments.summarize import summarize
from maxsup.lab.reports.folders import read_view
from maxsup.lab.training import evaluate_run
from maxsup.lab.training.state.checkpoint import checkpoint_values, read_tensors
from tests.integration.runs import StopAt, image_folder, tiny_recipe, train_quietly
from tests.unit.lab.experiments.made import lay_out

pytestmark = pytest.mark.slow

WORDS = ("epochs=2", "model.options.widths=[2, 4]", "data.num_workers=0")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its second epoch, and a comparison of two runs."""
    home = tmp_path_factory.mktemp("home")
    recipe = tiny_recipe(image_folder(home / "images"), *WORDS)
    with pytest.raises(Interruption, match="stopped by SIG"):
        train_quietly(recipe, home / "stopped", StopAt(6))
    words = ["epochs=1", "model.options.widths=[2, 4]", "batch_size=512"]
    study = comparison("digits_cnn", ["ce", "maxsup"], seeds=1, overrides=words)
    folder = lay_out(study, home / "compared")
    for name in folder.runs:
        assert attempt(folder.folder(name)) == 0
    summarize(folder)
    return home


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(len(content)).randrange(len(content))] ^= 2
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "flipped": flipped,
    "emptied": emptied,
    "removed": Path.unlink,
    "replaced": replaced,
}
# Lists for people, and what is made again where it is not as it was: the lock, the log, the order of a worker.
UNREAD = {".lock", "worker.log", "started.json", "bad_files.csv"}


def damaged_copies(whole: Path, home: Path, unread: set[str]) -> Iterator[tuple[Path, str, Path]]:
    """Every file outside the unread folders with every damage, and the copy of the whole that has it."""
    files = {path.resolve() for path in whole.rglob("*") if path.is_file() and not path.is_symlink()}
    copies = (home / str(number) for number in count())
    for place in sorted(file.relative_to(whole.resolve()) for file in files):
        if place.name in UNREAD or place.suffix in (".png", ".svg") or not unread.isdisjoint(place.parts):
            continue
        for name, damage in DAMAGES.items():
            copy = next(copies)
            shutil.copytree(whole, copy, symlinks=True)
            damage(copy / place)
            yield place, name, copy
            shutil.rmtree(copy)


def outcome(action: Callable[[], object]) -> str:
    """What an action says; a foreign exception is the failure of the test."""
    try:
        action()
    except MaxsupError as error:
        return f"exit {error.exit_code}: {error}"
    except Interruption:
        return "fine"
    return "fine"


def kept_numbers(folder: Path) -> list[dict[str, object]]:
    both = [evaluate_run(folder, weights=weights) for weights in ("last", "best")]
    return [{key: value for key, value in numbers.items() if key != "run"} for numbers in both]


def test_a_damaged_file_of_a_run_is_named_before_anything_is_trained(home: Path, tmp_path: Path) -> None:
    run = home / "stopped"
    expected = kept_numbers(run)
    recipe = run_recipe(RunDir(run))
    num_cases = 0
    for place, name, copy in damaged_copies(run, tmp_path, {"analysis"}):
        num_cases += 1
        said = {
            "eval": outcome(lambda copy=copy: _same(kept_numbers(copy), expected)),
            "resume": outcome(lambda copy=copy: train_quietly(recipe, copy, StopAt(1))),
        }
        for verb, text in said.items():
            # A lost env.json or list of checksums is nothing that a number depends on.
            is_needed = place.name not in ("env.json", "checksums.json") and (
                verb == "resume" or place.name not in ("metrics.jsonl", "timing.jsonl", "state.safetensors")
            )
            if is_needed or text != "fine":
                assert place.name in text, f"{place} {name}, {verb}: {text}"
    assert num_cases >= 35


def _same(found: object, expected: object) -> None:
    assert found == expected


def test_a_damaged_file_of_a_comparison_is_named_or_left_out_by_name(home: Path, tmp_path: Path) -> None:
    whole = home / "compared"
    expected = _reported(whole, [])
    num_cases = 0
    for place, name, copy in damaged_copies(whole, tmp_path, {"checkpoints", "outputs", ".done"}):
        num_cases += 1
        left_out: list[str] = []
        found: list[object] = []
        text = outcome(lambda copy=copy, left_out=left_out, found=found: found.append(_reported(copy, left_out)))
        is_named = place.name in text or any(place.name in sentence for sentence in left_out)
        # What is missing is a hole in the table, which the table shows; what is not read changes nothing.
        is_harmless = text == "fine" and (found[0] == expected or name == "removed")
        assert is_named or is_harmless, f"{place} {name}: {text}, {left_out}"
    assert num_cases >= 50


def _reported(path: Path, left_out: list[str]) -> object:
    folder = read_folder(path)
    for name, run in folder.runs.items():
        read_state(Job(name, folder.folder(name), run.recipe.epochs))
    summary = summarize(folder)
    # All that a report reads, without the time that its figures take.
    view = read_view(path)
    read = [
        [run.recipe, [*run.epochs()], run.test, *(run.result(name) for name in ANALYSES.names())] for run in view.runs
    ]
    left_out += view.complaints
    return [summary.table, summary.losses, summary.environment, read]


def test_analyses_of_a_damaged_run_name_the_file(home: Path, tmp_path: Path) -> None:
    [run, *_] = sorted((home / "compared/runs").iterdir())
    expected = read_results(run, "collapse")
    for place in ("config.yaml", "checkpoints/last/model.safetensors", "checkpoints/last/state.json"):
        for name, damage in DAMAGES.items():
            copy = tmp_path / f"{Path(place).name}-{name}"
            shutil.copytree(run, copy, symlinks=True)
            shutil.rmtree(copy / "outputs", ignore_errors=True)
            damage((copy / place).resolve())
            text = outcome(lambda copy=copy: analyze([copy], ["collapse"], split="train"))
            assert Path(place).name in text, f"{place} {name}: {text}"
    assert expected


def test_readers_of_random_damage_refuse_it_by_name(home: Path, tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", logits=np.eye(8, dtype=np.float32), labels=np.arange(8), features=np.eye(8))
    np.savez_compressed(
        tmp_path / "i.npz",
        **{f"{split}_images": np.zeros((4, 3, 3), np.uint8) for split in ("train", "test")},
        **{f"{split}_labels": np.arange(4) for split in ("train", "test")},
    )
    [run, *_] = sorted((home / "compared/runs").iterdir())
    last = (run / "checkpoints/last").resolve()
    readers: list[tuple[Path, Callable[[Path], object]]] = [
        (run / "summary.json", read_json),
        (run / "metrics.jsonl", read_json_lines),
        (run / "config.yaml", lambda path: run_recipe(RunDir(path.parent))),
        (home / "compared/study.json", lambda path: read_folder(path.parent)),
        (last / "model.safetensors", read_tensors),
        (last / "state.json", lambda path: checkpoint_values(path.parent)),
        (tmp_path / "a.npz", lambda path: checked_outputs(*read_array_files(path))),
        (tmp_path / "i.npz", read_npz),
    ]
    dice = random.Random(0)
    place = tmp_path / "one/two/three"
    place.mkdir(parents=True)
    refusals: list[tuple[str, str]] = []
    for source, read in readers:
        content = source.read_bytes()
        for _ in range(60):
            damaged = bytearray(content)
            for _ in range(dice.choice((1, 3, 20))):
                where = dice.randrange(len(damaged) + 1)
                kind = dice.randrange(4)
                if kind == 0 and where < len(damaged):
                    damaged[where] ^= 1 << dice.randrange(8)
                elif kind == 1:
                    damaged[where : where + dice.randrange(40)] = b""
                elif kind == 2:
                    damaged[where:where] = dice.choice((b"{", b"]", b"null", b"1e999", b"\xff", b'"', b"-"))
                else:
                    damaged = damaged[: where + 1]
            (place / source.name).write_bytes(damaged)
            try:
                read(place / source.name)
            except (StorageError, DataError) as error:
                refusals.append((source.name, str(error)))
    # Some damage hits a comment, a blank, or an array that is not asked for.
    assert len(refusals) > 300
    assert [pair for pair in refusals if pair[0] not in pair[1]] == []


def test_a_pipe_in_the_place_of_a_file_is_no_wait(home: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "env.json")
    with pytest.raises(StorageError, match=r"env\.json must be as it was written; got something that is no file"):
        read_json(tmp_path / "env.json")


def test_numbers_that_cannot_be_kept_are_given(home: Path, tmp_path: Path) -> None:
    [run, *_] = sorted((home / "compared/runs").iterdir())
    copy = tmp_path / os.fsdecode(b"caf\xe9")  # no UTF-8 either
    shutil.copytree(run, copy, symlinks=True)
    for name in ("analysis", "outputs", "figures"):
        shutil.rmtree(copy / name, ignore_errors=True)
        (copy / name).write_text("in the way")
    expected = evaluate_run(run)
    with pytest.warns(UserWarning, match="these numbers are not kept"):
        assert evaluate_run(copy) == expected | {"run": str(copy)}
    with pytest.warns(UserWarning, match="not kept"):
        done = analyze([copy], ["collapse"], split="train")
    assert done.results["collapse"]
    assert done.files == []
