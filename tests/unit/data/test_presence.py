"""Where data is looked for without opening it."""

from pathlib import Path

import pytest

from maxsup.data.presence import missing_places


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
