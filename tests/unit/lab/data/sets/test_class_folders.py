"""Trees of one folder a class, as people have them."""

import os
import re
import unicodedata
from pathlib import Path

import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.data import load_data
from maxsup.lab.data.sets import folder_index
from maxsup.lab.data.sets.folder_index import ENDINGS, Walk, walk
from tests.unit.lab.data import made


def tree(home: Path, **counts: int) -> Path:
    """Images by folder; ``__`` stands for a slash."""
    for name, count in counts.items():
        folder = home / name.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        if count:
            made.write_files(folder, [f"{index}.png" for index in range(count)], height=8, width=8)
    return home


def sizes(home: Path, **options) -> tuple[int, int, int]:
    data = load_data(f"folder:{home}", **options)
    return len(data.train), len(data.val), len(data.test)


@pytest.mark.parametrize("names", [("train", "val"), ("train", "valid"), ("train", "test"), ("Training", "Testing")])
def test_splits_are_known_by_the_names_that_people_give_them(tmp_path: Path, names: tuple[str, str]) -> None:
    learnt, judged = names
    tree(tmp_path, **{f"{learnt}__cat": 10, f"{learnt}__dog": 10, f"{judged}__cat": 2, f"{judged}__dog": 3})
    assert sizes(tmp_path) == (18, 2, 5)
    assert (load_data(f"folder:{tmp_path}").notes == ()) is judged.lower().startswith("test")


def test_a_folder_of_validation_images_without_one_of_test_images_is_the_test_split_and_says_so(tmp_path: Path) -> None:
    tree(tmp_path, train__cat=10, train__dog=10, valid__cat=2, valid__dog=2)
    [note] = load_data(f"folder:{tmp_path}").notes
    assert "has no test/: valid/ is the test split, and validation images are taken from train/" in note


@pytest.mark.parametrize("place", ["train__", ""])
def test_a_tree_without_a_test_folder_is_split_and_says_so(tmp_path: Path, place: str) -> None:
    tree(tmp_path, **{f"{place}cat": 20, f"{place}dog": 10})
    data = load_data(f"folder:{tmp_path}")
    assert torch.bincount(data.test.labels).tolist() == [4, 2]
    assert len(data.train) + len(data.val) == 24
    [note] = data.notes
    assert "6 of 30 images are held out for the test, 20% of each class (test_share=0.2, test_seed=0)" in note
    assert data.settled == {"test_share": 0.2, "test_seed": 0}


def test_the_split_depends_on_its_seed_and_hardly_on_further_files(tmp_path: Path) -> None:
    tree(tmp_path, cat=30, dog=30)

    def judged(**options) -> set[str]:
        return {path for path, _ in load_data(f"folder:{tmp_path}", **options).test.samples}

    before = judged()
    assert judged() == before
    assert judged(split_seed=5) == before
    assert judged(test_seed=1) != before
    made.write_files(tmp_path / "cat", ["another.png"], height=8, width=8)
    assert len(before - judged()) <= 1
    assert len(judged(test_share=1)) == 61
    assert sizes(tmp_path, test_share=1) == (0, 0, 61)


def test_a_share_for_the_test_is_refused_beside_a_folder_for_it(tmp_path: Path) -> None:
    tree(tmp_path, train__cat=3, train__dog=3, test__cat=1, test__dog=1)
    with pytest.raises(ValueError, match="test_share and test_seed must be left out where there is a folder of test"):
        load_data(f"folder:{tmp_path}", test_share=0.5)


@pytest.mark.parametrize("share", [0, 1.5, "half", True])
def test_a_share_for_the_test_is_a_share(tmp_path: Path, share: object) -> None:
    tree(tmp_path, cat=3, dog=3)
    with pytest.raises(ValueError, match="test_share must be above 0 and at most 1"):
        load_data(f"folder:{tmp_path}", test_share=share)


def test_a_relative_path_that_leads_nowhere_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"is looked for in {re.escape(str(tmp_path))} and in disk, which data.root"):
        load_data("folder:photos", root="disk")


def test_what_systems_leave_in_folders_is_passed_over(tmp_path: Path) -> None:
    tree(tmp_path, train__cat=4, train__dog=4, test__cat=2, test__dog=2)
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "train/cat/._0.png").write_bytes(b"x")
    (tmp_path / "train/cat/Thumbs.db").write_bytes(b"x")
    tree(tmp_path, **{"__MACOSX__cat": 1, "train__.ipynb_checkpoints": 1, "train__cat__.thumbnails": 2})
    data = load_data(f"folder:{tmp_path}")
    assert data.class_names == ("cat", "dog")
    assert (len(data.train) + len(data.val), len(data.test), data.notes) == (8, 4, ())


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_ending_is_found_in_capitals_too(tmp_path: Path, ending: str) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for index, text in enumerate((ending, ending.upper())):
            (tmp_path / name / f"{index}{text}").write_bytes(b"x")
    assert sum(sizes(tmp_path, test_share=0.5, val_share=0)) == 4


def test_links_are_followed_once(tmp_path: Path) -> None:
    tree(tmp_path / "elsewhere", cat=4)
    home = tree(tmp_path / "home", dog=4)
    os.symlink(tmp_path / "elsewhere/cat", home / "cat")
    os.symlink(home / "dog", home / "dog" / "again")
    assert sum(sizes(home)) == 8


