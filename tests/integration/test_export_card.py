"""`maxsup export --to card`: a run on somebody's photos as a folder that a model hub takes."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
import yaml
from safetensors.torch import load_file

from maxsup.lab.core.recipes import load_recipe
from maxsup.lab.reports.card import known_from_data
from tests.integration.cards import exported, loaded
from tests.integration.runs import NUM_CLASSES, image_folder, tiny_recipe, train_quietly


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on files that loader processes read, in folders whose names are nobody's business."""
    home = tmp_path_factory.mktemp("Anna Maria, private")
    words = [
        "data.num_workers=2",
        "epochs=1",
        f"data.root={home}",
        "loss.alpha={schedule: linear, start: 0.1, end: 0.2}",
    ]
    train_quietly(tiny_recipe(image_folder(home / "my photos"), *words), home / "runs" / "first_try")
    return home / "runs" / "first_try"


@pytest.fixture(scope="module")
def card(run: Path) -> Path:
    assert exported(run, "--dataset", "someone/photos", "--license", "cc-by-4.0", "--weights", "best") == 0
    return run / "card"


def test_the_card_is_valid_and_holds_the_numbers_of_the_run(run: Path, card: Path) -> None:
    found = huggingface_hub.ModelCard.load(card / "README.md").data
    numbers = json.loads((run / "summary.json").read_text())["test"]["best"]
    assert (found.library_name, found.license, found.datasets) == ("maxsup", "cc-by-4.0", ["someone/photos"])
    assert found.pipeline_tag == "image-classification"
    shown = {result.metric_type: result.metric_value for result in found.eval_results}
    assert {"accuracy", "nll", "ece"} < set(shown)
    assert shown == {key: numbers[key] for key in shown}
    assert {(result.dataset_type, result.dataset_split) for result in found.eval_results} == {
        ("someone/photos", "test")
    }


def test_results_for_the_page_of_a_data_set_are_read_by_the_hub_library(run: Path, card: Path) -> None:
    # Older versions of the library, which other packages here may ask for, have no such page.
    if not hasattr(huggingface_hub, "parse_eval_result_entries"):
        pytest.skip("this huggingface_hub does not know .eval_results")
    [file] = (card / ".eval_results").iterdir()
    [entry] = huggingface_hub.parse_eval_result_entries(yaml.safe_load(file.read_text()))
    accuracy = json.loads((run / "summary.json").read_text())["test"]["best"]["accuracy"]
    assert (entry.dataset_id, entry.value) == ("someone/photos", round(100 * accuracy, 2))


def test_no_folder_of_the_machine_is_named(run: Path, card: Path) -> None:
    files = [path for path in card.rglob("*") if path.is_file()]
    assert len(files) == 8
    for path in files:
        assert not re.search(rb"Anna|private|/tmp|pytest", path.read_bytes()), path.name
    recipe = load_recipe(str(card / "recipe.yaml"))
    assert (recipe.data.name, recipe.data.root) == ("folder:my photos", None)


def test_the_python_of_the_card_loads_the_weights(run: Path, card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(card, monkeypatch)
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, NUM_CLASSES)
    kept = load_file(run / "checkpoints" / "best" / "model.safetensors")
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


def test_a_network_made_for_one_size_is_told_the_size_that_its_data_has() -> None:
    names, size = known_from_data(load_recipe("digits_cnn", ["model.name=tiny_vit"]), 10)
    assert (len(names), size) == (10, 8)
    assert known_from_data(load_recipe("digits_cnn", ["data.image_size=16"]), 11) == ((), 16)


def test_without_its_data_a_run_is_exported_without_names_of_classes(run: Path, card: Path, tmp_path: Path) -> None:
    assert (card / "class_names.txt").read_text() == "class_0\nclass_1\nclass_2\n"
    photos = run.parents[1] / "my photos"
    photos.rename(tmp_path / "gone")
    try:
        assert exported(run, "--output", str(tmp_path / "card")) == 0
    finally:
        (tmp_path / "gone").rename(photos)
    assert not (tmp_path / "card" / "class_names.txt").exists()
    assert "class_names" not in (tmp_path / "card" / "README.md").read_text()


def test_a_folder_that_holds_something_is_left_alone(card: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (card / "README.md").write_text("mine")
    assert exported(run) == 2
    assert "--force" in capsys.readouterr().err
    assert (card / "README.md").read_text() == "mine"
    assert exported(run, "--force") == 0
    assert "hf upload" in capsys.readouterr().out


def test_an_export_into_the_same_folder_replaces_the_earlier_one_and_nothing_else(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "card"
    assert exported(run, "--output", str(folder), "--dataset", "someone/photos") == 0
    [result] = (folder / ".eval_results").iterdir()
    (folder / "notes.md").write_text("mine")
    assert exported(run, "--output", str(folder), "--force") == 0
    assert not result.exists()
    assert (folder / "notes.md").read_text() == "mine"
    assert (folder / "class_names.txt").is_file()


@pytest.mark.parametrize(
    ("missing", "code", "words"),
    [
        ("config.yaml", 2, "run must be a directory that maxsup train made"),
        ("summary.json", 2, "run must be finished before it is shared"),
        ("checkpoints/last/model.safetensors", 5, "model.safetensors must be"),
    ],
)
def test_what_is_no_finished_run_is_refused_in_a_sentence(
    run: Path, missing: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy", symlinks=True)
    (copy / missing).unlink()
    assert exported(copy, "--output", str(tmp_path / "card")) == code
    [line] = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (tmp_path / "card").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--dataset", "photos"),
        ("--weights", "first"),
        ("--to", "page"),
        (".",),
        ("--to", "logbook"),
    ],
)
def test_options_that_make_no_sense_exit_with_2(
    run: Path, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(run, *words, "--output", str(tmp_path / "out")) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("function", ["write", "fsync", "replace", "rename", "mkdir"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_disk_that_fills_at_any_moment_leaves_nothing_and_the_next_try_succeeds(
    function: str, is_new: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, num_faults = tmp_path / "shared", 0
    words = ["--dataset", "someone/photos", "--output"]
    assert exported(run, *words, str(tmp_path / "whole")) == 0
    if not is_new:
        target.mkdir()
    before = sorted(tmp_path.rglob("*"))
    while True:
        with monkeypatch.context() as patch:
            patch.setattr(os, function, full_disk(getattr(os, function), num_faults, tmp_path))
            code = exported(run, *words, str(target))
        if code == 0:
            break
        assert code == 5
        assert sorted(tmp_path.rglob("*")) == before
        num_faults += 1
    assert contents(target) == contents(tmp_path / "whole")
    assert num_faults >= (1 if function in ("rename", "mkdir") else 7) or (function == "rename" and not is_new)


def full_disk(function: Callable[..., Any], num_good: int, folder: Path) -> Callable[..., Any]:
    """The same function, until the disk of ``folder`` is full after so many calls."""

    def call(place: Any, *others: Any, **settings: Any) -> Any:
        nonlocal num_good
        path = os.readlink(f"/proc/self/fd/{place}") if isinstance(place, int) else os.path.abspath(place)
        if path.startswith(str(folder)):
            num_good -= 1
            if num_good < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(place, *others, **settings)

    return call


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
