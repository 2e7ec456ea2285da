"""The changed line and the trap of docs/integrations/trainers.md, in the library itself where it is installed."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from maxsup import MaxSupLoss
from maxsup.functional import maxsup_cross_entropy
from maxsup.integrations import follow_model

ALPHA, NUM_SAMPLES, NUM_CLASSES = 0.5, 12, 3
ABSENT = "{} is not installed; docs/integrations/trainers.md says with which version this was run"


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=ABSENT.format(name.partition(".")[0]))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, NUM_CLASSES)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(NUM_SAMPLES, 4, generator=generator), torch.arange(NUM_SAMPLES) % NUM_CLASSES


def stepped(alpha: float = ALPHA) -> tuple[nn.Module, float]:
    """The network after one step of length 1 over all samples, and the loss before it."""
    model, (inputs, labels) = network(), data()
    loss = maxsup_cross_entropy(model(inputs), labels, alpha)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= parameter.grad
    return model, loss.item()


def plain_loss(model: nn.Module) -> float:
    inputs, labels = data()
    with torch.no_grad():
        return F.cross_entropy(model(inputs), labels).item()


def assert_same(model: nn.Module, other: nn.Module) -> None:
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


# Ignite


def test_ignite_trains_the_objective_and_its_metric_is_plain_once_the_criterion_follows() -> None:
    library("ignite")
    from ignite.engine import create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Loss

    model, criterion = network(), MaxSupLoss(alpha=ALPHA)
    batches = DataLoader(TensorDataset(*data()), batch_size=NUM_SAMPLES)
    trainer = create_supervised_trainer(model, torch.optim.SGD(model.parameters(), lr=1.0), criterion)
    evaluator = create_supervised_evaluator(model, metrics={"nll": Loss(criterion)})
    state = trainer.run(batches, max_epochs=1)
    expected, objective = stepped()
    assert state.output == pytest.approx(objective, abs=1e-6)
    assert_same(model, expected)
    with pytest.warns(
        UserWarning, match=r"training objective\. Call criterion\.eval\(\) first, or once .+follow_model"
    ):
        trapped = evaluator.run(batches).metrics["nll"]
    follow_model(criterion, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluator.run(batches).metrics["nll"] == pytest.approx(plain_loss(expected), abs=1e-6)
    assert trapped > plain_loss(expected) + 0.01
    trainer.run(batches, max_epochs=2)
    assert criterion.training


# fastai


@pytest.mark.slow
def test_fastai_trains_the_objective_and_its_valid_loss_is_plain_once_the_criterion_follows() -> None:
    library("fastai.learner")
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import SGD

    model, criterion = network(), MaxSupLoss(alpha=ALPHA)
    batches = DataLoader(TensorDataset(*data()), batch_size=NUM_SAMPLES)
    learner = Learner(DataLoaders(batches, batches), model, loss_func=criterion, opt_func=SGD, lr=1.0, wd=0.0)
    follow_model(criterion, model)
    with learner.no_logging(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        learner.fit(1)
    expected, objective = stepped()
    train_loss, valid_loss = learner.recorder.values[0]
    assert_same(learner.model, expected)
    assert train_loss == pytest.approx(objective, abs=1e-5)
    assert valid_loss == pytest.approx(plain_loss(expected), abs=1e-5)
    outputs, _ = learner.get_preds(dl=batches, act=partial_softmax)
    assert torch.allclose(outputs.sum(dim=1), torch.ones(NUM_SAMPLES), atol=1e-5)


def partial_softmax(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1)


# skorch


def test_skorch_trains_the_objective_validates_plainly_and_predicts_probabilities() -> None:
    library("skorch")
    from sklearn.base import clone
    from skorch.helper import predefined_split

    from maxsup.integrations.skorch import RegularizedClassifier

    inputs, labels = data()
    net = RegularizedClassifier(
        network(), criterion__alpha=ALPHA, max_epochs=1, lr=1.0, batch_size=NUM_SAMPLES, verbose=0,
        train_split=predefined_split(TensorDataset(inputs, labels)), iterator_train__shuffle=False,
    )  # fmt: skip
    net = clone(net).fit(inputs.numpy(), labels.numpy())
    expected, objective = stepped()
    assert_same(net.module_, expected)
    assert net.history[-1, "train_loss"] == pytest.approx(objective, abs=1e-6)
    assert net.history[-1, "valid_loss"] == pytest.approx(plain_loss(expected), abs=1e-6)
    with torch.no_grad():
        probabilities = expected(inputs).softmax(dim=1).numpy()
    assert np.allclose(net.predict_proba(inputs.numpy()), probabilities, atol=1e-6)


# Composer


@pytest.mark.slow
def test_composer_adds_up_micro_batches() -> None:
    library("composer")
    from composer import Trainer
    from composer.models import ComposerClassifier

    model = network()
    wrapped = ComposerClassifier(model, num_classes=NUM_CLASSES, loss_fn=MaxSupLoss(alpha=ALPHA))
    batches = DataLoader(TensorDataset(*data()), batch_size=NUM_SAMPLES)
    Trainer(
        model=wrapped, train_dataloader=batches, optimizers=torch.optim.SGD(model.parameters(), lr=1.0),
        max_duration="1ba", device_train_microbatch_size=4, device="cpu", progress_bar=False,
    ).fit()  # fmt: skip
    assert_same(model, stepped()[0])


# Ultralytics


@pytest.mark.slow
def test_ultralytics_classifies_with_the_criterion_of_a_model_of_its_own() -> None:
    library("ultralytics")
    from ultralytics.nn.tasks import ClassificationModel

    class MaxSupClassification(ClassificationModel):
        def init_criterion(self) -> Any:
            criterion = MaxSupLoss(alpha=ALPHA)

            def loss(preds: Any, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
                # In evaluation predictions are a tuple of probabilities and logits.
                logits = preds[1] if isinstance(preds, list | tuple) else preds
                value = criterion.train(self.training)(logits, batch["cls"])
                return value, {"loss": value.detach()}

            return loss

    model = MaxSupClassification("yolo11n-cls.yaml", nc=NUM_CLASSES, verbose=False)
    images, labels = torch.rand(4, 3, 32, 32), torch.arange(4) % NUM_CLASSES
    logits = model.train()(images)
    objective, _ = model.loss({"img": images, "cls": labels}, logits)
    assert objective.item() == pytest.approx(maxsup_cross_entropy(logits, labels, ALPHA).item(), abs=1e-6)
    with torch.no_grad():
        outputs = model.eval()(images)
        value, _ = model.loss({"img": images, "cls": labels}, outputs)
    assert value.item() == pytest.approx(F.cross_entropy(outputs[1], labels).item(), abs=1e-6)


# mmpretrain


@pytest.mark.slow
def test_a_head_of_mmpretrain_takes_a_registered_wrapper() -> None:
    library("mmpretrain.models")
    from mmpretrain.models import LinearClsHead
    from mmpretrain.registry import MODELS
    from mmpretrain.structures import DataSample

    @MODELS.register_module()
    class MaxSupHeadLoss(nn.Module):
        def __init__(self, alpha: float = 0.1) -> None:
            super().__init__()
            self.criterion = MaxSupLoss(alpha=alpha)

        def forward(self, cls_score: Tensor, label: Tensor, avg_factor: float | None = None, **others: Any) -> Tensor:
            return self.criterion(cls_score, label, num_items=avg_factor)

    torch.manual_seed(0)
    head = LinearClsHead(num_classes=NUM_CLASSES, in_channels=4, loss={"type": "MaxSupHeadLoss", "alpha": ALPHA})
    inputs, labels = data()
    samples = [DataSample().set_gt_label(label) for label in labels]
    found = head.loss((inputs,), samples)["loss"]
    assert found.item() == pytest.approx(maxsup_cross_entropy(head.fc(inputs), labels, ALPHA).item(), abs=1e-6)


# torchtitan


class _BaseLoss:
    """How torchtitan calls a loss: sums are divided by the tokens of all processes; metrics come beside."""

    def _maybe_compile(self, compile_config: Any) -> None:
        assert compile_config is None

    def __call__(
        self, pred: Tensor, labels: Tensor, global_valid_tokens: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        loss = self.fn(pred, labels)
        return loss if global_valid_tokens is None else loss / global_valid_tokens, {}


def loss_of_the_page(base: type = _BaseLoss, mesh: Any = None) -> type:
    """The class that docs/integrations/trainers.md shows, where ``mesh`` is the current one."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "integrations" / "trainers.md").read_text()
    code = page.partition("## torchtitan")[2].partition("```python\n")[2].partition("```")[0]
    names = {"BaseLoss": base, "maxsup_cross_entropy": maxsup_cross_entropy, "current_spmd_mesh": lambda: mesh}
    exec("\n".join(line for line in code.splitlines() if not line.startswith("from torchtitan")), names)
    return names["MaxSup"]


