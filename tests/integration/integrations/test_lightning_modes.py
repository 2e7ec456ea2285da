"""Lightning: plain evaluation, what is logged, and which loss is looked after."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from maxsup import MaxSupLoss
from maxsup.losses import OnlineLabelSmoothingLoss
from maxsup.monitor import DecompositionMonitor
from tests.integration.integrations.captured import Call, captured_calls, reference_mean
from tests.integration.integrations.launch import run_two_ranks
from tests.integration.integrations.tiny_lightning import (
    NUM_BATCHES,
    NUM_EPOCHS,
    Classifier,
    MaxSupCallback,
    batches,
    trainer,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class KeepsTrainingMode(Classifier):
    """Does not switch to evaluation by itself."""

    def on_validation_model_eval(self) -> None:
        pass

    on_test_model_eval = on_validation_model_eval


def test_a_module_left_in_evaluation_mode_trains_with_the_penalty() -> None:
    model = Classifier()
    model.eval()
    with captured_calls() as calls:
        trainer(MaxSupCallback()).fit(model, batches())
    assert all(call.is_training for call in calls)
    assert calls[0].value == pytest.approx(reference_mean(calls[0]), abs=1e-5)


@pytest.mark.parametrize("module", [Classifier, KeepsTrainingMode])
def test_validation_is_plain_cross_entropy(module: type[Classifier]) -> None:
    model = module()
    with captured_calls() as calls:
        trainer(MaxSupCallback()).fit(model, batches(), batches())
    assert len(model.validation_losses) == NUM_EPOCHS * NUM_BATCHES
    assert all(ours == plain for ours, plain in model.validation_losses)
    assert sum(call.is_training for call in calls) == NUM_EPOCHS * NUM_BATCHES


class Predicts(KeepsTrainingMode):
    """Reports the loss as a prediction, without switching to evaluation."""

    def predict_step(self, batch: tuple[Tensor, Tensor]) -> None:
        self.validation_step(batch)

    def on_predict_model_eval(self) -> None:
        pass


@pytest.mark.parametrize(("module", "way"), [(Classifier, "test"), (KeepsTrainingMode, "test"), (Predicts, "predict")])
def test_testing_and_prediction_are_plain_cross_entropy_and_leave_the_mode(module: type[Classifier], way: str) -> None:
    model = module()
    getattr(trainer(MaxSupCallback()), way)(model, batches())
    assert len(model.validation_losses) == NUM_BATCHES
    assert all(ours == plain for ours, plain in model.validation_losses)
    assert model.criterion.training


def monitored(calls: list[Call], z_loss: float = 0.0) -> dict[str, float]:
    monitor = DecompositionMonitor(z_loss=z_loss)
    for call in calls:
        monitor.update(call.logits, call.target, call.alpha)
    return monitor.compute()


def test_the_terms_of_the_last_epoch_are_logged() -> None:
    running, model = trainer(MaxSupCallback()), Classifier()
    model.criterion.z_loss = 0.01
    with captured_calls() as calls:
        running.fit(model, batches())
    expected = {f"maxsup/{name}": value for name, value in monitored(calls[-NUM_BATCHES:], z_loss=0.01).items()}
    assert expected["maxsup/z_loss"] > 0
    logged = {name: value.item() for name, value in running.callback_metrics.items()}
    assert logged == pytest.approx(expected | {"maxsup/alpha": 0.2}, abs=1e-6)


class EndsEpochs(Classifier):
    """Ends the epochs of its loss itself too."""

    def on_train_epoch_end(self) -> None:
        self.criterion.end_epoch()


@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
@pytest.mark.parametrize("module", [Classifier, EndsEpochs])
def test_a_loss_that_learns_from_epochs_learns(module: type[Classifier], precision: str) -> None:
    model = module()
    model.criterion = OnlineLabelSmoothingLoss()
    trainer(MaxSupCallback(), precision=precision).fit(model, batches())
    matrix = model.criterion.matrix
    assert matrix.dtype == torch.float32
    assert torch.allclose(matrix.sum(dim=1), torch.ones(3), rtol=1e-5, atol=0)
    assert (matrix.diagonal() > 1 / 3).any()


def test_the_monitor_can_be_left_out() -> None:
    running = trainer(MaxSupCallback(monitor=False))
    running.fit(Classifier(), batches())
    assert set(running.callback_metrics) == {"maxsup/alpha"}


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


class NeverCalls(Classifier):
    """Holds the loss and trains with another."""

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(self.network(batch[0]), batch[1])


def test_a_loss_that_is_never_called_stops_the_training() -> None:
    model = NeverCalls(0.1)
    with pytest.raises(RuntimeError, match=r"must be called in every training step; got no call.+of NeverCalls"):
        trainer(MaxSupCallback()).fit(model, batches())
    assert not model.criterion._forward_hooks


class SkipsFirst(Classifier):
    """Finds its first batch unusable."""

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor | None:
        return None if batch_idx == 0 else super().training_step(batch)


def test_a_batch_that_is_skipped_is_no_loss_that_is_never_called() -> None:
    model = SkipsFirst()
    trainer(MaxSupCallback()).fit(model, batches())
    assert len(model.alphas) == NUM_EPOCHS * (NUM_BATCHES - 1)


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
