"""Lightning: schedule, checkpoints, plain evaluation and what is logged."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from maxsup import MaxSupLoss
from maxsup.monitor import DecompositionMonitor
from maxsup.schedules import Linear
from tests.integration.integrations.captured import Call, captured_calls, example_main, reference_mean
from tests.integration.integrations.launch import run_two_ranks

pl = pytest.importorskip("lightning.pytorch", reason="the extra lightning is not installed")

from maxsup.integrations.lightning import MaxSupCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

NUM_EPOCHS = 3
NUM_BATCHES = 4


class Classifier(pl.LightningModule):
    """A linear classifier that remembers the strength of every training step."""

    def __init__(self, alpha: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Linear(4, 3)
        self.criterion = MaxSupLoss(Linear(0.1, 0.2) if alpha is None else alpha)
        self.alphas: list[tuple[int, float]] = []
        self.validation_losses: list[tuple[float, float]] = []

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        self.alphas.append((self.current_epoch, self.criterion.alpha))
        return self.criterion(self.network(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor]) -> None:
        logits = self.network(batch[0])
        self.validation_losses.append(
            (self.criterion(logits, batch[1]).item(), F.cross_entropy(logits, batch[1]).item())
        )

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def batches(is_mixed: bool = False) -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(8 * NUM_BATCHES, 4, generator=generator)
    labels = torch.randint(3, (len(inputs),), generator=generator)
    target = 0.7 * F.one_hot(labels, 3) + 0.3 * F.one_hot(labels.flip(0), 3) if is_mixed else labels
    return DataLoader(TensorDataset(inputs, target), batch_size=8)


def trainer(*callbacks: Any, library: Any = pl, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    defaults = {"max_epochs": NUM_EPOCHS, "accelerator": "cpu", "logger": False, "num_sanity_val_steps": 0}
    return library.Trainer(callbacks=list(callbacks), **(quiet | defaults | options))


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


def uninterrupted_alphas(**options: Any) -> list[tuple[int, float]]:
    model = Classifier()
    trainer(MaxSupCallback(**options)).fit(model, batches())
    return model.alphas


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


def test_a_module_left_in_evaluation_mode_trains_with_the_penalty() -> None:
    model = Classifier()
    model.eval()
    with captured_calls() as calls:
        trainer(MaxSupCallback()).fit(model, batches())
    assert all(call.is_training for call in calls)
    assert calls[0].value == pytest.approx(reference_mean(calls[0]), abs=1e-5)


class KeepsTrainingMode(Classifier):
    """Does not switch to evaluation by itself."""

    def on_validation_model_eval(self) -> None:
        pass

    on_test_model_eval = on_validation_model_eval


@pytest.mark.parametrize("module", [Classifier, KeepsTrainingMode])
def test_validation_is_plain_cross_entropy(module: type[Classifier]) -> None:
    model = module()
    with captured_calls() as calls:
        trainer(MaxSupCallback()).fit(model, batches(), batches())
    assert len(model.validation_losses) == NUM_EPOCHS * NUM_BATCHES
    assert all(ours == plain for ours, plain in model.validation_losses)
    assert sum(call.is_training for call in calls) == NUM_EPOCHS * NUM_BATCHES


@pytest.mark.parametrize("module", [Classifier, KeepsTrainingMode])
def test_testing_is_plain_cross_entropy_and_leaves_the_mode(module: type[Classifier]) -> None:
    model = module()
    trainer(MaxSupCallback()).test(model, batches(), verbose=False)
    assert all(ours == plain for ours, plain in model.validation_losses)
    assert model.criterion.training


def monitored(calls: list[Call]) -> dict[str, float]:
    monitor = DecompositionMonitor()
    for call in calls:
        monitor.update(call.logits, call.target, call.alpha)
    return monitor.compute()


def test_the_terms_of_the_last_epoch_are_logged() -> None:
    running = trainer(MaxSupCallback())
    with captured_calls() as calls:
        running.fit(Classifier(), batches())
    expected = {f"maxsup/{name}": value for name, value in monitored(calls[-NUM_BATCHES:]).items()}
    logged = {name: value.item() for name, value in running.callback_metrics.items()}
    assert logged == pytest.approx(expected | {"maxsup/alpha": 0.2}, abs=1e-6)


def test_the_monitor_can_be_left_out() -> None:
    running = trainer(MaxSupCallback(monitor=False))
    running.fit(Classifier(), batches())
    assert set(running.callback_metrics) == {"maxsup/alpha"}


def test_the_criterion_is_left_without_hooks() -> None:
    model = Classifier()
    trainer(MaxSupCallback()).fit(model, batches())
    assert not model.criterion._forward_hooks


def test_mixed_labels_are_left_out_of_the_log_with_one_warning() -> None:
    running = trainer(MaxSupCallback())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        running.fit(Classifier(), batches(is_mixed=True))
    assert sum("mixed labels" in str(warning.message) for warning in seen) == 1
    assert running.callback_metrics["maxsup/num_samples"] == 0


class TwoLosses(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.other = MaxSupLoss(0.1)


def test_a_name_chooses_between_two_losses() -> None:
    model = TwoLosses()
    trainer(MaxSupCallback("criterion")).fit(model, batches())
    assert model.alphas[-1][1] == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("name", ["network", "nothing"])
def test_a_name_without_a_loss_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"must name a loss of maxsup on Classifier; got '{name}'"):
        trainer(MaxSupCallback(name)).fit(Classifier(), batches())


def test_two_losses_without_a_name_are_refused() -> None:
    with pytest.raises(ValueError, match="TwoLosses must hold one loss of maxsup; got 2"):
        trainer(MaxSupCallback()).fit(TwoLosses(), batches())


def test_a_run_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be at least 2.+got a run without a known end. Set max_epochs"):
        trainer(MaxSupCallback(), max_epochs=-1, max_steps=5).fit(Classifier(), batches())


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


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_log_the_terms_of_both(tmp_path: Path) -> None:
    run_two_ranks("tests.integration.integrations.two_rank_lightning", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    # Two batches of eight each: the means of both are those of one process with batches of sixteen.
    alone = Classifier()
    single = trainer(MaxSupCallback())
    single.fit(alone, DataLoader(batches().dataset, batch_size=16))
    for name, value in alone.network.state_dict().items():
        torch.testing.assert_close(torch.tensor(found["weights"][name]), value, rtol=1e-5, atol=1e-6)
    expected = {name: value.item() for name, value in single.logged_metrics.items()}
    assert found["logged"] == pytest.approx(expected, rel=1e-5)
    assert expected["maxsup/num_samples"] == 32
