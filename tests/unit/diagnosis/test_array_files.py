"""Arrays from files of any origin: read right, or refused in one sentence, and never executed."""

from __future__ import annotations

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from maxsup.core.errors import DataError
from maxsup.core.npz import MAX_BYTES
from maxsup.diagnosis.array_files import read_array_files
from maxsup.diagnosis.outputs import Outputs, checked_outputs

LOGITS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
LABELS = np.arange(12) % 3
FEATURES = np.random.default_rng(1).normal(size=(12, 4))


class Trap:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def object_array(trap: Path) -> bytes:
    """An .npy file that holds a trap."""
    array = np.empty(1, dtype=object)
    array[0] = Trap(trap)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def written(folder: Path, ending: str, **arrays: np.ndarray) -> Path:
    """A file with some arrays, or with one."""
    path = folder / f"{'-'.join(arrays)}{ending}"
    [first, *_] = arrays.values()
    if ending == ".npy":
        np.save(path, first)
    elif ending == ".npz":
        np.savez_compressed(path, **arrays)
    elif ending == ".safetensors":
        save_file({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}, path)
    else:
        np.savetxt(path, first, delimiter=",")
    return path


def read(*files: Any, **options: Any) -> Outputs:
    """What files hold, as ``diagnose`` takes it."""
    return checked_outputs(*read_array_files(*files, **options))


def refusal(*files: Any, **options: Any) -> str:
    """The sentence with which files are refused."""
    with pytest.raises(DataError) as caught:
        read(*files, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".csv"])
def test_every_format_gives_the_same_arrays(tmp_path: Path, ending: str) -> None:
    arrays = {"logits": LOGITS, "labels": LABELS, "features": FEATURES}
    found = read(*(written(tmp_path, ending, **{name: array}) for name, array in arrays.items()))
    torch.testing.assert_close(found.logits, torch.from_numpy(LOGITS), rtol=1e-6, atol=1e-6)
    assert found.labels.tolist() == LABELS.tolist()
    assert found.features is not None
    assert found.features.dtype == torch.float32
    torch.testing.assert_close(found.features.double(), torch.from_numpy(FEATURES), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_one_file_may_hold_everything(tmp_path: Path, ending: str) -> None:
    found = read(written(tmp_path, ending, logits=LOGITS, labels=LABELS, features=FEATURES))
    assert found.logits.shape == (12, 3)
    assert found.features is not None


def test_an_array_of_another_name_is_chosen_behind_a_colon(tmp_path: Path) -> None:
    path = written(tmp_path, ".npz", test_logits=LOGITS, test_labels=LABELS)
    assert read(f"{path}:test_logits", f"{path}:test_labels").labels.tolist() == LABELS.tolist()
    assert "test_labels, test_logits" in refusal(path)
    assert "nothing" in refusal(f"{path}:nothing")


def test_the_file_of_a_mapped_array_stays_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, ".npy", logits=LOGITS)
    before = path.read_bytes()
    read(path, written(tmp_path, ".npy", labels=LABELS)).logits.add_(1)
    assert path.read_bytes() == before


def test_the_header_of_a_csv_names_the_classes(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text('cat,"dog, small",<b>\n' + "\n".join("1,2,3.5" for _ in range(12)))
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(str(label) for label in LABELS))
    found = read(tmp_path / "l.csv", tmp_path / "y.csv")
    assert found.class_names == ("cat", "dog, small", "<b>")


def test_class_names_come_from_a_file_and_must_be_as_many_as_classes(tmp_path: Path) -> None:
    path = written(tmp_path, ".npz", logits=LOGITS, labels=LABELS)
    names = tmp_path / "names.txt"
    names.write_text("a\nb\nc\n")
    assert read(path, class_names=names).class_names == ("a", "b", "c")
    names.write_text("a\nb\n")
    assert "class names must be 3" in refusal(path, class_names=names)
    assert "text file" in refusal(path, class_names=tmp_path / "none.txt")


def with_value(value: float) -> np.ndarray:
    array = LOGITS.copy()
    array[7, 1] = value
    return array


