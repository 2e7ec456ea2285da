"""A folder of yours whose splits hold ``images/`` and ``masks/``."""

import shutil

import numpy as np
import pytest
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.data import IGNORED_LABEL, load_data
from tests.unit.lab.data import made


def test_a_folder_with_masks_takes_its_classes_from_a_list(tmp_path) -> None:
    made.write_masked_tree(tmp_path, counts={"train": 6, "val": 3, "test": 2})
    (tmp_path / "classes.txt").write_text("sky\nroad\ncar\n\n")
    data = load_data(f"folder:{tmp_path}")
    assert data.task == "segmentation"
    assert data.class_names == ("sky", "road", "car")
    assert (len(data.train), len(data.val), len(data.test)) == (6, 3, 2)
    assert made.labels_of(data.train) == {0, 1, 2, IGNORED_LABEL}


def test_a_folder_with_masks_can_be_told_the_number_of_its_classes(tmp_path) -> None:
    made.write_masked_tree(tmp_path, counts={"train": 10, "val": 3})
    data = load_data(f"folder:{tmp_path}", num_classes=4)
    assert data.class_names == ("0", "1", "2", "3")
    assert (len(data.train), len(data.val), len(data.test)) == (9, 1, 3)


def test_another_label_can_be_ignored(tmp_path) -> None:
    made.write_masked_tree(tmp_path, labels=[0, 1, 2])
    data = load_data(f"folder:{tmp_path}", num_classes=2, ignore=2)
    assert made.labels_of(data.train) == {0, 1, IGNORED_LABEL}


def test_palettes_can_be_read_by_index(tmp_path) -> None:
    made.write_masked_tree(tmp_path)
    path = tmp_path / "train" / "masks" / "000.png"
    mask = np.asarray(Image.open(path))
    coloured = Image.frombytes("P", (48, 40), mask.tobytes())
    coloured.putpalette([value % 256 for value in range(768)])
    coloured.save(path)
    options = {"num_classes": 3, "val_share": 0}
    refusing, reading = (load_data(f"folder:{tmp_path}", palette=word, **options) for word in ("refuse", "index"))
    with pytest.raises(DataError, match="palette=index"):
        refusing.train.reader(refusing.train.samples[0])
    assert np.array_equal(reading.train.reader(reading.train.samples[0]).mask, mask)


@pytest.mark.parametrize("option", [{"num_classes": 3}, {"ignore": 0}, {"palette": "index"}])
def test_options_of_masks_are_refused_without_masks(tmp_path, option: dict) -> None:
    made.write_tree(tmp_path)
    with pytest.raises(ValueError, match=f"option {next(iter(option))} of data set 'folder' must be left out"):
        load_data(f"folder:{tmp_path}", **option)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({}, DataError, r"got no .*classes\.txt\. Write one name a line"),
        ({"num_classes": 1}, DataError, "masks must have 2 to 255 classes; got 1"),
        ({"num_classes": 256}, DataError, "masks must have 2 to 255 classes; got 256"),
        ({"num_classes": "three"}, ValueError, "num_classes must be a whole number; got 'three'"),
        *(
            ({"num_classes": 3, "ignore": label}, ValueError, f"ignore must be a label from 0 to 65535; got {label!r}")
            for label in (-1, 2**16, 2**40, "void", True)
        ),
    ],
)
def test_classes_and_the_ignored_label_must_fit_into_masks(tmp_path, options: dict, error: type, sentence: str) -> None:
    made.write_masked_tree(tmp_path)
    with pytest.raises(error, match=sentence):
        load_data(f"folder:{tmp_path}", **options)


def test_a_number_of_classes_must_agree_with_the_list(tmp_path) -> None:
    made.write_masked_tree(tmp_path)
    (tmp_path / "classes.txt").write_text("sky\nroad\ncar\n")
    with pytest.raises(DataError, match=r"num_classes must be the 3 lines of .*; got 5"):
        load_data(f"folder:{tmp_path}", num_classes=5)


@pytest.mark.parametrize("gone", ["test", "test/masks", "train/masks", "train/images"])
def test_every_split_of_a_folder_with_masks_has_both_folders(tmp_path, gone: str) -> None:
    made.write_masked_tree(tmp_path)
    shutil.rmtree(tmp_path / gone)
    with pytest.raises(DataError, match=rf"must be at .*{gone[:4]}.*/\{{images,masks\}}; got nothing complete"):
        load_data(f"folder:{tmp_path}", num_classes=3)


def test_empty_folders_are_refused(tmp_path) -> None:
    made.write_masked_tree(tmp_path)
    for path in (tmp_path / "train").rglob("*.*"):
        path.unlink()
    with pytest.raises(DataError, match="Both folders are empty"):
        load_data(f"folder:{tmp_path}", num_classes=3)
