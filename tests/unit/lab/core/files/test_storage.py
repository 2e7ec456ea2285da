"""Files are whole or untouched."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from maxsup.core.errors import StorageError
from maxsup.lab.core.files.storage import (
    append_line,
    check_folder,
    failed_write,
    json_text,
    make_folder,
    replace_bytes,
    replace_link,
    write_bytes,
)


def test_a_replaced_file_has_the_new_content_and_nothing_is_left_over(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        replace_bytes(path, content)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_path_and_bytes() -> None:
    with pytest.raises(
        StorageError, match=r"/dev/full must be writable; got No space left on device after 0 of 3 bytes"
    ):
        write_bytes(Path("/dev/full"), b"abc")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_bytes(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="after 3 of 3 bytes"):
        replace_bytes(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_failed_append_takes_back_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines"
    append_line(path, "one")
    write = os.write

    def half_then_full(descriptor: int, content: bytes) -> int:
        if len(content) < 4:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:2])

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(StorageError, match="after 2 of 4 bytes"):
        append_line(path, "two")
    assert path.read_text() == "one\n"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    write_bytes(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_link_is_moved_in_one_step(tmp_path: Path) -> None:
    link = tmp_path / "last"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        replace_link(link, name)
    assert os.readlink(link) == "b"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "last"]


def test_json_has_no_numbers_that_json_has_not() -> None:
    value = {"a": [math.nan, math.inf, 1.5], "b": {"c": -math.inf}}
    assert json.loads(json_text(value), parse_constant=pytest.fail) == {"a": [None, None, 1.5], "b": {"c": None}}


def test_floats_survive_json_to_the_last_bit() -> None:
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308]
    assert json.loads(json_text(values)) == values


@pytest.mark.parametrize("make", [make_folder, check_folder])
@pytest.mark.parametrize(
    ("name", "reason"), [("file", "a file of that name"), ("file/a/b", "a file in the place of a folder above it")]
)
def test_a_folder_that_cannot_be_made_is_one_sentence_with_the_reason(
    tmp_path: Path, make: Callable[[Path], None], name: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as caught:
        make(tmp_path / name)
    expected = f"{tmp_path / name} must be a folder that can be made; got {reason}. Choose another output."
    assert str(caught.value) == expected


def test_looking_whether_a_folder_can_be_made_makes_none(tmp_path: Path) -> None:
    check_folder(tmp_path / "a/b")
    check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    make_folder(tmp_path / "a/b")
    make_folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()


def test_a_write_that_fails_for_want_of_a_folder_says_nothing_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError) as caught:
        (tmp_path / "file").mkdir()
    sentence = str(failed_write(tmp_path / "file", 0, 0, caught.value))
    assert sentence == f"{tmp_path / 'file'} must be a folder that can be made; got a file of that name. " + (
        "Choose another output."
    )
