"""Networks of timm with the downsampling of 32-pixel images."""

import pytest
import timm
import torch
from torch import nn

from maxsup.lab.models import create_model


@pytest.mark.parametrize("name", ["resnet18_cifar", "mobilenetv2_cifar"])
def test_a_32_pixel_image_ends_as_a_4x4_map(name: str):
    assert create_model(name, 10).eval().dense_logits(torch.randn(1, 3, 32, 32)).shape == (1, 10, 4, 4)


def test_a_resnet_has_a_3x3_stem_of_stride_one_and_no_max_pool():
    body = create_model("resnet18_cifar", 10).body
    assert (body.conv1.kernel_size, body.conv1.stride, body.conv1.padding) == ((3, 3), (1, 1), (1, 1))
    assert not [module for module in body.modules() if isinstance(module, nn.MaxPool2d)]


@pytest.mark.parametrize(("name", "parent"), [("resnet18_cifar", "resnet18"), ("mobilenetv2_cifar", "mobilenetv2_100")])
def test_all_but_the_stem_has_the_shapes_of_timm(name: str, parent: str):
    ours = create_model(name, 10).body.state_dict()
    theirs = timm.create_model(parent, num_classes=0).state_dict()
    differ = [key for key in ours if theirs[key].shape != ours[key].shape]
    assert ours.keys() == theirs.keys()
    assert differ == (["conv1.weight"] if parent == "resnet18" else [])


def test_resnet18_has_the_parameters_of_the_cifar_code_it_follows():
    # weiaicunzai/pytorch-cifar100 gives 11.2 M for 100 classes.
    count = sum(parameter.numel() for parameter in create_model("resnet18_cifar", 100).parameters())
    assert count == 11_220_132


def test_options_go_to_timm():
    model = create_model("resnet18_cifar", 10, zero_init_last=False)
    assert torch.equal(model.body.layer1[0].bn2.weight, torch.ones(64))
