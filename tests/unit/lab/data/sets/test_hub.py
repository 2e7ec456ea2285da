import datasets
import numpy as np
import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.data import build_pipeline, load_data
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import plan_for

EVALUATION = {"batch_size": 2, "is_training": False}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def table(labels: list, *, feature: object | None = None) -> datasets.Dataset:
    pictures = made.pictures(len(labels), 20, 20)
    features = {"photo": datasets.Image(), "kind": feature or datasets.ClassLabel(names=["a", "b", "c"])}
    return datasets.Dataset.from_dict({"photo": list(pictures), "kind": labels}, features=datasets.Features(features))


def saved(home, **parts: datasets.Dataset) -> str:
    datasets.DatasetDict(parts).save_to_disk(str(home))
    return f"hf:{home}"


@pytest.mark.parametrize("num_workers", [0, 2])
def test_images_of_a_table_are_decoded_when_asked_for(tmp_path, num_workers: int) -> None:
    name = saved(tmp_path / "mine", train=table([0, 1, 2] * 4), test=table([2, 1, 0]))
    data = load_data(name)
    assert data.class_names == ("a", "b", "c")
    options = EVALUATION | {"mean": (0.0,) * 3, "std": (1.0,) * 3, "image_size": 20}
    seen = list(build_pipeline(data.test, plan_for(data.test, num_workers=num_workers, **options)).epoch(0))
    images = torch.cat([batch.images for batch in seen])
    assert torch.cat([batch.labels for batch in seen]).tolist() == [2, 1, 0]
    expected = torch.from_numpy(made.pictures(3, 20, 20)).permute(0, 3, 1, 2) / 255
    torch.testing.assert_close(images, expected)


def test_a_validation_split_is_kept(tmp_path) -> None:
    name = saved(tmp_path / "mine", train=table([0, 1] * 3), validation=table([0, 1]), test=table([1]))
    data = load_data(name)
    assert (len(data.train), len(data.val), len(data.test)) == (6, 2, 1)
    name = saved(tmp_path / "other", train=table([0, 1] * 5), validation=table([0, 1]))
    data = load_data(name)
    assert (len(data.train), len(data.val), len(data.test)) == (8, 2, 2)


@pytest.mark.parametrize("hidden", [-1, None])
def test_a_test_split_without_labels_gives_its_place_to_validation(tmp_path, hidden: int | None) -> None:
    parts = {"train": table([0, 1] * 5), "validation": table([1, 0, 1]), "test": table([hidden] * 4)}
    data = load_data(saved(tmp_path / "mine", **parts))
    assert data.test.labels.tolist() == [1, 0, 1]
    assert (len(data.train), len(data.val)) == (8, 2)
    assert data.notes == (
        "the test split has no labels and is left out",
        "the validation split takes the place of the test split",
    )


def test_a_set_whose_only_other_split_has_no_labels_is_refused(tmp_path) -> None:
    name = saved(tmp_path / "mine", train=table([0, 1]), test=table([-1, -1]))
    with pytest.raises(DataError, match=r"got test, train; the test split has no labels and is left out\. Split"):
        load_data(name)


def test_labels_may_be_words(tmp_path) -> None:
    words = datasets.Value("string")
    name = saved(tmp_path / "mine", train=table(["owl", "elk"] * 3, feature=words), test=table(["owl"], feature=words))
    data = load_data(name, label_column="kind")
    assert data.class_names == ("elk", "owl")
    assert data.test.labels.tolist() == [1]


def test_a_folder_of_images_is_read(tmp_path) -> None:
    made.write_tree(tmp_path / "mine", counts={"train": 3, "test": 1})
    data = load_data("hf:mine", root=tmp_path)
    assert data.class_names == ("class_0", "class_1", "class_2")
    assert len(data.train) + len(data.val) == 9


@pytest.mark.parametrize(
    ("parts", "options", "sentence"),
    [
        ({"train": [0, 1]}, {}, "must be train and test or validation; got train"),
        ({"train": [0, 1], "test": [0]}, {"image_column": "foto"}, "got 'foto'. Did you mean 'photo'"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, parts: dict, options: dict, sentence: str) -> None:
    name = saved(tmp_path / "mine", **{split: table(labels) for split, labels in parts.items()})
    with pytest.raises(DataError, match=sentence):
        load_data(name, **options)


def test_the_column_of_the_labels_must_be_clear(tmp_path) -> None:
    numbers = datasets.Value("int64")
    name = saved(tmp_path / "mine", train=table([0, 1], feature=numbers), test=table([0], feature=numbers))
    with pytest.raises(DataError, match=r"must have one ClassLabel column; got \[\].*Set data\.options\.label_column"):
        load_data(name)


def test_the_hub_is_only_asked_when_allowed(tmp_path) -> None:
    with pytest.raises(DataError, match=r"Add data\.download=true to ask the hub"):
        load_data("hf:someone/something", root=tmp_path)


def test_a_broken_picture_in_a_table_is_a_bad_file(tmp_path) -> None:
    features = datasets.Features({"photo": datasets.Image(decode=False), "kind": datasets.ClassLabel(names=["a"])})
    pictures = [{"bytes": b"broken", "path": None}, {"bytes": np.zeros(9).tobytes(), "path": None}]
    part = datasets.Dataset.from_dict({"photo": pictures, "kind": [0, 0]}, features=features)
    data = load_data(saved(tmp_path / "mine", train=part, test=part))
    with pytest.raises(DataError, match=r"the first image 0 \(UnidentifiedImageError"):
        list(build_pipeline(data.test, plan_for(data.test, **EVALUATION)).epoch(0))
