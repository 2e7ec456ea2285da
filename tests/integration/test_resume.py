"""A run that was cut goes on and ends as if nothing had happened, to the last bit."""

import json
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from maxsup.core.errors import Interruption, MaxsupError
from maxsup.lab.core.config import Recipe
from maxsup.lab.data import Pipeline
from maxsup.lab.training.loop import Trainer
from tests.integration.runs import NUM_EPOCHS, NUM_STEPS, StopAt, image_folder, tiny_recipe, train_quietly, what_is_kept

pytestmark = pytest.mark.slow

LOSSES = {
    "ce": ["loss.name=ce"],
    "ls": ["loss.name=ls", "loss.alpha={schedule: linear, start: 0.0, end: 0.2}"],
    "maxsup": ["loss.name=maxsup", "loss.alpha=linear", "alpha_per_step=true"],
    "ols": ["loss.name=ols"],
    "adaptive_ls": ["loss.name=adaptive_ls"],
}
CUTS_EACH = 2


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("images"))


def interrupt(recipe: Recipe, output: Path, num_steps: int, number: int = signal.SIGTERM) -> Interruption:
    with pytest.raises(Interruption) as caught:
        train_quietly(recipe, output, StopAt(num_steps, number))
    return caught.value


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_cut_at_a_random_step_ends_bit_equal(loss: str, num_workers: int, images: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(images, *LOSSES[loss], f"data.num_workers={num_workers}")
    train_quietly(recipe, tmp_path / "whole")
    expected = what_is_kept(tmp_path / "whole")
    dice = random.Random(f"{loss}{num_workers}")
    for cut in dice.sample(range(1, NUM_EPOCHS * NUM_STEPS), CUTS_EACH):
        output = tmp_path / f"cut{cut}"
        assert interrupt(recipe, output, cut).exit_code == 143
        train_quietly(recipe, output)
        assert what_is_kept(output) == expected, f"cut after step {cut}"


def test_the_number_of_cut_points_is_twenty() -> None:
    assert len(LOSSES) * 2 * CUTS_EACH == 20


def test_dropout_repeats_itself_after_a_cut(images: Path, tmp_path: Path) -> None:
    words = ["model.name=tiny_vit", "model.options={drop_rate: 0.2, depth: 1}", "epochs=2", "ema.decay=0"]
    recipe = tiny_recipe(images, *words)
    train_quietly(recipe, tmp_path / "whole")
    interrupt(recipe, tmp_path / "cut", 3)
    train_quietly(recipe, tmp_path / "cut")
    assert what_is_kept(tmp_path / "cut") == what_is_kept(tmp_path / "whole")


def test_workers_do_not_change_a_single_bit(images: Path, tmp_path: Path) -> None:
    for num_workers in (0, 2):
        train_quietly(tiny_recipe(images, f"data.num_workers={num_workers}", "epochs=1"), tmp_path / str(num_workers))
    assert what_is_kept(tmp_path / "0") == what_is_kept(tmp_path / "2")


def test_a_signal_during_validation_saves_the_finished_epoch(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe(images, "loss.name=ols", "epochs=2")
    train_quietly(recipe, tmp_path / "whole")
    evaluate = Trainer.evaluate

    def interrupted_evaluate(self: Trainer, batches: Pipeline, split: str) -> dict[str, Any]:
        signal.raise_signal(signal.SIGINT)
        return evaluate(self, batches, split)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "evaluate", interrupted_evaluate)
        with pytest.raises(Interruption) as caught:
            train_quietly(recipe, tmp_path / "cut")
    assert caught.value.exit_code == 130
    state = json.loads((tmp_path / "cut/checkpoints/last/state.json").read_text())
    assert (state["epoch"], state["step"]) == (0, NUM_STEPS)
    train_quietly(recipe, tmp_path / "cut")
    assert what_is_kept(tmp_path / "cut") == what_is_kept(tmp_path / "whole")


def test_a_finished_run_gives_its_summary_again_even_when_its_data_is_gone(tmp_path: Path) -> None:
    recipe = tiny_recipe(image_folder(tmp_path / "images"), "epochs=1")
    first = train_quietly(recipe, tmp_path / "run")
    shutil.rmtree(tmp_path / "images")
    assert train_quietly(recipe, tmp_path / "run") == first


def test_another_experiment_in_the_same_directory_is_refused(images: Path, tmp_path: Path) -> None:
    train_quietly(tiny_recipe(images, "epochs=1"), tmp_path / "run")
    with pytest.raises(MaxsupError, match=r"got optimizer.lr=0.3 in place of 0.2 in .*Choose another output"):
        train_quietly(tiny_recipe(images, "epochs=1", "optimizer.lr=0.3"), tmp_path / "run")


def test_a_directory_in_which_nothing_was_trained_takes_another_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    with pytest.raises(MaxsupError, match="must be at"):
        train_quietly(tiny_recipe(folder, "optimizer.lr=0.3"), tmp_path / "run")
    image_folder(folder)
    summary = train_quietly(tiny_recipe(folder, "epochs=1"), tmp_path / "run")
    assert summary["steps"] == NUM_STEPS
    assert "lr: 0.2" in (tmp_path / "run/config.yaml").read_text()


def test_circumstances_may_change_between_two_sessions(images: Path, tmp_path: Path) -> None:
    train_quietly(tiny_recipe(images), tmp_path / "whole")
    interrupt(tiny_recipe(images, "save_every_steps=2"), tmp_path / "cut", 5)
    train_quietly(tiny_recipe(images, "data.num_workers=1", "save_every_steps=3"), tmp_path / "cut")
    assert what_is_kept(tmp_path / "cut") == what_is_kept(tmp_path / "whole")


def test_data_that_changed_since_is_refused(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images")
    interrupt(tiny_recipe(folder), tmp_path / "run", 5)
    for path in sorted((folder / "train/class_0").iterdir())[:6]:
        path.unlink()
    with pytest.raises(MaxsupError, match="data must be what the run began with") as caught:
        train_quietly(tiny_recipe(folder), tmp_path / "run")
    assert caught.value.exit_code == 4
