from pathlib import Path

import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.data import describe_datasets, load_data
from maxsup.lab.data.registry import missing_places
from tests.unit.lab.data import made


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"got 'cifar'\. Did you mean 'cifar10'"):
        load_data("cifar")


@pytest.mark.parametrize(("path", "meant"), [
    ("good", "folder:good"),
    ("./good", "folder:./good"),
    ("photos.npz", "arrays:photos.npz"),
    ("kept", "folder:kept"),
])  # fmt: skip
def test_a_path_in_place_of_a_name_is_refused_with_how_it_is_written(
    path: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAXSUP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("good").mkdir()
    Path("data/kept").mkdir(parents=True)
    Path("photos.npz").touch()
    with pytest.raises(ValueError, match="data set must be a registered name") as error:
        load_data(path)
    assert str(error.value).endswith(f"; got {path!r}. Did you mean {meant!r}?")


@pytest.mark.parametrize(("name", "form"), [("folder", "folder:PATH"), ("digits:8", "digits")])
def test_a_name_with_a_wrong_argument_is_refused(name: str, form: str) -> None:
    with pytest.raises(ValueError, match=f"must be written {form}; got '{name}'"):
        load_data(name)


def test_the_root_is_the_argument_or_the_environment(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write_npz(tmp_path / "one" / "cifar10.npz", classes=2)
    made.write_npz(tmp_path / "two" / "cifar10.npz", classes=3)
    monkeypatch.setenv("MAXSUP_DATA", str(tmp_path / "two"))
    assert load_data("cifar10").num_classes == 3
    assert load_data("cifar10", root=tmp_path / "one").num_classes == 2
    monkeypatch.delenv("MAXSUP_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"data/cifar10\.npz"):
        load_data("cifar10")


def test_the_test_split_does_not_depend_on_the_validation_split(tmp_path) -> None:
    made.write_npz(tmp_path / "mine.npz")
    one = load_data("arrays:mine.npz", root=tmp_path, val_share=0.1, split_seed=0)
    two = load_data("arrays:mine.npz", root=tmp_path, val_share=0.5, split_seed=7)
    assert torch.equal(one.test.images, two.test.images)
    assert len(one.val) == 3
    assert len(two.val) == 15


def test_without_a_share_everything_is_trained_on(tmp_path) -> None:
    made.write_tree(tmp_path / "own_val", counts={"train": 4, "val": 2, "test": 1})
    data = load_data("folder:own_val", root=tmp_path, val_share=0)
    assert (len(data.train), len(data.val), len(data.test)) == (18, 0, 3)
    assert len(load_data("digits", val_share=0).train) == 1438


def test_a_validation_folder_is_kept_as_it_is(tmp_path) -> None:
    made.write_tree(tmp_path / "own_val", counts={"train": 4, "val": 2, "test": 1})
    data = load_data("folder:own_val", root=tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (12, 6, 3)
    assert all("/val/" in path for path, _ in data.val.samples)


def test_cifar_is_read_in_the_layout_of_torchvision(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision

    made.write_cifar10_batches(tmp_path / "cifar-10-batches-py")
    with pytest.raises(DataError, match="got nothing complete there"):
        load_data("cifar10", root=tmp_path)
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", lambda *_: True)
    data = load_data("cifar10", root=tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (90, 10, 20)
    assert data.class_names[3] == "kind 3"
    assert torch.equal(data.test.images, torch.from_numpy(made.pictures(20, seed=5)).permute(0, 3, 1, 2))


def test_a_missing_set_is_explained_in_our_words_and_a_failed_download_in_those_of_the_reader(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torchvision

    def fail(*_: object, **options: object) -> None:
        raise RuntimeError("the server\nis asleep" if options["download"] else "You can use download=True")

    monkeypatch.setattr(torchvision.datasets, "CIFAR10", fail)
    with pytest.raises(DataError, match=r"there\. Add data\.download=true to fetch it, or say with data\.root .*is\.$"):
        load_data("cifar10", root=tmp_path)
    with pytest.raises(DataError, match=r"there\. Fetching it failed: the server is asleep$"):
        load_data("cifar10", root=tmp_path, download=True)


def test_flowers_are_read_in_the_layout_of_torchvision(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torchvision

    made.write_flowers(tmp_path / "flowers-102")
    monkeypatch.setattr(torchvision.datasets.Flowers102, "_check_integrity", lambda self: True)
    data = load_data("flowers102", root=tmp_path)
    assert (len(data.train), len(data.val), len(data.test)) == (2, 2, 2)
    assert data.val.samples[0] == (str(tmp_path / "flowers-102/jpg/image_00003.jpg"), 0)


def test_files_keep_their_labels(tmp_path) -> None:
    made.write_cub(tmp_path / "CUB_200_2011")
    data = load_data("cub200", root=tmp_path)
    assert data.class_names == ("Bird0", "Bird1")
    assert [path[-6:-4] for path, _ in data.test.samples] == ["01", "03", "05", "07", "09", "11"]
    assert data.test.labels.tolist() == [0, 0, 0, 1, 1, 1]
    made.write_cars(tmp_path / "stanford_cars")
    cars = load_data("stanford_cars", root=tmp_path, val_share=0)
    assert cars.class_names == ("car a", "car b")
    assert cars.train.labels.tolist() == [0, 1] * 4


def test_every_data_set_describes_itself() -> None:
    rows = {row["name"]: row for row in describe_datasets()}
    assert list(rows["folder:PATH"]["options"]) == ["num_classes", "ignore", "palette", "test_share", "test_seed"]
    assert rows["camvid"]["options"] == {}
    assert rows["cifar10_lt"]["options"] == {"imbalance": 100, "subset_seed": 0}
    assert all(row["images"] and row["source"] for row in rows.values())


@pytest.mark.parametrize("place", ["cifar10.npz", "cifar-10-batches-py"])
def test_one_of_the_places_is_enough(place: str, tmp_path: Path) -> None:
    (tmp_path / place).mkdir()
    assert missing_places("cifar10", tmp_path) == []
    assert missing_places("cifar10_lt", tmp_path) == []


@pytest.mark.parametrize(("name", "reader"), [("cifar10", "CIFAR10"), ("cifar100", "CIFAR100")])
def test_the_places_are_those_of_the_reader(name: str, reader: str, tmp_path: Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets")
    assert tmp_path / getattr(datasets, reader).base_folder in missing_places(name, tmp_path)


def test_a_set_made_of_another_needs_both_unless_it_is_generated(tmp_path: Path) -> None:
    assert missing_places("cifar10_c", tmp_path) == [tmp_path / "CIFAR-10-C"]
    (tmp_path / "CIFAR-10-C").mkdir()
    clean = [tmp_path / "cifar10.npz", tmp_path / "cifar-10-batches-py"]
    assert missing_places("cifar10_c", tmp_path) == clean
    assert missing_places("cifar10_c", tmp_path / "other", is_generated=True) == missing_places(
        "cifar10", tmp_path / "other"
    )
    (tmp_path / "cifar10.npz").touch()
    assert missing_places("cifar10_c", tmp_path) == []


def test_a_path_is_looked_for_here_and_under_the_root(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert missing_places("folder:mine", tmp_path) == []
    assert missing_places(f"folder:{tmp_path}/mine") == []
    assert missing_places("folder:mine", tmp_path / "mine") == [Path("mine")]
