"""UperNet: the neck that plain transformers need, its size, its weights."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from maxsup.lab.data import load_data
from maxsup.lab.models import create_model
from maxsup.lab.segmentation import Segmenter, create_segmenter
from maxsup.lab.segmentation.upernet import MultiLevelNeck, TimmMaps
from maxsup.lab.training.builders import freeze_statistics

TINY = {"backbone": "tiny_vit", "channels": 16, "auxiliary_channels": 8}


def tiny(num_classes: int = 5, image_size: int = 32, **options: object) -> Segmenter:
    return create_segmenter("upernet", num_classes, image_size=image_size, **(TINY | options))


def count(module: nn.Module | None) -> int:
    assert module is not None
    return sum(parameter.numel() for parameter in module.parameters())


def conv_block(num_in: int, num_out: int, kernel: int) -> int:
    """A convolution without bias and a norm with scale and shift."""
    return num_in * num_out * kernel**2 + 2 * num_out


@pytest.mark.slow
def test_deit_small_has_the_parameters_of_the_published_configuration() -> None:
    model = create_segmenter("upernet", 150, image_size=512)
    width, channels, classes, num_patches = 384, 512, 150, (512 // 16) ** 2
    block = 2 * 2 * width + (width * 3 * width + 3 * width) + (width * width + width)
    block += (width * 4 * width + 4 * width) + (4 * width * width + width)
    backbone = 12 * block + (3 * 16 * 16 * width + width) + width + (num_patches + 1) * width
    neck = 4 * (width * width + width) + 4 * (9 * width * width + width)
    decoder = 4 * conv_block(width, channels, 1) + conv_block(width + 4 * channels, channels, 3)
    decoder += 3 * (conv_block(width, channels, 1) + conv_block(channels, channels, 3))
    decoder += conv_block(4 * channels, channels, 3) + channels * classes + classes
    auxiliary = conv_block(width, 256, 3) + 256 * classes + classes
    assert count(model.backbone) == backbone == 21_982_848
    assert count(model.neck) == neck
    assert count(model.decoder) == decoder
    assert count(model.auxiliary) == auxiliary
    assert count(model) == backbone + neck + decoder + auxiliary


def test_heads_begin_as_published() -> None:
    model = tiny(channels=64, auxiliary_channels=32)
    assert model.auxiliary is not None
    for head, width in ((model.decoder, 64), (model.auxiliary, 32)):
        for name, module in head.named_modules():
            if isinstance(module, nn.Conv2d):
                is_classifier = name.startswith("classifier")
                # Of the outputs of a convolution, the variance that a ReLU keeps.
                expected = 0.01 if is_classifier else (2 / (width * module.kernel_size[0] ** 2)) ** 0.5
                # 160 weights of the smallest layer: five standard errors of a standard deviation are 0.28 of it.
                assert float(module.weight.detach().std()) == pytest.approx(expected, rel=0.28), name


def test_a_plain_transformer_gets_a_pyramid_of_four_levels() -> None:
    model = tiny(image_size=64)
    images = torch.randn(2, 3, 64, 64)
    sizes = [level.shape[-1] for level in model.neck(model.backbone(images))]
    assert isinstance(model.neck, MultiLevelNeck)
    assert sizes == [32, 16, 8, 4]


def test_a_residual_network_brings_its_own_pyramid() -> None:
    model = create_segmenter("upernet", 3, backbone="resnet18", channels=16, auxiliary_channels=8).eval()
    images = torch.randn(1, 3, 64, 96)
    assert isinstance(model.neck, nn.Identity)
    assert [level.shape[-1] for level in model.neck(model.backbone(images))] == [24, 12, 6, 3]
    assert model(images).shape == (1, 3, 64, 96)


@pytest.mark.parametrize("size", [(32, 32), (37, 50), (8, 64)])
def test_logits_are_as_large_as_any_image(size: tuple[int, int]) -> None:
    assert tiny().eval()(torch.randn(1, 3, *size)).shape == (1, 5, *size)


def test_the_auxiliary_head_is_seen_on_request_only() -> None:
    model, images = tiny(), torch.randn(2, 3, 32, 32)
    logits, second = model(images, with_auxiliary=True)
    assert logits.shape == second.shape == (2, 5, 32, 32)
    assert model(images).shape == (2, 5, 32, 32)
    assert tiny(auxiliary_weight=0).auxiliary is None


def test_every_parameter_gets_a_gradient() -> None:
    model = tiny()
    logits, second = model(torch.randn(2, 3, 32, 32), with_auxiliary=True)
    (logits.square().mean() + second.square().mean()).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_weights_of_a_classifier_become_the_backbone(tmp_path: Path) -> None:
    trained = create_model("tiny_vit", 7, image_size=32)
    path = tmp_path / "model.safetensors"
    save_file(trained.state_dict(), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = tiny(pretrained=str(path))
    assert isinstance(model.backbone, TimmMaps)
    found = model.backbone.body.state_dict()
    assert set(found) == {name.removeprefix("body.") for name in trained.state_dict() if name.startswith("body.")} - {
        "norm.weight",
        "norm.bias",
    }
    for name, value in found.items():
        torch.testing.assert_close(value, trained.state_dict()[f"body.{name}"], rtol=0, atol=0)


def test_position_embeddings_are_resized_to_the_training_crop(tmp_path: Path) -> None:
    trained = create_model("tiny_vit", 7, image_size=32)
    path = tmp_path / "model.safetensors"
    save_file(trained.state_dict(), path)
    model = tiny(image_size=64, pretrained=str(path), backbone_options={"patch_size": 4})
    assert model.backbone.body.pos_embed.shape == (1, 1 + 16 * 16, 128)
    torch.testing.assert_close(model.backbone.body.cls_token, trained.body.cls_token, rtol=0, atol=0)


def test_one_image_cannot_be_trained_on() -> None:
    with pytest.raises(ValueError, match="two images or more at a time"):
        tiny()(torch.randn(1, 3, 32, 32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backbone": "small_cnn"}, "backbone must be a model of timm that gives intermediate maps; got 'small_cnn'"),
        ({"out_indices": [0, 1, 2]}, "out_indices must be 4 growing numbers below 4"),
        ({"out_indices": [0, 1, 2, 4]}, "out_indices must be 4 growing numbers below 4"),
        ({"backbone": "mixer_s16_224"}, "backbone must take images of any size; got 'mixer_s16_224'"),
        ({"channels": 0}, "channels must be a whole number of at least 1"),
        ({"auxiliary_weight": -0.4}, "auxiliary_weight must be at least 0; got -0.4"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"backbone_options": {"colour": 1}}, "got 'colour'"),
        ({"chanels": 16}, "Did you mean 'channels'"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tiny(**options)


def test_one_image_can_be_trained_on_where_norms_are_frozen() -> None:
    model = tiny()
    freeze_statistics(model)
    assert model(torch.randn(1, 3, 32, 32)).shape == (1, 5, 32, 32)


@pytest.mark.slow
def test_a_transformer_with_windows_takes_images_of_any_size() -> None:
    model = tiny(image_size=64, backbone="swin_tiny_patch4_window7_224").eval()
    assert isinstance(model.neck, nn.Identity)
    assert model(torch.randn(1, 3, 50, 97)).shape == (1, 5, 50, 97)


def test_without_transformers_masks_are_read_and_the_network_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.models.upernet.modeling_upernet", None)
    assert load_data("synthetic_masks", num_train=4, num_test=1).task == "segmentation"
    with pytest.raises(ImportError, match=r"transformers must be installed for UperNet. Run pip .*\[dense\]'\.$"):
        tiny()
