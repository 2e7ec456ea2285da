"""The order of time of training, as observers see it, and a trainer that has no run folder."""

from pathlib import Path
from typing import Any

import pytest
import torch

from maxsup.core.errors import Interruption, NonFiniteError
from maxsup.lab.core.config import Recipe, parse_recipe
from maxsup.lab.training.builders import build_data, build_loss, build_model
from maxsup.lab.training.loop import Observer, Trainer, fit
from maxsup.lab.training.preflight.estimate import estimate_seconds, try_step

TINY = {"model": {"name": "small_cnn", "options": {"widths": [4]}}, "epochs": 2, "batch_size": 500}
NUM_STEPS = 3
"""Steps of an epoch: 1,295 images."""


class Notes(Observer):
    """Keeps what it is told; raises at the event of that number."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.told: list[str] = []
        self.lines: list[dict[str, Any]] = []
        self.stop_at = stop_at

    def note(self, what: str) -> None:
        self.told.append(what)
        if len(self.told) == self.stop_at:
            raise Interruption("enough", signal_number=15)

    def on_epoch_start(self, trainer: Trainer) -> None:
        self.note(f"epoch {trainer.position.epoch}")

    def on_step(self, trainer: Trainer) -> None:
        self.note(f"step {trainer.position.global_step}")

    def on_evaluated_batch(self, trainer: Trainer) -> None:
        self.note("evaluated")

    def on_epoch_end(self, trainer: Trainer, line: dict[str, Any]) -> None:
        self.lines.append(line)
        self.note("end")

    def on_nonfinite(self, trainer: Trainer, found: dict[str, Any]) -> None:
        self.told.append(f"nonfinite {found['global_step']} {len(found['samples'])}")

    def on_interruption(self, trainer: Trainer) -> None:
        self.told.append("interrupted")


def tiny_trainer(notes: Notes, *words: str) -> Trainer:
    recipe = parse_recipe(TINY, words)
    bundle = build_data(recipe)
    return Trainer(recipe, bundle, build_model(recipe, bundle), build_loss(recipe.loss), observers=[notes])


def test_observers_are_told_everything_in_the_order_of_time() -> None:
    notes = Notes()
    fit(tiny_trainer(notes))
    first = ["epoch 0", *(f"step {step}" for step in range(1, NUM_STEPS + 1)), "evaluated", "end"]
    second = ["epoch 1", *(f"step {step}" for step in range(NUM_STEPS + 1, 2 * NUM_STEPS + 1)), "evaluated", "end"]
    assert notes.told == first + second
    assert [line["step"] for line in notes.lines] == [NUM_STEPS, 2 * NUM_STEPS]
    assert all(0 <= line["val"]["accuracy"] <= 1 for line in notes.lines)


@pytest.mark.parametrize(
    ("event", "position"), [(3, (0, 2)), (5, (0, NUM_STEPS)), (6, (1, 0))], ids=["a step", "validation", "the end"]
)
def test_an_interruption_is_told_where_it_happens_and_fitting_again_goes_on_from_there(
    event: int, position: tuple[int, int]
) -> None:
    whole = tiny_trainer(Notes())
    fit(whole)
    notes = Notes(stop_at=event)
    trainer = tiny_trainer(notes)
    with pytest.raises(Interruption):
        fit(trainer)
    assert notes.told[event:] == ["interrupted"]
    assert (trainer.position.epoch, trainer.position.step) == position
    fit(trainer)
    for expected, found in zip(whole.model.parameters(), trainer.model.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_a_loss_that_is_no_number_is_told_one_step_late_and_before_it_is_raised() -> None:
    notes = Notes()
    trainer = tiny_trainer(notes)
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(torch.nan)
    with pytest.raises(NonFiniteError):
        fit(trainer)
    assert notes.told == ["epoch 0", "step 1", "nonfinite 0 500"]


def test_trying_and_timing_a_recipe_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", lambda *place, **options: pytest.fail("a folder was made"))
    recipe: Recipe = parse_recipe(TINY)
    bundle = build_data(recipe)
    assert 0 < try_step(recipe, bundle) < 10
    assert 0 < estimate_seconds(recipe, bundle) < 600
    assert list(tmp_path.iterdir()) == []
