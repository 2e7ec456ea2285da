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
from tests.integration.integrations.captured import captured_calls, example_main, reference_mean
from tests.integration.integrations.tiny_lightning import (
    NUM_BATCHES,
    NUM_EPOCHS,
    Classifier,
    MaxSupCallback,
    batches,
    pl,
    trainer,
    uninterrupted_alphas,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class StopAfter(pl.Callback):
    """Save a checkpoint after so many steps and stop there."""

    def __init__(self, num_steps: int, path: Path) -> None:
        self.num_steps, self.path = num_steps, path

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        if trainer.global_step == self.num_steps:
            trainer.save_checkpoint(self.path)
            trainer.should_stop = True


class StopAfterEpoch(pl.Callback):
    """Save a checkpoint when the first epoch is over and stop there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        trainer.save_checkpoint(self.path)


@pytest.mark.slow
def test_the_example_trains_with_the_reference_loss() -> None:
    with captured_calls() as calls:
        losses = example_main("lightning_training")(num_epochs=3, enable_progress_bar=False)
    first = next(call for call in calls if call.is_training)
    assert losses[0] == pytest.approx(reference_mean(first), abs=1e-5)
    assert losses[-1] < 0.8 * losses[0]


def test_the_schedule_goes_by_epochs() -> None:
    alphas = dict(uninterrupted_alphas())
    assert alphas == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)


def test_the_schedule_goes_by_steps() -> None:
    alphas = [alpha for _, alpha in uninterrupted_alphas(per_step=True)]
    num_steps = NUM_EPOCHS * NUM_BATCHES
    assert alphas == pytest.approx([0.1 + 0.1 * step / (num_steps - 1) for step in range(num_steps)], abs=1e-12)


def test_steps_are_those_of_the_optimizer() -> None:
    model = Classifier()
    trainer(MaxSupCallback(per_step=True), accumulate_grad_batches=2).fit(model, batches())
    alphas = [alpha for _, alpha in model.alphas]
    assert alphas == pytest.approx([0.1 + 0.1 * (batch // 2) / 5 for batch in range(12)], abs=1e-12)


@pytest.mark.parametrize("per_step", [False, True])
def test_a_run_that_stopped_after_an_epoch_goes_on_with_the_same_strengths(tmp_path: Path, per_step: bool) -> None:
    path = tmp_path / "last.ckpt"
    first, second = Classifier(), Classifier()
    trainer(MaxSupCallback(per_step=per_step), StopAfterEpoch(path)).fit(first, batches())
    trainer(MaxSupCallback(per_step=per_step)).fit(second, batches(), ckpt_path=path)
    assert {epoch for epoch, _ in first.alphas} == {0}
    assert {epoch for epoch, _ in second.alphas} == {1, 2}
    assert first.alphas + second.alphas == uninterrupted_alphas(per_step=per_step)


@pytest.mark.parametrize("per_step", [False, True])
def test_a_run_that_stopped_within_an_epoch_goes_on_with_the_same_strengths(tmp_path: Path, per_step: bool) -> None:
    path = tmp_path / "middle.ckpt"
    first, second = Classifier(), Classifier()
    trainer(MaxSupCallback(per_step=per_step), StopAfter(NUM_BATCHES + 2, path)).fit(first, batches())
    trainer(MaxSupCallback(per_step=per_step)).fit(second, batches(), ckpt_path=path)
    expected = uninterrupted_alphas(per_step=per_step)
    assert first.alphas[: NUM_BATCHES + 2] + second.alphas == expected


def test_the_loss_itself_keeps_its_progress_in_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    trainer(MaxSupCallback(), StopAfter(2 * NUM_BATCHES, path)).fit(Classifier(), batches())
    restored = Classifier.load_from_checkpoint(path, weights_only=False)
    assert restored.criterion.alpha == pytest.approx(0.15, abs=1e-12)


def test_a_longer_run_than_the_checkpoint_knows_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    trainer(MaxSupCallback(), StopAfterEpoch(path)).fit(Classifier(), batches())
    with pytest.warns(UserWarning, match="a run of 3 epochs and this one has 5"):
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


@pytest.mark.parametrize("max_epochs", [None, 1000])
@pytest.mark.parametrize("num_parts", [1, 2])
def test_steps_that_end_a_run_early_shorten_the_schedule(max_epochs: int | None, num_parts: int) -> None:
    model = Classifier()
    running = trainer(
        MaxSupCallback(), max_epochs=max_epochs, max_steps=10 // num_parts, accumulate_grad_batches=num_parts
    )
    running.fit(model, batches())
    assert dict(model.alphas) == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)


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
    model = ByHand()
    trainer(MaxSupCallback(), max_steps=1000).fit(model, batches())
    assert dict(model.alphas) == pytest.approx({0: 0.1, 1: 0.15, 2: 0.2}, abs=1e-12)


def test_a_second_fit_starts_the_schedule_anew() -> None:
    model, callback = Classifier(), MaxSupCallback()
    for _ in range(2):
        trainer(callback).fit(model, batches())
    half = len(model.alphas) // 2
    assert model.alphas[:half] == model.alphas[half:] == uninterrupted_alphas()
    assert not model.criterion._forward_hooks


def test_a_constant_strength_needs_no_end() -> None:
    model = Classifier(0.3)
    trainer(MaxSupCallback(), max_epochs=-1, max_steps=5).fit(model, batches())
    assert [alpha for _, alpha in model.alphas] == [0.3] * 5


def test_a_schedule_over_a_single_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be at least 2.+got 1. Set max_epochs"):
        trainer(MaxSupCallback(), max_epochs=1).fit(Classifier(), batches())


def test_a_trial_of_one_batch_may_stay_at_the_first_strength() -> None:
    model = Classifier()
    trainer(MaxSupCallback(), fast_dev_run=True).fit(model, batches(), batches())
    assert model.alphas == [(0, 0.1)]


def test_steps_may_be_all_that_is_known() -> None:
    model = Classifier()
    trainer(MaxSupCallback(per_step=True), max_epochs=-1, max_steps=5).fit(model, batches())
    assert [alpha for _, alpha in model.alphas] == pytest.approx([0.1, 0.125, 0.15, 0.175, 0.2], abs=1e-12)


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
