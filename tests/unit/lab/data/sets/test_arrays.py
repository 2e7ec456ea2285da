import numpy as np
import pytest

from maxsup.core.errors import DataError
from maxsup.lab.data import load_data
from tests.refusals import refused
from tests.unit.lab.data import made

GOOD = {
    "train_images": made.pictures(6, 8, 8),
    "train_labels": np.arange(6) % 2,
    "test_images": made.pictures(2, 8, 8),
    "test_labels": np.arange(2),
}


def test_images_come_with_channels_first(tmp_path) -> None:
    np.savez(tmp_path / "mine.npz", **GOOD)
    data = load_data(f"arrays:{tmp_path / 'mine.npz'}")
    assert data.image_shape == (3, 8, 8)
    assert data.class_names == ("0", "1")
    assert np.array_equal(data.test.images[1].permute(1, 2, 0).numpy(), GOOD["test_images"][1])


def test_grey_images_get_one_channel(tmp_path) -> None:
    grey = {key: value[..., 0] if "images" in key else value for key, value in GOOD.items()}
    np.savez(tmp_path / "mine.npz", **grey)
    assert load_data(f"arrays:{tmp_path / 'mine.npz'}").image_shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"train_images": GOOD["train_images"] / 255}, r"must be uint8 .* got float64 \(6, 8, 8, 3\)"),
        ({"train_labels": np.array(["a"] * 6)}, "labels in .* must be integers; got <U1"),
        ({"train_labels": np.arange(5) % 2}, r"labels must be int64, one an image; got int64 \(5,\) for 6 images"),
        ({"class_names": np.array(["only"])}, "must be from 0 to 0; got 1"),
        ({"train_labels": np.arange(6) % 2 - 1, "class_names": np.array(["a", "b"])}, "must be from 0 to 1; got -1"),
        ({"train_labels": None}, "got no train_labels"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path, changed: dict, sentence: str) -> None:
    values = {key: value for key, value in (GOOD | changed).items() if value is not None}
    np.savez(tmp_path / "mine.npz", **values)
    with pytest.raises(DataError, match=sentence):
        load_data(f"arrays:{tmp_path / 'mine.npz'}")


class Trap:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was executed')",)


def test_a_pickle_inside_is_not_executed(tmp_path) -> None:
    np.savez(tmp_path / "mine.npz", **(GOOD | {"train_labels": np.array([Trap()] * 6, dtype=object)}))
    with pytest.raises(
        DataError, match=r"train_labels must hold plain numbers; got Python objects, which are not read"
    ):
        load_data(f"arrays:{tmp_path / 'mine.npz'}")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut"])
def test_a_broken_file_is_refused(tmp_path, content: bytes) -> None:
    (tmp_path / "mine.npz").write_bytes(content)
    with refused(DataError, "bad-arrays"):
        load_data(f"arrays:{tmp_path / 'mine.npz'}")
