"""Plain numbers, whatever the batches."""

import inspect
import math

import pytest
import torch
from torch import nn

from maxsup.core.errors import NonFiniteError
from maxsup.lab.data import Batch
from maxsup.lab.tasks import evaluate
from maxsup.metrics.facts import FACTS
from tests.unit.metrics.cases import usual

NAMES = ("accuracy", "accuracy_top5", "nll", "brier", "ece", "confidence_correct", "confidence_wrong")


class Stored:
    """A pipeline of given logits: the images are the logits."""

    num_missing = 0

    def __init__(self, logits: torch.Tensor, labels: torch.Tensor, batch_size: int) -> None:
        self.parts = list(zip(logits.split(batch_size), labels.split(batch_size), strict=True))
        self.num_batches = len(self.parts)

    def epoch(self, epoch: int, start: int = 0, device: torch.device | None = None):
        for logits, labels in self.parts[start:]:
            yield Batch(logits, labels, labels, torch.arange(len(labels)))


class Same(nn.Module):
    """Gives back its input; has a parameter so that it has a device, and notes its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))
        self.modes: list[bool] = []

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        self.modes.append(self.training)
        return logits


@pytest.mark.parametrize("batch_size", [400, 64, 1])
def test_numbers_are_those_of_the_metrics_over_the_whole_split(batch_size: int) -> None:
    predictions = usual()
    result = evaluate(Same(), Stored(*predictions, batch_size), split="test")
    expected = {name: FACTS[name].function(*predictions) for name in NAMES}
    assert (result["split"], result["n"], result["missing"]) == ("test", 400, 0)
    assert {key: result[key] for key in expected} == pytest.approx(expected, abs=1e-12)


def test_there_is_no_loss_among_the_arguments() -> None:
    names = set(inspect.signature(evaluate).parameters)
    assert names.isdisjoint({"criterion", "loss", "loss_fn", "objective"})


def test_every_module_comes_back_in_the_mode_it_had() -> None:
    model = nn.Sequential(Same(), nn.BatchNorm1d(3), nn.Dropout())
    model[1].eval()
    evaluate(model, Stored(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), 2))
    assert [module.training for module in model] == [True, False, True]
    assert model[0].modes == [False, False]


def test_what_is_undefined_is_nan() -> None:
    result = evaluate(Same(), Stored(torch.eye(3) * 9, torch.arange(3), 3))
    assert result["accuracy"] == 1.0
    assert math.isnan(result["confidence_wrong"])


def test_fewer_than_five_classes_have_a_top_five_of_one() -> None:
    assert evaluate(Same(), Stored(torch.randn(9, 3), torch.zeros(9, dtype=torch.int64), 3))["accuracy_top5"] == 1.0


def test_images_that_could_not_be_read_are_counted() -> None:
    pipeline = Stored(torch.randn(4, 3), torch.tensor([0, 1, 2, 0]), 2)
    pipeline.num_missing = 2
    assert evaluate(Same(), pipeline)["missing"] == 2


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_gives_no_numbers_is_refused(value: float) -> None:
    logits = torch.randn(4, 3)
    logits[2, 1] = value
    with pytest.raises(NonFiniteError, match="logits must be finite; got nan or inf on split 'val'"):
        evaluate(Same(), Stored(logits, torch.tensor([0, 1, 2, 0]), 2))
