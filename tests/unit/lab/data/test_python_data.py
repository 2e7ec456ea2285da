from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from maxsup.core.errors import DataError
from maxsup.lab.data import data_name, load_data

IMAGES = torch.randint(0, 256, (40, 3, 8, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(40) % 4


class Drawn(Dataset[Any]):
    """Makes its images when it is asked, and never says that there are no more."""

    classes = ("a", "b", "c", "d")

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return IMAGES[index % 40].float() / 255, index % 4


class Streamed(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(IMAGES, LABELS, strict=True))


def test_the_pixels_that_come_back_are_those_that_were_given(tmp_path: Path) -> None:
    data = ((IMAGES, LABELS), (IMAGES[:4].permute(0, 2, 3, 1).numpy(), LABELS[:4].numpy()))
    bundle = load_data(data_name(data, tmp_path), val_share=0.0)
    assert torch.equal(bundle.train.images, IMAGES)
    assert torch.equal(bundle.train.labels, LABELS)
    assert torch.equal(bundle.test.images, IMAGES[:4])


@pytest.mark.parametrize(
    "given",
    [
        IMAGES.float() / 255,
        IMAGES.permute(0, 2, 3, 1),
        IMAGES.numpy(),
        IMAGES.permute(0, 2, 3, 1).numpy(),
        IMAGES.int().numpy(),
    ],
    ids=["float tensor", "tensor with channels last", "array with channels first", "array", "array of integers"],
)
def test_one_set_of_images_has_one_name_in_whatever_form_it_is_given(given: Any, tmp_path: Path) -> None:
    assert data_name((given, LABELS), tmp_path) == data_name((IMAGES, LABELS), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_other_data_has_another_name(tmp_path: Path) -> None:
    assert data_name((IMAGES, LABELS), tmp_path) != data_name((IMAGES, LABELS.flip(0)), tmp_path)


@pytest.mark.parametrize(
    "dataset", [Drawn(), Streamed(), TensorDataset(IMAGES, LABELS)], ids=lambda made: type(made).__name__
)
def test_a_fifth_of_every_class_of_a_dataset_without_a_test_split_is_tested_on(
    dataset: Dataset[Any], tmp_path: Path
) -> None:
    bundle = load_data(data_name(dataset, tmp_path), val_share=0.0)
    num_images = len(bundle.train) + len(bundle.test)
    assert torch.bincount(bundle.test.labels).tolist() == [num_images // 20] * 4
    assert bundle.class_names == (("a", "b", "c", "d") if isinstance(dataset, Drawn) else ("0", "1", "2", "3"))


def test_a_bundle_keeps_its_own_validation_split_and_its_class_names(tmp_path: Path) -> None:
    given = load_data("digits")
    found = load_data(data_name(given, tmp_path), split_seed=7)
    for split in ("train", "val", "test"):
        assert torch.equal(getattr(found, split).images, getattr(given, split).images)
        assert torch.equal(getattr(found, split).labels, getattr(given, split).labels)
    assert found.class_names == given.class_names


class Mixed(Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.zeros((8, 8 + index, 3), np.uint8), index


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            (IMAGES.float() / 128 - 1, LABELS),
            r"floats from 0 to 1; got floats from -1 to .* Leave out the normalisation",
        ),
        ((IMAGES.int() * 2, LABELS), "from 0 to 255; got 0 to 5"),
        ((IMAGES, LABELS[:-1]), "got 39 for 40 images"),
        ((IMAGES, LABELS.float()), "labels must be whole numbers"),
        ((IMAGES[0, 0], LABELS), r"got \(8, 6\)"),
        (Mixed(), r"must have one shape; got \(8, 8, 3\), \(8, 9, 3\)"),
        (42, "data must be a name, .*; got int"),
    ],
)
def test_data_that_cannot_be_kept_is_refused_in_one_sentence(data: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=sentence):
        data_name(data, tmp_path)
    assert not list(tmp_path.iterdir())
