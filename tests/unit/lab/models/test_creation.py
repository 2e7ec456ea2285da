"""Models by name: ours, timm's, and names and options that nobody has."""

import subprocess
import sys

import pytest
import torch

from maxsup.lab.models import Classifier, TimmClassifier, create_model


@pytest.mark.parametrize(("name", "meant"), [
    ("airnett", "airnet"),
    ("smallcnn", "small_cnn"),
    ("resnt18", "resnet18"),
    ("deit_smal_patch16_224", "deit_small_patch16_224"),
    ("timm:resnet18_cifr", "resnet18"),
    ("resnet18.a1_in1", "resnet18.a1_in1k"),
])  # fmt: skip
def test_a_wrong_name_gives_the_nearest(name: str, meant: str):
    with pytest.raises(ValueError, match="model must be a registered name or one of timm; got") as error:
        create_model(name, 10)
    assert f"Did you mean '{meant}" in str(error.value)


def test_a_name_like_no_other_says_where_the_names_are():
    with pytest.raises(ValueError, match=r"got 'zzzzzz'\. See `maxsup ls models` and timm\.list_models\(\)\.$"):
        create_model("zzzzzz", 10)


def test_a_prefix_asks_for_timm():
    assert isinstance(create_model("timm:resnet18", 10), TimmClassifier)
    with pytest.raises(ValueError, match="got 'timm:small_cnn'"):
        create_model("timm:small_cnn", 10)


@pytest.mark.parametrize("name", ["small_cnn", "airnet", "resnet20"])
def test_an_option_that_our_model_does_not_have_gives_the_nearest(name: str):
    option = {"small_cnn": "width", "airnet": "activaton", "resnet20": "num_branch"}[name]
    with pytest.raises(TypeError, match=f"option of model '{name}' must be one it has; got '{option}'. Did you mean"):
        create_model(name, 10, **{option: 1})


@pytest.mark.parametrize(("name", "owner"), [("resnet18", "ResNet"), ("tiny_vit", "VisionTransformer")])
def test_an_option_that_timm_does_not_have_names_its_class(name: str, owner: str):
    with pytest.raises(TypeError, match=f"must be one that timm's {owner} takes; got 'no_such_option'"):
        create_model(name, 10, no_such_option=1)


@pytest.mark.parametrize("given", [{"num_classes": 0}, {"num_classes": 2.5}, {"in_channels": 0}, {"image_size": -1}])
def test_sizes_are_whole_numbers(given: dict[str, float]):
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be a whole number of at least 1; got"):
        create_model("small_cnn", **{"num_classes": 10, **given})


def test_a_distilled_model_has_two_heads_and_is_refused():
    with pytest.raises(ValueError, match="model must have one linear classifier; got tuple"):
        create_model("deit_tiny_distilled_patch16_224", 10)


def test_options_of_timm_arrive():
    assert create_model("resnet18", 10, drop_rate=0.25).body.drop_rate == 0.25


@pytest.mark.parametrize("widths", [(8, 16, 32), [4, 6]])
def test_a_small_network_takes_other_widths(widths: list[int]):
    for name in ("small_cnn", "airnet"):
        model = create_model(name, 10, widths=widths)
        assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)
        assert model.num_features == widths[-1]


@pytest.mark.parametrize("size", [8, 16, 28, 32])
def test_small_cnn_takes_images_of_8_to_32_pixels(size: int):
    dense = create_model("small_cnn", 10, in_channels=1).dense_logits(torch.randn(1, 1, size, size))
    assert dense.shape == (1, 10, size // 4, size // 4)


@pytest.mark.parametrize(("module", "name", "extra"), [("timm", "resnet18", "lab"), ("transformers", "hf:a/b", "hf")])
def test_without_a_library_our_own_networks_work_and_its_own_name_the_extra(
    module: str, name: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, module, None)
    assert isinstance(create_model("resnet20", 10), Classifier)
    with pytest.raises(ImportError, match=rf"{module} must be installed .*pip install .*\[{extra}\]'"):
        create_model(name, 10)


def test_importing_the_models_loads_torch_only():
    script = "import sys, maxsup.lab.models; print({'safetensors', 'timm', 'torchvision'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"
