from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from maxsup.lab.models import create_model, describe_models, factory_of, list_models, model_name
from maxsup.lab.models.networks.small_cnn import small_cnn


class Net(nn.Module):
    def __init__(self, num_classes: int, in_channels: int = 3, width: int = 5) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(in_channels, width, 3), nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.last(self.first(images).relu().mean((2, 3)))
        return logits


class Probabilities(Net):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(1)


def keywords(**options: Any) -> nn.Module:
    return Net(**options)


def alone() -> nn.Module:
    return Net(10)


@pytest.mark.parametrize("factory", [Net, partial(Net, width=7), keywords, lambda count: Net(count), alone])
def test_a_network_of_ones_own_gives_its_logits_and_the_features_before_them(factory: Any) -> None:
    name = model_name(factory)
    torch.manual_seed(0)
    model = create_model(name, 10, image_size=8).eval()
    torch.manual_seed(0)
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    expected = {alone: alone, keywords: partial(Net, 10)}.get(factory, partial(factory, 10))()
    assert torch.equal(model(images), expected.eval()(images))
    assert torch.equal(model.head(model.features(images)), model(images))


def test_the_number_of_channels_is_passed_on_where_it_is_asked_for() -> None:
    assert create_model(model_name(Net), 4, in_channels=1)(torch.zeros(2, 1, 9, 9)).shape == (2, 4)


def test_the_same_layers_have_the_same_name_and_others_another() -> None:
    assert model_name(lambda count: Net(count)) == model_name(lambda count: Net(count))
    assert model_name(lambda count: Net(count)) != model_name(lambda count: Net(count, width=6))
    assert model_name(Net).startswith("python:Net-")


def test_a_function_defined_anew_takes_the_place_of_the_old_one() -> None:
    first, second = (lambda count: Net(count), lambda count: Net(count))
    name = model_name(first)
    assert factory_of(name) is first
    model_name(second)
    assert factory_of(name) is second


def test_a_network_of_ones_own_is_not_listed_among_the_models_of_this_package() -> None:
    name = model_name(Net)
    assert name not in list_models()
    assert name not in [entry["name"] for entry in describe_models()]


def test_a_model_of_this_package_stays_as_it_is() -> None:
    assert type(create_model(model_name(small_cnn), 4)).__name__ == "Classifier"


def test_naming_a_network_does_not_touch_the_random_numbers_of_others() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model_name(Net)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Net(3), "model must be a name or a function that makes a network.*got Net"),
        (3, "got int"),
        (lambda count: None, "must make an nn.Module; got NoneType"),
    ],
)
def test_what_is_no_function_that_makes_a_network_is_refused(model: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        model_name(model)


def test_a_network_that_ends_in_a_softmax_is_refused() -> None:
    with pytest.raises(ValueError, match="Leave out what follows, such as a softmax"):
        create_model(model_name(Probabilities), 3)


def test_a_name_of_another_session_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"Pass the function again, as model=\.\.\., from Python"):
        create_model("python:Net-00000000", 3)
