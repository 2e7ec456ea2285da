"""ResNet-20, 32, 56: sizes of the paper, shortcuts without parameters, branches."""

import pytest
import torch
from torch import nn

from maxsup.lab.models import MODELS, create_model
from maxsup.lab.models.networks.cifar_resnet import BasicBlock, Branches


@pytest.mark.parametrize(("depth", "exact"), [(20, 269_722), (32, 464_154), (56, 853_018)])
def test_parameters_and_layers_are_those_of_the_paper(depth: int, exact: int):
    model = create_model(f"resnet{depth}", 10)
    assert sum(parameter.numel() for parameter in model.parameters()) == exact
    assert f"{exact / 1e6:.2f} M" in MODELS.facts(f"resnet{depth}")["about"]
    assert sum(isinstance(module, nn.Conv2d | nn.Linear) for module in model.modules()) == depth


def test_the_last_map_is_an_eighth_by_an_eighth_of_the_image_twice_halved():
    assert create_model("resnet20", 10).dense_logits(torch.randn(1, 3, 32, 32)).shape == (1, 10, 8, 8)


def test_a_shortcut_keeps_every_second_pixel_and_adds_zero_channels():
    block = BasicBlock(2, 4, stride=2).eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.rand(1, 2, 6, 6)
    out = block(x)
    assert torch.equal(out[:, :2], x[:, :, ::2, ::2])
    assert torch.equal(out[:, 2:], torch.zeros(1, 2, 3, 3))


def test_two_branches_double_the_features_and_add_one_block():
    model, plain = create_model("resnet32", 10, num_branches=2), create_model("resnet32", 10)
    block = sum(parameter.numel() for parameter in BasicBlock(64, 64).parameters())
    counts = [sum(parameter.numel() for parameter in made.body.parameters()) for made in (model, plain)]
    assert model.num_features == 128
    assert counts[0] - counts[1] == block


def test_branches_are_concatenated_in_order():
    branches = Branches([BasicBlock(4, 4), BasicBlock(4, 4)]).eval()
    x = torch.rand(1, 4, 5, 5)
    assert torch.equal(branches(x), torch.cat([branches[0](x), branches[1](x)], dim=1))


def test_no_branch_is_refused():
    with pytest.raises(ValueError, match="num_branches must be a whole number of at least 1; got 0"):
        create_model("resnet32", 10, num_branches=0)
