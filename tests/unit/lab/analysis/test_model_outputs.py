"""Words of a command line that name models, and what they turn into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.diagnosis.side_by_side import diagnose_side_by_side
from maxsup.lab.analysis.model_outputs import outputs_of_models
from maxsup.lab.models import create_model
from tests.unit.lab.analysis.made import make_run


def logits_file(path: Path, seed: int, num_samples: int = 120) -> str:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_samples) % 3
    logits = torch.randn(num_samples, 3, generator=generator)
    np.savez(path, logits=logits.numpy(), labels=labels.numpy())
    return str(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    dice = np.random.default_rng(0)
    for label in ("a", "b", "c"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for index in range(4):
            pixels = dice.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{index}.png")
    return tmp_path / "photos"


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("ce", "ls"):
        (tmp_path / name).mkdir()
    words = [logits_file(tmp_path / name / "logits.npz", seed) for seed, name in enumerate(("ce", "ls"))]
    assert list(outputs_of_models(words)) == ["logits.npz", "ls/logits.npz"]


@pytest.mark.slow
def test_checkpoints_of_two_libraries_see_the_same_images(tmp_path: Path, photos: Path) -> None:
    words = []
    for name in ("timm:resnet18", "torchvision:resnet18"):
        torch.manual_seed(0)
        file = tmp_path / f"{name.partition(':')[0]}.pth"
        torch.save(create_model(name, 3, blurpool=name.startswith("torch")).state_dict(), file)
        words.append(f"{name}@{file}")
    found = outputs_of_models(words, data=f"folder:{photos}", overrides=["data.image_size=32"])
    assert list(found) == ["timm.pth", "torchvision.pth"]
    first, second = (each.outputs for each in found.values())
    assert torch.equal(first.labels, second.labels)
    assert first.indices is not None
    assert second.indices is not None
    assert torch.equal(first.indices, second.indices)
    assert "anti-aliased" in found["torchvision.pth"].facts["Network"]


@pytest.mark.slow
def test_a_run_stands_beside_a_run_and_not_beside_other_data(tmp_path: Path) -> None:
    runs = [str(make_run(tmp_path / name, loss)) for name, loss in (("first", "ce"), ("second", "maxsup"))]
    models = outputs_of_models(runs)
    found = diagnose_side_by_side({name: each.outputs for name, each in models.items()})
    assert [(pair.first, pair.second) for pair in found.pairs] == [("first", "second")]
    with pytest.raises(DataError, match="the same images"):
        outputs_of_models([runs[0], str(make_run(tmp_path / "other", "ce", recipe="synthetic_cnn"))])


def test_an_option_that_no_model_takes_is_refused(tmp_path: Path) -> None:
    words = [logits_file(tmp_path / f"{name}.npz", seed) for seed, name in enumerate(("ce", "ls"))]
    with pytest.raises(ValueError, match="--data must come with a network"):
        outputs_of_models(words, data="digits")


@pytest.mark.slow
def test_a_run_and_a_network_see_the_same_images_of_another_kind(tmp_path: Path, photos: Path) -> None:
    file = tmp_path / "network.pth"
    torch.save(create_model("small_cnn", 10).state_dict(), file)
    words = [str(make_run(tmp_path / "run", "ce", recipe="synthetic_cnn")), f"small_cnn@{file}"]
    with pytest.raises(DataError) as refused:
        outputs_of_models(words, data="synthetic", ood="digits")
    assert refused.value.code == "shared-classes"
    found = outputs_of_models(words, data="synthetic", ood=f"folder:{photos}")
    assert [each.ood.shape for each in found.values() if each.ood is not None] == [(12, 10), (12, 10)]


def test_files_of_logits_have_no_images_of_another_kind(tmp_path: Path) -> None:
    words = [logits_file(tmp_path / f"{name}.npz", seed) for seed, name in enumerate(("ce", "ls"))]
    with pytest.raises(ValueError, match="--ood must come with runs and networks alone"):
        outputs_of_models(words, ood="digits")


def test_a_network_needs_images_and_a_file_of_weights_a_network(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="--data"):
        outputs_of_models(["timm:resnet18", "timm:resnet34"])
    with pytest.raises(ValueError, match="must come with the network"):
        outputs_of_models([str(tmp_path / "w.pth"), "timm:resnet34"], data="folder:photos")
