"""The fast network: fixed filters and identity at the start, fast biases, maximum over positions, scaled logits."""

import pytest
import torch
import torch.nn.functional as F

from maxsup.lab.models import create_model
from maxsup.lab.models.networks.airnet import FastBias, ScaledLinear, convolution, patch_filters


def test_a_convolution_starts_as_the_identity_on_its_first_channels():
    x = torch.randn(2, 4, 5, 5)
    assert torch.allclose(convolution(4, 6)(x)[:, :4], x, atol=1e-6)


def test_patch_filters_are_orthonormal_for_any_number_of_channels():
    for in_channels in (1, 2, 3, 4):
        filters = patch_filters(in_channels).flatten(start_dim=1)
        assert torch.allclose(filters @ filters.T, torch.eye(4 * in_channels), atol=1e-6)


def test_the_first_layer_is_fixed_and_all_others_learn():
    frozen = [name for name, value in create_model("airnet", 10).named_parameters() if not value.requires_grad]
    assert frozen == ["body.0.weight"]


def test_a_step_moves_a_fast_bias_64_times_as_far_as_a_plain_one():
    fast, plain = FastBias(3), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([*fast.parameters(), plain], lr=0.1)
    x = torch.randn(2, 3, 4, 4)
    (fast(x).square().sum() + (x + plain[:, None, None]).square().sum()).backward()
    optimizer.step()
    assert torch.allclose((fast(x) - x).mean(dim=(0, 2, 3)), 64 * plain, rtol=1e-4)


def test_features_are_the_maximum_over_positions():
    model, images = create_model("airnet", 10).eval(), torch.randn(2, 3, 32, 32)
    assert torch.equal(model.features(images), model.feature_map(images).amax(dim=(2, 3)))


def test_logits_are_a_ninth_of_the_linear_map():
    head, features = ScaledLinear(8, 3, bias=False), torch.randn(2, 8)
    assert torch.allclose(head(features), F.linear(features, head.weight) / 9)
    assert head.bias is None


def test_the_default_network_has_the_documented_size():
    count = sum(parameter.numel() for parameter in create_model("airnet", 10).parameters())
    assert round(count / 1e6, 1) == 0.3


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match=r"activation must be one of 'relu', 'gelu'; got 'rel'\. Did you mean 'relu'"):
        create_model("airnet", 10, activation="rel")
