"""Files in the shape of the released ImageNet code: anti-aliased convolutions, in a checkpoint of Lightning.

The network is rebuilt from the description of the method: torchvision's, with every convolution that has a stride and
at least 16 channels replaced by a module that blurs first. Its weights and logits are the reference.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torchvision
from torch import nn

from maxsup.core.errors import StorageError
from maxsup.lab.models import create_model, num_classes_of
from maxsup.lab.models.libraries import hf_models
from maxsup.lab.models.weights import has_blur_filters

IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


class Blurred(nn.Module):
    """A depthwise 1-2-1 filter, written as a sum of nine shifted images, and the convolution."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        weights = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16
        self.register_buffer("blur_filter", weights.repeat(conv.in_channels, 1, 1, 1))

    def forward(self, x):
        padded = nn.functional.pad(x, (1, 1, 1, 1))
        height, width = x.shape[2:]
        blurred = sum(
            self.blur_filter[0, 0, i, j] * padded[:, :, i : i + height, j : j + width]
            for i in range(3)
            for j in range(3)
        )
        return self.conv(blurred)


def blur(network: nn.Module) -> nn.Module:
    for path, layer in list(network.named_modules()):
        if isinstance(layer, nn.Conv2d) and layer.stride[0] > 1 and layer.in_channels >= 16:
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, Blurred(layer))
    return network


def released(architecture: str = "resnet18", num_classes: int = 7) -> nn.Module:
    torch.manual_seed(3)
    return blur(torchvision.models.get_model(architecture, num_classes=num_classes)).eval()


def saved(path: Path, network: nn.Module, prefix: str = "", others: tuple[str, ...] = ()) -> Path:
    state = {prefix + name: value for name, value in network.state_dict().items()}
    torch.save({"state_dict": state | {name: torch.ones(3) for name in others}, "epoch": 89}, path)
    return path


@pytest.mark.parametrize("model", ["torchvision:resnet50", "timm:resnet50"])
@pytest.mark.parametrize("prefix", ["", "model."])
def test_a_network_of_the_released_code_loads_to_the_last_tensor_and_gives_its_own_logits(
    tmp_path: Path, model: str, prefix: str
):
    theirs = released("resnet50", 1000)
    path = saved(tmp_path / "maxsup.ckpt", theirs, prefix, ("criterion.weight",) if prefix else ())
    ours = create_model(model, 1000, pretrained=path, blurpool=True).eval()
    given, own = theirs.state_dict(), ours.state_dict()
    assert len(own) == len(given) == 326
    for name, value in given.items():
        assert torch.equal(own[name.replace("fc.", "head.") if name.startswith("fc.") else f"body.{name}"], value)
    with torch.no_grad():
        assert torch.allclose(ours(IMAGES), theirs(IMAGES), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "prefix",
    [
        "_orig_mod.",
        "module.",
        "model._orig_mod.",
        "module.model.",
        "_orig_mod.module.model.",
        "model.module._orig_mod.",
    ],
)
def test_prefixes_of_wrappers_are_removed_in_any_combination(tmp_path: Path, prefix: str):
    theirs = released()
    path = saved(tmp_path / "last.ckpt", theirs, prefix, ("val_accuracy.total",))
    if not prefix.startswith("m"):
        path = saved(tmp_path / "last.ckpt", theirs, prefix)
    ours = create_model("torchvision:resnet18", 7, pretrained=path, blurpool=True).eval()
    with torch.no_grad():
        assert torch.allclose(ours(IMAGES), theirs(IMAGES), rtol=0, atol=1e-6)


def test_a_prefix_is_removed_although_single_names_differ(tmp_path: Path):
    state = {f"model.{name}": value for name, value in released().state_dict().items()}
    state["model.bn1.scale"] = state.pop("model.bn1.weight")
    torch.save(state, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match=r"1 missing \(body\.bn1\.weight\), 1 unknown \(body\.bn1\.scale\)"):
        create_model("torchvision:resnet18", 7, pretrained=tmp_path / "last.ckpt", blurpool=True)


@pytest.mark.parametrize("prefix", ["", "model."])
def test_anti_aliased_weights_name_the_option_that_they_need(tmp_path: Path, prefix: str):
    path = saved(tmp_path / "last.ckpt", released(), prefix)
    assert has_blur_filters(path)
    assert num_classes_of("torchvision:resnet18", str(path)) == 7
    with pytest.raises(ValueError, match=r"anti-aliased convolutions .* Write model\.options\.blurpool=true\."):
        create_model("torchvision:resnet18", 7, pretrained=path)


def test_plain_weights_for_a_blurred_network_name_the_option_too(tmp_path: Path):
    path = saved(tmp_path / "last.ckpt", torchvision.models.resnet18(num_classes=7))
    assert not has_blur_filters(path)
    with pytest.raises(ValueError, match=r"plain convolutions .* Write model\.options\.blurpool=false\."):
        create_model("torchvision:resnet18", 7, pretrained=path, blurpool=True)


@pytest.mark.parametrize(
    ("name", "num_blurred"),
    [("resnet18_cifar", 6), ("resnet20", 2), ("timm:resnet50", 6), ("torchvision:mobilenet_v2", 4)],
)
def test_networks_of_every_source_blur_their_strided_convolutions(name: str, num_blurred: int):
    model = create_model(name, 5, blurpool=True)
    assert sum(key.endswith(".blur_filter") for key in model.state_dict()) == num_blurred
    assert model(IMAGES).shape == (2, 5)


@pytest.mark.parametrize("name", ["small_cnn", "timm:vit_tiny_patch16_224"])
def test_a_network_without_such_convolutions_refuses_the_option(name: str):
    with pytest.raises(ValueError, match="blurpool must be false"):
        create_model(name, 5, blurpool=True)


def test_a_file_that_a_converter_of_timm_trips_over_is_refused_in_a_sentence(tmp_path: Path):
    torch.save({"visual.trunk.patch_embed.proj.weight": torch.zeros(3)}, tmp_path / "clip.pt")
    with pytest.raises(ValueError, match="pretrained must fit the model"):
        create_model("timm:vit_tiny_patch16_224", 5, pretrained=tmp_path / "clip.pt")


def test_a_size_that_transformers_writes_in_another_way_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "preprocessor_config.json").write_text("{}")
    monkeypatch.setattr(hf_models, "_import_transformers", lambda: SimpleNamespace(AutoImageProcessor=None))
    monkeypatch.setattr(hf_models, "_load", lambda *_: SimpleNamespace(size={"longest_edge": 384}))
    with pytest.raises(StorageError, match="got longest_edge"):
        hf_models.hf_preprocessing(str(tmp_path))
