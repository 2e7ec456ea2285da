"""Models of timm behind our interface: the same numbers, positions of every layout, maps for Grad-CAM."""

import pytest
import timm
import torch
from torch import nn

from maxsup.lab.models import TimmClassifier, create_model


def transformer(**options: object) -> nn.Module:
    return timm.models.VisionTransformer(
        32, patch_size=8, embed_dim=24, depth=2, num_heads=3, num_classes=5, **options
    ).eval()


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenetv2_100", "mobilenetv3_small_100", "convnext_atto", "deit_tiny_patch16_224"]
)
def test_logits_are_those_of_timm(name: str):
    torch.manual_seed(0)
    theirs = timm.create_model(name, num_classes=10).eval()
    torch.manual_seed(0)
    ours = create_model(name, 10).eval()
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images))


def test_dense_logits_of_a_vit_are_the_head_on_the_normed_patch_tokens():
    model, images = TimmClassifier(transformer(class_token=True)), torch.randn(2, 3, 32, 32)
    tokens = model.body.norm(model.body.blocks(model.body._pos_embed(model.body.patch_embed(images))))
    expected = model.head(tokens[:, 1:]).transpose(1, 2).unflatten(2, (4, 4))
    assert torch.allclose(model.dense_logits(images), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("options", "is_linear"), [
    ({"class_token": False, "global_pool": "avg", "fc_norm": False}, True),
    ({"class_token": True, "global_pool": "avg", "fc_norm": False}, True),
    ({"class_token": True, "global_pool": "avg", "fc_norm": True}, False),
    ({"class_token": True, "reg_tokens": 3, "global_pool": "token"}, False),
])  # fmt: skip
def test_tokens_of_every_kind_of_vit_form_a_grid(options: dict[str, object], is_linear: bool):
    model, images = TimmClassifier(transformer(**options)), torch.randn(2, 3, 32, 32)
    dense = model.dense_logits(images)
    assert dense.shape == (2, 5, 4, 4)
    assert torch.allclose(dense.mean(dim=(2, 3)), model(images), atol=1e-5) == is_linear


def test_the_grid_of_an_oblong_image_is_oblong():
    model = TimmClassifier(timm.models.VisionTransformer((16, 32), 8, embed_dim=24, depth=1, num_heads=3))
    assert model.dense_logits(torch.randn(1, 3, 16, 32)).shape == (1, 1000, 2, 4)


def test_tokens_that_form_no_grid_are_refused():
    with pytest.raises(ValueError, match=r"tokens must come from a square of patches .*; got 12 in VisionTransformer"):
        TimmClassifier(transformer()).to_map(torch.randn(1, 12, 24))


def test_token_order_is_row_by_row():
    model = TimmClassifier(transformer())
    tokens = torch.arange(17.0).view(1, 17, 1).expand(1, 17, 24)
    assert torch.equal(model.to_map(tokens)[0, 0], torch.arange(1.0, 17).view(4, 4))


def test_image_size_reaches_models_that_are_made_for_one_and_leaves_others_alone():
    assert create_model("deit_tiny_patch16_224", 10, image_size=64).body.patch_embed.grid_size == (4, 4)
    assert create_model("resnet18", 10, image_size=64)(torch.randn(2, 3, 96, 96)).shape == (2, 10)


@pytest.mark.parametrize(("name", "layer"), [
    ("resnet18", "layer4"),
    ("mobilenetv2_100", "bn2"),
    ("deit_tiny_patch16_224", "blocks.11.norm1"),
    ("hrnet_w18_small", "stage4"),
])  # fmt: skip
def test_the_cam_layer_is_the_one_above_which_only_pooling_is_left_or_the_last_with_patch_gradients(
    name: str, layer: str
):
    model = create_model(name, 10)
    assert model.cam_layer() is model.body.get_submodule(layer)