@pytest.mark.parametrize(
    ("logits", "labels", "words"),
    [
        (with_value(np.nan), LABELS, "got nan in row 7"),
        (with_value(np.inf), LABELS, "got inf in row 7"),
        (np.full((12, 3), 1e300), LABELS, "got inf in row 0"),
        (LOGITS, LABELS[:-1], "12 rows of logits; got (11,)"),
        (LOGITS, LABELS + 1, "from 0 to 2, the columns of the logits; got 3"),
        (LOGITS, LABELS - 1, "got -1"),
        (LOGITS, LABELS + 0.5, "whole numbers; got 0.5"),
        (LOGITS, np.where(LABELS == 1, np.nan, LABELS), "whole numbers; got nan"),
        (LOGITS, np.array([str(label) for label in LABELS]), "whole numbers"),
        (LOGITS, np.zeros(12, dtype=int), "at least two classes; got 0"),
        (np.eye(3)[LABELS], LABELS, "got probabilities"),
        (LOGITS[:, :1], LABELS, "at least 2 classes; got 1"),
        (LOGITS[:0], LABELS[:0], "got (0, 3)"),
        (LOGITS[:, 0], LABELS, "got (12,)"),
        (LOGITS.astype(complex), LABELS, "real numbers"),
        (LOGITS > 0, LABELS, "real numbers; got bool"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, logits: Any, labels: Any, words: str) -> None:
    np.save(tmp_path / "l.npy", logits)
    np.save(tmp_path / "y.npy", labels)
    assert words in refusal(tmp_path / "l.npy", tmp_path / "y.npy")


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_pickle_in_a_file_is_refused_and_not_run(tmp_path: Path, ending: str) -> None:
    trap, path = tmp_path / "trap", tmp_path / f"l{ending}"
    if ending == ".npy":
        path.write_bytes(object_array(trap))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("logits.npy", object_array(trap))
    assert "object" in refusal(path, path).lower()
    assert not trap.exists()


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".csv"])
def test_a_bare_pickle_under_any_ending_is_not_run(tmp_path: Path, ending: str) -> None:
    trap, path = tmp_path / "trap", tmp_path / f"l{ending}"
    path.write_bytes(pickle.dumps(Trap(trap)))
    assert f"readable {ending} file" in refusal(path, path)
    assert not trap.exists()


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_half_a_file_is_refused(tmp_path: Path, ending: str, share: float) -> None:
    path = written(tmp_path, ending, logits=LOGITS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert f"readable {ending} file" in refusal(path, path)


def test_an_empty_file_an_unknown_ending_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "l.npy").touch()
    assert "0 bytes" in refusal(tmp_path / "l.npy")
    assert "got 'l.pt'" in refusal(tmp_path / "l.pt")
    assert "file that is there" in refusal(tmp_path / "none.npy")


def test_labels_must_be_given_unless_they_are_in_the_same_file(tmp_path: Path) -> None:
    sentence = refusal(written(tmp_path, ".npy", logits=LOGITS))
    assert "Give their file as labels (--labels y.npy on the command line)." in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,3\n4,oops,6\n", "'oops'"),
        ("1,2,3\n4,5\n", "number of columns"),
        ("a,b,c\n", "got (0, "),
        ("name,1,2\nx,3,4\n", "'name'"),
        ("1,2,nan\n" * 12, "got nan in row 0"),
    ],
)
def test_a_csv_that_is_no_matrix_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    assert words in refusal(tmp_path / "l.csv", written(tmp_path, ".npy", labels=LABELS))


def zip_bomb(path: Path, shape: tuple[int, ...], content: bytes) -> None:
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", stream.getvalue() + content)


def test_a_header_that_declares_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    zip_bomb(tmp_path / "l.npz", (10**9, 10**6), b"")
    assert str(MAX_BYTES) in refusal(tmp_path / "l.npz", tmp_path / "l.npz")


def test_an_archive_that_unfolds_a_hundredfold_is_refused_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxsup.core.npz._RATIO_FROM", 1 << 16)
    zip_bomb(tmp_path / "l.npz", (1 << 15, 4), bytes(1 << 19))
    assert "compressed more than 100 times" in refusal(tmp_path / "l.npz", tmp_path / "l.npz")


def test_a_directory_that_lies_about_a_member_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ".npz", logits=LOGITS)
    content = bytearray(path.read_bytes())
    entry = content.rfind(b"PK\x01\x02")
    size = int.from_bytes(content[entry + 24 : entry + 28], "little")
    content[entry + 24 : entry + 28] = (size - 16).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    assert "readable .npz file" in refusal(path, path)


def test_a_header_that_declares_to_be_long_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "l.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("logits.npy", "w", force_zip64=True) as member,
    ):
        member.write(b"\x93NUMPY\x02\x00" + (1 << 28).to_bytes(4, "little"))
        for _ in range(1 << 6):
            member.write(b" " * (1 << 22))
    assert (tmp_path / "l.npz").stat().st_size < 1 << 20
    tracemalloc.start()
    assert "readable .npz file" in refusal(tmp_path / "l.npz", tmp_path / "l.npz")
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.mark.parametrize("descr", ["|V0", "<U0", "|S0"])
def test_any_number_of_entries_of_no_size_is_refused(tmp_path: Path, descr: str) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(written(tmp_path, ".npz", logits=LOGITS, labels=LABELS), "a") as archive:
        archive.writestr("class_names.npy", stream.getvalue())
    assert "class_names must hold numbers or words" in refusal(archive.filename, None)


def test_an_archive_of_very_many_arrays_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "l.npz", "w") as archive:
        for number in range(10_001):
            archive.writestr(f"{number}.npy", b"")
    assert "at most 10000 arrays; got 10001" in refusal(tmp_path / "l.npz", tmp_path / "l.npz")


def test_a_directory_that_lies_about_what_a_member_takes_on_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxsup.core.npz._RATIO_FROM", 1 << 16)
    zip_bomb(tmp_path / "l.npz", (1 << 15, 4), bytes(1 << 19))
    content = bytearray((tmp_path / "l.npz").read_bytes())
    entry = content.rfind(b"PK\x01\x02")
    content[entry + 20 : entry + 24] = (1 << 26).to_bytes(4, "little")
    (tmp_path / "l.npz").write_bytes(bytes(content))
    assert "compressed more than 100 times" in refusal(tmp_path / "l.npz", tmp_path / "l.npz")
