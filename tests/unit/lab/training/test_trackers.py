"""What a tracker is told; a fake one stands for all."""

import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS
from accelerate.utils import LoggerType

from maxsup.core.errors import Interruption
from maxsup.lab.core.config import LossConfig, Recipe, TrackerName, parse_recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.training import train
from maxsup.lab.training.loop import Trainer
from maxsup.lab.training.progress import EpochMeter, Reporter
from maxsup.lab.training.trackers import Page, Tracker, page_options
from tests.integration.runs import StopAt

TINY = {
    "model": {"name": "small_cnn", "options": {"widths": [4]}},
    "epochs": 3,
    "batch_size": 500,
    "save_every_steps": 1,
}
NUM_STEPS = 3
"""Steps of an epoch: 1,295 images."""


class Service:
    """What a tracker's service would see of W&B's client."""

    def __init__(self, fails: str = "") -> None:
        self.pages: list[dict[str, Any]] = []
        self.lines: list[tuple[int, dict[str, Any]]] = []
        self.fails = fails

    def answer(self, call: str) -> None:
        if call in self.fails:
            raise ConnectionError("no route to host")

    def init(self, **page: Any) -> Any:
        self.answer("init")
        self.pages.append(page)
        config = SimpleNamespace(update=lambda *values, **options: None)
        return SimpleNamespace(log=self.log, finish=lambda: None, config=config)

    def log(self, values: dict[str, Any], step: int, **options: Any) -> None:
        self.answer("log")
        self.lines.append((step, values))


def serve(monkeypatch: pytest.MonkeyPatch, fails: str = "") -> Service:
    service = Service(fails)
    config = SimpleNamespace(update=lambda *values, **options: None)
    client = SimpleNamespace(init=service.init, config=config, __spec__=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "wandb", client)
    monkeypatch.setattr("accelerate.tracking._available_trackers", [LoggerType.WANDB])
    return service


def test_every_tracker_of_accelerate_can_be_chosen() -> None:
    assert set(get_args(TrackerName)) == set(LOGGER_TYPE_TO_CLASS)


def test_a_run_that_was_stopped_three_times_has_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, recipe = serve(monkeypatch), parse_recipe(TINY, ["tracker=wandb", "seed=4", "loss.alpha=0.2"])
    for num_steps in (2, 2, 2):
        with pytest.raises(Interruption):
            train(recipe, tmp_path / "run", name="compare", reporter=StopAt(num_steps, signal.SIGTERM))
    train(recipe, tmp_path / "run", name="compare", reporter=Reporter())
    assert len(service.pages) == 4
    assert len({page["id"] for page in service.pages}) == 1
    assert {(page["name"], page["group"], page["resume"]) for page in service.pages} == {
        ("maxsup alpha=0.2 s4", "compare", "allow")
    }
    assert sorted({step for step, _ in service.lines}) == [0, 1, 2]


def test_pages_differ_between_seeds_losses_and_comparisons() -> None:
    recipes = [Recipe(), Recipe(seed=1), Recipe(loss=LossConfig(name="ls"))]
    ids = {Page.of(recipe, group).id for recipe in recipes for group in ("compare", "tab_alpha")}
    assert len(ids) == 6


def test_curves_by_step_have_the_means_since_the_last_point(tmp_path: Path) -> None:
    logged: list[tuple[int, float]] = []
    tracker = Tracker(RunDir(tmp_path), print)
    recipe = parse_recipe(TINY, ["tracker=wandb", "log_every=2"])

    def look(global_step: int, loss_sum: float, num_items: float, num_steps: float) -> None:
        log = lambda numbers, step: logged.append((step, numbers["step.loss"]))  # noqa: E731
        meter = EpochMeter(loss_sum=loss_sum, num_items=num_items, num_steps=num_steps)
        stand_in = SimpleNamespace(
            recipe=recipe,
            meter=meter,
            position=SimpleNamespace(global_step=global_step),
            accelerator=SimpleNamespace(log=log),
        )
        tracker.on_step(cast("Trainer", stand_in))

    look(2, 8.0, 4.0, 1)  # the numbers of the second step are not here yet
    look(3, 9.0, 5.0, 2)
    look(4, 38.0, 14.0, 3)
    look(6, 0.0, 0.0, 0)  # another epoch has just begun
    look(8, 5.0, 5.0, 2)
    assert logged == [(2, 2.0), (4, 3.0), (8, 1.0)]


@pytest.mark.parametrize("fails", ["init", "log"])
def test_a_tracker_that_cannot_be_reached_is_said_once_and_training_goes_on(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, fails)
    said: list[str] = []
    reporter = Reporter()
    monkeypatch.setattr(reporter, "say", said.append)
    summary = train(parse_recipe(TINY, ["tracker=wandb"]), tmp_path / "run", reporter=reporter)
    assert [sentence for sentence in said if "tracker" in sentence] == [
        "the tracker cannot be reached (ConnectionError: no route to host); training goes on, and metrics.jsonl has "
        "all numbers"
    ]
    assert summary["epochs"] == 3


def test_an_id_that_a_tracker_chose_is_kept_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def init(self: Accelerator, project: str, config: Any, init_kwargs: Any) -> None:
        asked.append(init_kwargs["mlflow"]["run_id"])

    chosen = SimpleNamespace(info=SimpleNamespace(run_id="c0ffee"))
    monkeypatch.setattr(Accelerator, "init_trackers", init)
    monkeypatch.setattr(Accelerator, "get_tracker", lambda self, name, unwrap: chosen)
    accelerator, run = Accelerator(cpu=True), RunDir(tmp_path)
    for _ in range(3):
        Tracker(run, print).start(accelerator, parse_recipe(TINY, ["tracker=mlflow"]), "compare")
    assert asked == [None, "c0ffee", "c0ffee"]


@pytest.mark.parametrize("tracker", sorted(set(get_args(TrackerName)) - {"comet_ml", "tensorboard"}))
def test_each_tracker_is_told_of_the_run_in_its_own_words(tracker: str) -> None:
    page = Page.of(Recipe(), "compare")
    told = str(page_options(tracker, page, Path("runs/a"), "known"))
    assert any(word in told for word in (page.id[:8], "known", "runs/a"))


def test_steps_cannot_be_logged_without_a_tracker() -> None:
    with pytest.raises(ValueError, match="log_every must go with a tracker; got 5 without one"):
        parse_recipe(TINY, ["log_every=5"])
