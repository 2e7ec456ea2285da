"""Every model keeps the promises of the interface: ours, and five families of timm built without a download."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from maxsup.lab.models import MODELS, Classifier, create_model, describe_models, list_models

NUM_CLASSES = 7


class Case(NamedTuple):
    """A model, the side of its images, its features, and whether pooling and head are linear in the feature map."""

    name: str
    image_size: int
    num_features: int
    is_linear: bool


OWN = [
    Case("airnet", 32, 128, False),
    Case("mobilenetv2_cifar", 32, 1280, True),
    Case("resnet101_cifar", 32, 2048, True),
    Case("resnet18_cifar", 32, 512, True),
    Case("resnet20", 32, 64, True),
    Case("resnet32", 32, 64, True),
    Case("resnet50_cifar", 32, 2048, True),
    Case("resnet56", 32, 64, True),
    Case("small_cnn", 32, 64, True),
    Case("tiny_vit", 32, 128, False),
]
TIMM = [
    Case("resnet18", 64, 512, True),
    Case("timm:resnet50", 64, 2048, True),
    Case("mobilenetv2_100", 64, 1280, True),
    Case("deit_small_patch16_224", 64, 384, False),
    Case("swin_tiny_patch4_window7_224", 64, 768, True),
]
CASES = [*OWN, *TIMM]

LARGE = {"deit_small_patch16_224", "resnet101_cifar", "resnet50_cifar", "swin_tiny_patch4_window7_224", "timm:resnet50"}


def over(cases: list[Case]) -> pytest.MarkDecorator:
    """One test a model; networks of more than 20 million parameters take seconds each."""
    marks = {name: pytest.mark.slow for name in LARGE}
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name, marks=marks.get(case.name, ())) for case in cases]
    )


def made(case: Case, **options: object) -> Classifier:
    return create_model(case.name, NUM_CLASSES, image_size=case.image_size, **options)


@cache
def model_of(case: Case) -> Classifier:
    """A model in evaluation mode that the tests share and leave as it is."""
    torch.manual_seed(1)
    return made(case).eval().requires_grad_(False)


def images_for(case: Case, in_channels: int = 3) -> Tensor:
    return torch.randn(2, in_channels, case.image_size, case.image_size)


def test_ten_models_are_registered_and_fifteen_are_tested():
    assert list_models() == sorted(case.name for case in OWN)
    assert (len(OWN), len(TIMM)) == (10, 5)


@pytest.mark.parametrize("name", list_models())
def test_a_registered_model_explains_itself(name: str):
    description = next(entry for entry in describe_models() if entry["name"] == name)
    assert MODELS[name].__doc__
    assert description.keys() == {"name", "about", "source"}
    assert all(description.values())


@over(CASES)
def test_shapes_are_those_of_the_interface(case: Case):
    model, images = model_of(case), images_for(case)
    dense = model.dense_logits(images)
    assert model(images).shape == (2, NUM_CLASSES)
    assert model.features(images).shape == (2, model.num_features) == (2, case.num_features)
    assert dense.shape[:2] == (2, NUM_CLASSES)
    assert dense.ndim == 4
    assert dense.shape[2] * dense.shape[3] > 1


@over(CASES)
def test_logits_are_the_head_of_the_features_exactly(case: Case):
    model, images = model_of(case), images_for(case)
    assert torch.equal(model(images), model.head(model.features(images)))


@over(CASES)
def test_one_pass_gives_logits_and_dense_logits(case: Case):
    model, images = model_of(case), images_for(case)
    logits, dense = model(images, with_dense=True)
    assert torch.equal(logits, model(images))
    assert torch.equal(dense, model.dense_logits(images))


@over([case for case in CASES if case.is_linear])
def test_the_mean_of_dense_logits_is_the_logits_where_all_is_linear(case: Case):
    model, images = model_of(case), images_for(case)
    logits = model(images)
    difference = (model.dense_logits(images).mean(dim=(2, 3)) - logits).abs().max()
    assert difference <= 1e-5 * logits.abs().max().clamp(min=1.0)


@over(CASES)
def test_the_cam_layer_is_part_of_the_model_and_gives_a_map_that_has_a_gradient(case: Case):
    model, images = model_of(case), images_for(case).requires_grad_()
    layer = model.cam_layer()
    seen: list[Tensor] = []
    handle = layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
    logits = model(images)
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), seen)
    grid = model.to_map(gradient)
    assert any(module is layer for module in model.modules())
    assert grid.ndim == 4
    assert grid.shape[2:] == model.dense_logits(images).shape[2:]
    assert grid.abs().sum() > 0


@over(CASES)
def test_weights_come_back_from_a_safetensors_file(case: Case, tmp_path: Path, recwarn: pytest.WarningsRecorder):
    model, images = model_of(case), images_for(case)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = made(case, pretrained=tmp_path / "model.safetensors").eval()
    assert torch.equal(again(images), model(images))
    assert not [warning for warning in recwarn if "head" in str(warning.message)]


@over(CASES)
def test_the_causal_norm_classifier_fits_and_every_parameter_learns(case: Case):
    model = made(case, classifier="tde").train()
    logits = model(images_for(case))
    logits.square().sum().backward()
    assert logits.abs().max() < 16
    assert model.head.mean.abs().sum() > 0
    learnt = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert [name for name, parameter in learnt.items() if parameter.grad is None] == []


@over(OWN)
def test_our_models_take_any_number_of_channels(case: Case):
    model = made(case, in_channels=1).eval()
    assert model(images_for(case, in_channels=1)).shape == (2, NUM_CLASSES)


@over(OWN)
def test_the_seed_decides_the_initial_weights(case: Case):
    torch.manual_seed(1)
    again = made(case).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model_of(case).state_dict().items())
