"""Which folders training takes, and what it leaves in them when it does not come to train."""

import json
from pathlib import Path

import pytest

from maxsup.core.errors import Interruption, MaxsupError, NonFiniteError, StorageError
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.core.recipes import read_yaml
from maxsup.lab.training import train
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.progress import Reporter
from tests.integration.runs import StopAt

QUICK = {
    "optimizer": {"lr": 0.1},
    "model": {"name": "small_cnn", "options": {"widths": [4]}},
    "epochs": 1,
    "batch_size": 400,
}


def quick(*overrides: str) -> Recipe:
    return parse_recipe(QUICK, overrides)


def train_into(folder: Path, *overrides: str, resume: str = "auto", reporter: Reporter | None = None) -> dict:
    return train(quick(*overrides), folder, resume=resume, reporter=reporter or Reporter())


def everything_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def exploded(tmp_path: Path) -> Path:
    """What is left of a run whose loss became infinite before its first checkpoint."""
    with pytest.raises(NonFiniteError):
        train_into(tmp_path / "run", "optimizer.lr=1e6", "loss.alpha=1e30")
    assert (tmp_path / "run/nonfinite.json").exists()
    assert not (tmp_path / "run/checkpoints").exists()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("overrides", "resume", "error"),
    [
        ([], "sometimes", ValueError),
        (["data.name=folder:gone"], "auto", MaxsupError),
        (["data.name=cifar10", "data.root=gone"], "never", MaxsupError),
        (["model.pretrained=nofile"], "auto", StorageError),
        (["model.name=resnet50_nowhere"], "auto", ValueError),
        (["loss.name=nothing"], "auto", ValueError),
        (["model.name=upernet"], "auto", ValueError),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("before", ["nothing", "an empty folder", "an order"])
def test_training_that_cannot_begin_leaves_everything_as_it_was(
    overrides: list[str], resume: str, error: type[Exception], before: str, tmp_path: Path
) -> None:
    run = tmp_path / "above/run"
    if before != "nothing":
        run.mkdir(parents=True)
    if before == "an order":
        (run / "job.json").write_text("{}")
    kept = sorted(tmp_path.rglob("*"))
    with pytest.raises(error):
        train_into(run, *overrides, resume=resume)
    assert sorted(tmp_path.rglob("*")) == kept


@pytest.mark.parametrize("resume", ["auto", "never"])
@pytest.mark.parametrize("name", ["holiday.jpg", "config.yaml", ".hidden"])
def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(resume: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine: true")
    with pytest.raises(
        MaxsupError, match=f"must be new, empty or that of a run; got .* which holds '{name}'"
    ) as caught:
        train_into(tmp_path, resume=resume)
    assert caught.value.exit_code == 2
    assert everything_in(tmp_path) == {name: b"mine: true"}


@pytest.mark.parametrize("left", [(), (".lock",), (".lock", ".config.yaml.tmp"), ("job.json", "worker.log")])
@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_folder_of_which_only_the_beginning_is_there_is_trained_in(
    left: tuple[str, ...], resume: str, tmp_path: Path
) -> None:
    for name in left:
        (tmp_path / name).touch()
    assert train_into(tmp_path, resume=resume)["epochs"] == 1


def test_never_refuses_a_run_that_stopped_before_its_first_checkpoint(exploded: Path) -> None:
    kept = everything_in(exploded)
    with pytest.raises(MaxsupError, match=r"must be new with resume=never; got .*, which holds a run"):
        train_into(exploded, resume="never")
    assert {name: kept[name] for name in kept if name != ".lock"} == {
        name: content for name, content in everything_in(exploded).items() if name != ".lock"
    }


def test_what_an_attempt_stumbled_over_is_forgotten_when_training_begins_again(exploded: Path) -> None:
    train_into(exploded)
    assert not (exploded / "nonfinite.json").exists()
    assert json.loads((exploded / "summary.json").read_text())["epochs"] == 1
    assert parse_recipe(read_yaml(exploded / "config.yaml")) == resolve_preprocessing(quick())


def test_it_is_forgotten_when_a_run_goes_on_too(tmp_path: Path) -> None:
    with pytest.raises(Interruption):
        train_into(tmp_path, "epochs=2", reporter=StopAt(1))
    (tmp_path / "nonfinite.json").write_text("{}")
    train_into(tmp_path, "epochs=2")
    assert not (tmp_path / "nonfinite.json").exists()


def test_a_run_that_was_copied_without_its_hidden_files_goes_on(tmp_path: Path) -> None:
    with pytest.raises(Interruption):
        train_into(tmp_path, "epochs=2", reporter=StopAt(1))
    (tmp_path / ".lock").unlink()
    assert train_into(tmp_path, "epochs=2")["epochs"] == 2


def test_another_recipe_is_refused_before_its_data_is_looked_for(tmp_path: Path) -> None:
    train_into(tmp_path)
    with pytest.raises(MaxsupError, match=r"a run must go on with its own recipe; got data\.name='folder:gone'"):
        train_into(tmp_path, "data.name=folder:gone")