def test_one_name_written_by_two_systems_is_one_class(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    tree(tmp_path, **{f"train__{composed}": 4, "train__猫": 4, f"test__{decomposed}": 1, "test__猫": 1})
    assert load_data(f"folder:{tmp_path}").class_names == (composed, "猫")


def test_a_class_of_trains_is_a_class(tmp_path: Path) -> None:
    assert load_data(f"folder:{tree(tmp_path, bus=4, car=4, train=4)}").class_names == ("bus", "car", "train")


@pytest.mark.parametrize(
    ("counts", "note"),
    [
        ({"cat": 5, "dog": 5, "owl": 0}, "class 'owl' has no images and is left out"),
        ({"cat": 5, "dog": 5, "owl": 1}, "the class 'owl' with one image: it is trained on and not evaluated"),
        ({"train__cat": 5, "train__dog": 5, "test__cat": 2}, "has no images of the class 'dog', which cannot be"),
        ({"cat": 5, "dog": 5, "dog__puppy": 3, "": 2}, "2 images directly in"),
    ],
)
def test_what_can_be_used_is_used_with_a_note(tmp_path: Path, counts: dict[str, int], note: str) -> None:
    data = load_data(f"folder:{tree(tmp_path, **counts)}")
    assert any(note in sentence for sentence in data.notes), data.notes
    assert len(data.train) > 0
    assert len(data.test) > 0


def test_images_of_other_formats_are_counted(tmp_path: Path) -> None:
    (tree(tmp_path, cat=4, dog=4) / "cat" / "IMG_1.HEIC").write_bytes(b"x")
    assert any("(1 .heic); convert them" in note for note in load_data(f"folder:{tmp_path}").notes)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, r"must hold a folder a class with images in it; got none\. Endings that are read: \.jpg"),
        ({"": 3}, r"holds 3 images and no folders of classes\. Put each image into a folder"),
        ({"train": 3, "test": 1}, r"train holds 3 images and no folders of classes"),
        ({"cat": 3}, r"has one class, 'cat', and needs two"),
        ({"cat": 1, "dog": 1}, r"has one image of each class and none to test on"),
        ({"photos__train__cat": 2, "photos__test__cat": 1}, r"photos has train/ in it, .* Give folder:.*photos"),
        ({"a__train__cat": 2, "a__test__cat": 1, "b__train__cat": 2}, r"a has train/ in it, so it is no class"),
        ({"train__animals__cat": 2, "train__animals__dog": 2, "test__animals__cat": 1}, r"Give folder:.*animals, or"),
        ({"test__cat": 2, "test__dog": 2}, r"has test/ but no train/ to learn from"),
        ({"train__a": 2, "train__b": 2, "val__a": 1, "valid__a": 1}, r"two folders for one split, val/ and valid/"),
        ({"train__cat": 2, "train__dog": 2, "test__cats": 1}, r"the class that .*train lacks: 'cats'\. Did you mean"),
        ({"train__cat": 2, "train__dog": 2, "test__cat": 0}, r"test has no images in the folders of its classes"),
        (
            {"train__cat": 2, "train__dog": 2, "train__owl": 0, "test__owl": 1},
            r"owl has no images, and",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_found(tmp_path: Path, counts, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        load_data(f"folder:{tree(tmp_path, **counts)}")


def settle(home: Path) -> None:
    for place, _, _ in os.walk(home):
        os.utime(place, (1, len(os.listdir(place))))


def test_a_tree_that_has_settled_is_walked_once_and_again_after_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, cat=10, dog__puppies=10)
    walked: list[str] = []

    def noting(folder: Path) -> Walk:
        walked.append(folder.name)
        return walk(folder)

    monkeypatch.setattr(folder_index, "walk", noting)
    settle(tmp_path)
    assert sizes(tmp_path) == sizes(tmp_path)
    assert sorted(walked) == ["cat", "dog", "puppies"]
    tree(tmp_path, dog__puppies=12)
    settle(tmp_path)
    assert sum(sizes(tmp_path)) == 22
    assert sorted(walked) == ["cat", "dog", "dog", "puppies", "puppies"]
    # A folder that has just changed may go on changing within the same tick of its clock.
    os.utime(tmp_path / "cat")
    assert sizes(tmp_path) == sizes(tmp_path)
    assert walked.count("cat") > 2


def test_another_process_finds_a_large_tree_in_its_index_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "photos"
    tree(home, cat=10, dog=10)
    settle(home)
    walked: list[str] = []
    monkeypatch.setattr(folder_index, "walk", lambda folder: walked.append(folder.name) or walk(folder))
    monkeypatch.setattr(folder_index, "LEAST_KEPT", 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def in_another_process() -> list[str]:
        walked.clear()
        monkeypatch.setattr(folder_index, "_WALKED", {})
        load_data(f"folder:{home}")
        return sorted(walked)

    assert in_another_process() == ["cat", "dog"]
    assert in_another_process() == []
    tree(home, dog=12)
    settle(home)
    assert in_another_process() == ["dog"]
    assert in_another_process() == []
    folder_index.index_path(home).write_text("{}]")
    assert in_another_process() == ["cat", "dog"]