def assert_divides_by_the_count(loss: Any, *shape: int) -> None:
    logits, labels = torch.randn(*shape, NUM_CLASSES), torch.randint(NUM_CLASSES, shape)
    labels[..., :2] = -100
    found, _ = loss(logits, labels, (labels != -100).sum())
    expected = maxsup_cross_entropy(logits.flatten(0, -2), labels.flatten(), 0.1)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("shape", [(2, 5), (6,)], ids=["sequences", "folded"])
def test_the_loss_of_torchtitan_takes_sequences_and_folded_tokens(shape: tuple[int, ...]) -> None:
    assert_divides_by_the_count(loss_of_the_page()(None), *shape)


@pytest.mark.slow
def test_torchtitan_divides_a_sum_by_its_own_count() -> None:
    library("torchtitan")
    from torchtitan.components.loss import BaseLoss

    made = loss_of_the_page(BaseLoss)
    assert_divides_by_the_count(made(made.Config()), 2, 5)


# axolotl


@pytest.mark.slow
def test_a_plugin_of_axolotl_puts_the_loss_into_the_head(tmp_path: Path) -> None:
    library("axolotl.integrations.base")
    from axolotl.integrations.base import BasePlugin

    from maxsup.integrations.huggingface import use_linear_loss
    from tests.integration.integrations.tiny_transformers import created, samples

    class MaxSupPlugin(BasePlugin):
        def post_model_load(self, cfg: Any, model: nn.Module) -> None:
            use_linear_loss(model, MaxSupLoss(alpha=ALPHA))

    model = created("llama").train()
    MaxSupPlugin().post_model_load(SimpleNamespace(), model)
    row = samples("llama")[0]
    found = model(input_ids=row["input_ids"][None], labels=row["labels"][None]).loss
    logits = model(input_ids=row["input_ids"][None]).logits[0, :-1]
    assert found.item() == pytest.approx(maxsup_cross_entropy(logits, row["labels"][1:], ALPHA).item(), abs=1e-6)
