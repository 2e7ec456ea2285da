"""Images of another kind for a checkpoint: which folders are refused, and how many images are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.analysis.foreign_checkpoints import CheckpointOutputs, checkpoint_outputs
from maxsup.lab.models import create_model

NUM_IMAGES = 4


def folder(path: Path, *names: str) -> str:
    dice = np.random.default_rng(0)
    for name in names:
        (path / name).mkdir(parents=True, exist_ok=True)
        for index in range(NUM_IMAGES):
            pixels = dice.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path / name / f"{index}.png")
    return f"folder:{path}"


def judged(home: Path, own: str, ood: str, num_outputs: int) -> CheckpointOutputs:
    weights = home / "weights.pth"
    torch.save(create_model("small_cnn", num_outputs, widths=(4, 8)).state_dict(), weights)
    overrides = ["model.options.widths=[4, 8]", "data.image_size=16"]
    return checkpoint_outputs("small_cnn", weights, own, ood=ood, overrides=overrides)


@pytest.mark.slow
def test_a_class_of_imagenet_is_refused_by_its_word_beside_folders_of_ids(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", "n01440764", "n01443537")
    with pytest.raises(DataError, match=r"classes of the network \(goldfish\)") as refused:
        judged(tmp_path, own, folder(tmp_path / "ood", "goldfish", "moss"), 1000)
    assert refused.value.code == "shared-classes"
    found = judged(tmp_path, own, folder(tmp_path / "textures", "braided", "moss"), 1000)
    assert found.ood is not None
    assert found.ood.shape == (2 * NUM_IMAGES, 1000)


def test_all_images_of_a_folder_without_splits_are_judged_and_the_test_split_of_others(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", "cat", "dog")
    found = judged(tmp_path, own, folder(tmp_path / "flat", "velvet", "gravel", "moss"), 2)
    assert found.ood is not None
    assert len(found.ood) == 3 * NUM_IMAGES
    split = folder(tmp_path / "split", "train/velvet", "test/velvet", "train/moss", "test/moss")
    found = judged(tmp_path, own, split, 2)
    assert found.ood is not None
    assert len(found.ood) == 2 * NUM_IMAGES


def test_a_folder_of_images_without_classes_is_refused_in_a_sentence(tmp_path: Path) -> None:
    own = folder(tmp_path / "own", "cat", "dog")
    with pytest.raises(DataError, match="class"):
        judged(tmp_path, own, folder(tmp_path / "bare", "."), 2)
