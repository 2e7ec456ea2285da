"""Other people's checkpoints: predictions are those that their own library's transform gives, wherever they are used.

Networks are random, so what is compared is the class that each image is given; photographs are noise of several
sizes, on which another mean, interpolation or crop changes many predictions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
import torchvision
import yaml
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from torch import Tensor, nn

from maxsup.lab.analysis.foreign_checkpoints import checkpoint_outputs
from maxsup.lab.analysis.outputs import RunOutputs
from maxsup.lab.core.config import parse_recipe
from maxsup.lab.core.files.rundir import RunDir
from maxsup.lab.models import create_model
from maxsup.lab.training import train
from maxsup.lab.training.builders import build_data, build_model
from maxsup.lab.training.preprocessing import resolve_preprocessing
from maxsup.lab.training.progress import Reporter
from maxsup.lab.training.reading import evaluate_run
from maxsup.lab.training.state.checkpoint import pack_checkpoint

pytestmark = pytest.mark.slow

CLASSES = ("abc", "Äpfel", "n01440764", "zz top")
NUM_A_CLASS = 6
SIDES = ((40, 56), (64, 48), (97, 97), (30, 80))

Predict = Callable[[Image.Image], Tensor]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain folder of classes, without splits."""
    home = tmp_path_factory.mktemp("photos")
    dice = np.random.default_rng(0)
    for name in CLASSES:
        (home / name).mkdir()
        for index in range(NUM_A_CLASS):
            height, width = SIDES[index % len(SIDES)]
            coarse = Image.fromarray(dice.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((width, height))
            noise = dice.normal(0, 30, (height, width, 3))
            Image.fromarray((np.asarray(coarse) + noise).clip(0, 255).astype(np.uint8)).save(
                home / name / f"{index}.png"
            )
    return home


def spread_out(network: nn.Module, predict: Predict, photos: Path) -> None:
    """Let the predictions of a random network differ from image to image: norms that fit, logits around 0."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
        norm.train()
    for image, _ in images_of(photos)[:: NUM_A_CLASS // 2]:
        predict(image)
    network.eval()
    logits = torch.stack([predict(image) for image, _ in images_of(photos)])
    head = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    head.weight.mul_(1 / logits.std(0)[:, None])
    head.bias.copy_((head.bias - logits.mean(0)) / logits.std(0))


def images_of(photos: Path) -> list[tuple[Image.Image, int]]:
    return [
        (Image.open(path).convert("RGB"), label)
        for label, name in enumerate(sorted(CLASSES))
        for path in sorted((photos / name).iterdir(), key=lambda path: path.name)
    ]


def timm_network(name: str, folder: Path) -> tuple[nn.Module, Predict, list[str]]:
    torch.manual_seed(0)
    network = timm.create_model(name, num_classes=len(CLASSES)).eval()
    prepare = create_transform(**resolve_data_config(pretrained_cfg=network.pretrained_cfg), is_training=False)
    return (
        network,
        lambda image: network(prepare(image)[None])[0],
        [f"timm:{name}", str(folder / "weights.safetensors")],
    )


def torchvision_network(name: str, folder: Path) -> tuple[nn.Module, Predict, list[str]]:
    torch.manual_seed(0)
    network = torchvision.models.get_model(name, num_classes=len(CLASSES)).eval()
    prepare = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    words = [f"torchvision:{name}", str(folder / "weights.safetensors")]
    return network, lambda image: network(prepare(image)[None])[0], words


def hf_network(kind: str, folder: Path) -> tuple[nn.Module, Predict, list[str]]:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    names = {index: name for index, name in enumerate(reversed(sorted(CLASSES)))}
    labels = {"num_labels": len(CLASSES), "id2label": names, "label2id": {name: i for i, name in names.items()}}
    if kind == "vit":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        config = transformers.ViTConfig(image_size=48, patch_size=8, **sizes, **labels)
        network = transformers.ViTForImageClassification(config).eval()
        processor = transformers.ViTImageProcessor(
            size={"height": 48, "width": 48}, resample=3, image_mean=[0.5] * 3, image_std=[0.25] * 3
        )
    else:
        config = transformers.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", **labels
        )
        network = transformers.ResNetForImageClassification(config).eval()
        processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 56}, crop_pct=0.9, resample=2)
    processor.save_pretrained(folder)

    def predict(image: Image.Image) -> Tensor:
        return network(**processor(image, return_tensors="pt")).logits[0]

    return network, predict, [f"hf:{folder}", ""]


NETWORKS: dict[str, Callable[[Path], tuple[nn.Module, Predict, list[str]]]] = {
    "timm, ImageNet's mean, bicubic, crop 0.95": lambda folder: timm_network("resnet18", folder),
    "timm, mean 0.5, bicubic, crop 0.9": lambda folder: timm_network("vit_tiny_patch16_224", folder),
    "torchvision, bilinear, crop 224 of 232": lambda folder: torchvision_network("mobilenet_v3_large", folder),
    "transformers, squashed, mean 0.5": lambda folder: hf_network("vit", folder),
    "transformers, shorter side, crop 0.9": lambda folder: hf_network("resnet", folder),
}


@pytest.fixture(scope="module", params=list(NETWORKS))
def checkpoint(
    request: pytest.FixtureRequest, photos: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A saved network with what its own library makes of every photograph."""
    folder = tmp_path_factory.mktemp("network")
    with torch.no_grad():
        network, predict, (name, weights) = NETWORKS[request.param](folder)
        spread_out(network, predict, photos)
        logits = torch.stack([predict(image) for image, _ in images_of(photos)])
    if weights:
        save_file(network.state_dict(), weights)
    else:
        network.save_pretrained(folder)
    assert len(logits.argmax(1).unique()) == len(CLASSES)
    return {"name": name, "weights": weights or None, "logits": logits}


def test_diagnose_eval_and_analyze_see_what_the_library_sees(
    checkpoint: dict[str, Any], photos: Path, tmp_path: Path
) -> None:
    found = checkpoint_outputs(checkpoint["name"], checkpoint["weights"], f"folder:{photos}")
    # One class in a thousand may differ: here none of 24, and logits up to rounding.
    assert torch.equal(found.outputs.logits.argmax(1), checkpoint["logits"].argmax(1))
    torch.testing.assert_close(found.outputs.logits, checkpoint["logits"], atol=0.05, rtol=0.05)
    is_reversed = checkpoint["name"].startswith("hf:")
    wanted = torch.arange(len(CLASSES)).repeat_interleave(NUM_A_CLASS)
    assert torch.equal(found.outputs.labels, len(CLASSES) - 1 - wanted if is_reversed else wanted)
    assert ("found by name" if is_reversed else "in the order of their names") in found.facts["Class order"]
    assert found.facts["Split"] == "all images"
    assert "; where the recipe says nothing, as " in found.facts["Transform"]

    size = int(re.search(r"centre crop (\d+)", found.facts["Transform"])[1])
    run = finished_run(tmp_path / "run", checkpoint, photos, size)
    outputs = RunOutputs(run).split("test")
    assert torch.equal(outputs.logits.argmax(1), checkpoint["logits"].argmax(1))
    right = float((outputs.labels == checkpoint["logits"].argmax(1)).double().mean())
    assert evaluate_run(run)["accuracy"] == pytest.approx(right, abs=1e-3)


def finished_run(folder: Path, checkpoint: dict[str, Any], photos: Path, size: int) -> Path:
    """The run that training for no step at all would leave."""
    recipe = parse_recipe(
        {
            "data": {"name": f"folder:{photos}", "image_size": size, "options": {"test_share": 1.0}},
            "model": {"name": checkpoint["name"], "pretrained": checkpoint["weights"] or True},
        }
    )
    bundle = build_data(recipe)
    data = {"num_classes": bundle.num_classes, "mean": list(bundle.mean), "std": list(bundle.std)}
    run = RunDir(folder)
    run.write_text(run.config, yaml.safe_dump(resolve_preprocessing(recipe).model_dump(mode="json")))
    values = {"best": "step-00000001", "data": data}
    run.save_checkpoint(
        "step-00000001", "step-00000001", pack_checkpoint(build_model(recipe, bundle).state_dict(), {}, values)
    )
    return folder


def write_exported(network: nn.Module, images: Tensor, path: Path) -> None:
    torch.export.save(torch.export.export(network, (images,)), path)


def write_onnx(network: nn.Module, images: Tensor, path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed, so no file can be written for onnxruntime")
    torch.onnx.export(network, (images,), path, dynamo=False)


@pytest.mark.filterwarnings("ignore:You are using the legacy TorchScript-based ONNX export")
@pytest.mark.parametrize(("suffix", "write"), [(".pt2", write_exported), (".onnx", write_onnx)])
def test_a_program_is_run_as_it_is_in_batches_of_its_size(
    suffix: str, write: Callable[[nn.Module, Tensor, Path], None], photos: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network = nn.Sequential(network, nn.Linear(8, len(CLASSES))).eval()
    prepare = torchvision.transforms.Compose(
        [
            torchvision.transforms.Resize(40),
            torchvision.transforms.CenterCrop(32),
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.2)),
        ]
    )
    write(network, torch.zeros(5, 3, 32, 32), tmp_path / f"network{suffix}")
    words = ["augment.crop_pct=0.8", "augment.mean=[0.4, 0.5, 0.6]", "augment.std=[0.2, 0.2, 0.2]"]
    found = checkpoint_outputs(str(tmp_path / f"network{suffix}"), None, f"folder:{photos}", overrides=words)
    with torch.no_grad():
        expected = network(torch.stack([prepare(image) for image, _ in images_of(photos)]))
    torch.testing.assert_close(found.outputs.logits, expected, atol=1e-4, rtol=1e-4)
    assert found.outputs.features is None
    assert found.facts["Transform"].startswith("shorter side 40, bilinear, centre crop 32 (ratio 0.8)")


def test_a_network_fine_tuned_from_a_run_gets_the_images_as_that_run_did(photos: Path, tmp_path: Path) -> None:
    words = ["data.image_size=16", "data.val_share=0", "epochs=1", "augment.mean=[0.1, 0.2, 0.3]"]
    words += ["augment.std=[0.4, 0.5, 0.6]", "augment.crop_pct=0.8", "model.options.widths=[4, 8]"]
    recipe = parse_recipe({"data": {"name": f"folder:{photos}"}, "model": {"name": "small_cnn"}}, words)
    train(recipe, tmp_path / "run", reporter=Reporter())
    weights = tmp_path / "run" / "checkpoints" / "last" / "model.safetensors"
    found = checkpoint_outputs("small_cnn", weights, f"folder:{photos}", overrides=["model.options.widths=[4, 8]"])
    assert found.facts["Transform"] == (
        "shorter side 20, bilinear, centre crop 16 (ratio 0.8); mean 0.1 0.2 0.3, std 0.4 0.5 0.6; where the recipe "
        "says nothing, as run run"
    )


def test_a_network_of_imagenet_knows_its_ids_and_says_what_it_did(tmp_path: Path) -> None:
    for wnid in ("n01443537", "n02123045"):
        (tmp_path / "photos" / wnid).mkdir(parents=True)
        for index in range(2):
            Image.new("RGB", (32, 32), (index * 90, 0, 0)).save(tmp_path / "photos" / wnid / f"{index}.png")
    network = create_model("timm:test_resnet", 1000)
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    found = checkpoint_outputs("timm:test_resnet", tmp_path / "weights.safetensors", f"folder:{tmp_path / 'photos'}")
    assert found.outputs.labels.tolist() == [1, 1, 281, 281]
    assert found.outputs.class_names[281] == "tabby"
    assert found.facts["Class order"] == (
        "the classes of the data are 2 of the network's 1,000, found by name; it chooses among all 1,000"
    )
