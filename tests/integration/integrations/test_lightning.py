"""Lightning: the schedule by epochs and by steps, and checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from maxsup import MaxSupLoss
from maxsup.schedules import Linear
from tests.integration.integrations.tiny_lightning import (
    NUM_BATCHES,
    Classifier,
    MaxSupCallback,
    batches,
    pl,
    trainer,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class StopAfter(pl.Callback):
    """Save a checkpoint after so many steps, or with None when the first epoch is over, and stop there."""

    def __init__(self, num_steps: int | None, path: Path) -> None:
        self.num_steps, self.path = num_steps, path

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == self.num_steps:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        trainer.should_stop = trainer.should_stop or self.num_steps is None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.num_steps is None:
            trainer.save_checkpoint(self.path)


def alphas_of(model: Classifier, per_step: bool = False, **options: Any) -> list[tuple[int, float]]:
    """Epoch and strength of every training step."""
    trainer(MaxSupCallback(per_step=per_step), **options).fit(model, batches())
    return model.alphas


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_epochs": None, "max_steps": 10},
        {"max_epochs": 1000, "max_steps": 10},
        {"max_epochs": None, "max_steps": 5, "accumulate_grad_batches": 2},
        {"max_epochs": 1000, "max_steps": 5, "accumulate_grad_batches": 2},
    ],
    ids=["epochs", "steps", "steps end it", "accumulated steps", "accumulated steps end it"],
)
def test_the_schedule_goes_by_the_epochs_there_will_be(options: dict[str, Any]) -> None:
    assert dict(alphas_of(Classifier(), **options)) == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "progress"),
    [
        ({}, [step / 11 for step in range(12)]),
        ({"accumulate_grad_batches": 2}, [batch // 2 / 5 for batch in range(12)]),
        ({"max_epochs": -1, "max_steps": 5}, [0.0, 0.25, 0.5, 0.75, 1.0]),
    ],
    ids=["steps", "steps of the optimizer", "steps are all that is known"],
)
def test_the_schedule_goes_by_steps(options: dict[str, Any], progress: list[float]) -> None:
    alphas = [alpha for _, alpha in alphas_of(Classifier(), per_step=True, **options)]
    assert alphas == pytest.approx([0.1 + 0.1 * each for each in progress], abs=1e-12)


@pytest.mark.parametrize("num_steps", [None, NUM_BATCHES + 2], ids=["after an epoch", "within an epoch"])
@pytest.mark.parametrize("per_step", [False, True])
def test_a_run_that_stopped_goes_on_with_the_same_strengths(
    tmp_path: Path, per_step: bool, num_steps: int | None
) -> None:
    path = tmp_path / "last.ckpt"
    first, second = Classifier(), Classifier()
    trainer(MaxSupCallback(per_step=per_step), StopAfter(num_steps, path)).fit(first, batches())
    trainer(MaxSupCallback(per_step=per_step)).fit(second, batches(), ckpt_path=path)
    before = first.alphas[: num_steps or NUM_BATCHES]
    assert before + second.alphas == alphas_of(Classifier(), per_step=per_step)


def test_the_loss_itself_keeps_its_progress_in_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    trainer(MaxSupCallback(), StopAfter(2 * NUM_BATCHES, path)).fit(Classifier(), batches())
    restored = Classifier.load_from_checkpoint(path, weights_only=False)
    assert restored.criterion.alpha == pytest.approx(0.15, abs=1e-12)


def test_a_longer_run_than_the_checkpoint_knows_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    trainer(MaxSupCallback(), StopAfter(None, path)).fit(Classifier(), batches())
    with pytest.warns(UserWarning, match="a run of 3 epochs and this run has 5"):
        trainer(MaxSupCallback(), max_epochs=5).fit(Classifier(), batches(), ckpt_path=path)


class Endless(IterableDataset):
    """Data without a length."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        data = batches().dataset
        return (data[index] for index in range(len(data)))


def test_a_run_without_an_end_is_refused() -> None:
    data = DataLoader(Endless(), batch_size=8)
    with pytest.raises(ValueError, match=r"must be at least 2.+got a run without a known end. Set max_epochs"):
        trainer(MaxSupCallback(), max_epochs=-1, max_steps=5).fit(Classifier(), data)


class ByHand(Classifier):
    """Takes its own steps, and Lightning counts two a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: tuple[Tensor, Tensor]) -> None:
        for optimizer in self.optimizers():
            loss = super().training_step(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [super(ByHand, self).configure_optimizers() for _ in range(2)]


def test_manual_optimization_goes_by_epochs() -> None:
    assert dict(alphas_of(ByHand(), max_steps=1000)) == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)


def test_a_second_fit_starts_the_schedule_anew() -> None:
    model, callback = Classifier(), MaxSupCallback()
    for _ in range(2):
        trainer(callback).fit(model, batches())
    half = len(model.alphas) // 2
    assert model.alphas[:half] == model.alphas[half:] == alphas_of(Classifier())
    assert not model.criterion._forward_hooks


def test_a_constant_strength_needs_no_end() -> None:
    alphas = alphas_of(Classifier(0.3), max_epochs=-1, max_steps=5)
    assert [alpha for _, alpha in alphas] == [0.3] * 5


def test_a_schedule_over_a_single_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be at least 2.+got 1. Set max_epochs"):
        trainer(MaxSupCallback(), max_epochs=1).fit(Classifier(), batches())


def test_a_trial_of_one_batch_may_stay_at_the_first_strength() -> None:
    model = Classifier()
    trainer(MaxSupCallback(), fast_dev_run=True).fit(model, batches(), batches())
    assert model.alphas == [(0, 0.1)]


def test_steps_of_manual_optimization_are_refused() -> None:
    model = Classifier()
    model.automatic_optimization = False
    with pytest.raises(ValueError, match="per_step must be off with manual optimization"):
        trainer(MaxSupCallback(per_step=True)).fit(model, batches())


@pytest.mark.slow
def test_the_older_package_name_works_too() -> None:
    library = pytest.importorskip("pytorch_lightning")

    class Older(library.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.criterion, self.alphas = nn.Linear(4, 3), MaxSupLoss(Linear(0.1, 0.2)), []

        training_step = Classifier.training_step
        configure_optimizers = Classifier.configure_optimizers

    model = Older()
    trainer(MaxSupCallback(), library=library).fit(model, batches())
    assert dict(model.alphas) == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)
