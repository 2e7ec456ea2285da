"""A mask that is not certainly right ends the run with one sentence that names the file."""

import re

import numpy as np
import pytest
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.data import IGNORED_LABEL
from maxsup.lab.segmentation.mask_files import MaskFileReader, pair_files
from tests.unit.lab.data import hostile, made

READER = MaskFileReader({0: 0, 1: 1, 2: 2, 255: IGNORED_LABEL})
LABELS = np.array([[0, 1, 2, 255]] * 3, dtype=np.uint8)


@pytest.fixture
def image_path(tmp_path) -> str:
    Image.fromarray(made.pictures(1, 3, 4)[0]).save(tmp_path / "image.png")
    return str(tmp_path / "image.png")


def stored(tmp_path, image: Image.Image, name: str = "mask.png", **options) -> str:
    image.save(tmp_path / name, **options)
    return str(tmp_path / name)


def with_palette() -> Image.Image:
    image = Image.frombytes("P", (4, 3), LABELS.tobytes())
    image.putpalette([value % 256 for value in range(3, 771)])
    return image


def test_values_become_class_numbers(tmp_path, image_path: str) -> None:
    reader = MaskFileReader({0: IGNORED_LABEL, 1: 0, 2: 1, 255: 2})
    image, mask, path = reader((image_path, stored(tmp_path, Image.fromarray(LABELS))))
    assert mask.dtype == np.uint8
    assert mask.tolist() == [[255, 0, 1, 2]] * 3
    assert (image.mode, image.size, path) == ("RGB", (4, 3), image_path)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA"])
def test_a_grey_mask_is_read_in_whatever_mode_it_is_stored(tmp_path, image_path: str, mode: str) -> None:
    mask = stored(tmp_path, Image.fromarray(LABELS).convert(mode))
    assert READER((image_path, mask)).mask.tolist() == LABELS.tolist()


def test_labels_may_have_sixteen_bits(tmp_path, image_path: str) -> None:
    reader = MaskFileReader({0: 0, 1: 1, 65535: IGNORED_LABEL})
    mask = stored(tmp_path, Image.fromarray(np.array([[0, 1, 65535, 0]] * 3, dtype=np.uint16)))
    assert reader((image_path, mask)).mask.tolist() == [[0, 1, 255, 0]] * 3


def test_a_mask_of_two_values_may_have_one_bit(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(np.array([[True, False] * 2] * 3)))
    assert READER((image_path, mask)).mask.tolist() == [[1, 0, 1, 0]] * 3


def with_label(value: int) -> Image.Image:
    labels = LABELS.copy()
    labels[1, 1] = value
    return Image.fromarray(labels)


@pytest.mark.parametrize(
    ("mask", "name", "sentence"),
    [
        (Image.fromarray(LABELS.T.copy()), "mask.png", "must be as large as its image, 4x3; got 3x4"),
        (with_label(3), "mask.png", "must be 0 to 2 or 255; got 3."),
        (with_label(254), "mask.png", "must be 0 to 2 or 255; got 254."),
        (Image.fromarray(np.full((3, 4), 300, dtype=np.uint16)), "mask.png", "got 300."),
        (Image.fromarray(np.full((3, 4), -1, dtype=np.int32)), "mask.tif", "got -1."),
        (with_palette(), "mask.png", "Pass the option palette=index"),
        (Image.fromarray(made.pictures(1, 3, 4)[0]), "mask.png", "got colours"),
        (Image.fromarray(LABELS), "mask.jpg", "stored without loss; got a JPEG file"),
        (Image.fromarray(LABELS.astype(np.float32)), "mask.tif", "got mode F"),
        (None, "gone.png", "must be readable; got FileNotFoundError"),
        (hostile.encoded(Image.fromarray(LABELS), "PNG")[:45], "cut.png", "must be readable; got OSError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_doubtful_mask_is_refused_in_one_sentence_that_names_it(
    tmp_path, image_path: str, mask: Image.Image | bytes | None, name: str, sentence: str
) -> None:
    if isinstance(mask, bytes):
        (tmp_path / name).write_bytes(mask)
    elif mask is not None:
        mask.save(tmp_path / name)
    with pytest.raises(DataError) as error:
        READER((image_path, str(tmp_path / name)))
    assert "\n" not in str(error.value)
    assert str(tmp_path / name) in str(error.value)
    assert sentence in str(error.value)


def test_a_palette_can_be_read_by_index(tmp_path, image_path: str) -> None:
    reader = MaskFileReader(READER.numbers, "index")
    assert reader((image_path, stored(tmp_path, with_palette()))).mask.tolist() == LABELS.tolist()


def test_palette_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="palette must be refuse or index; got 'colours'"):
        MaskFileReader({0: 0}, "colours")


def test_a_damaged_image_is_refused_by_its_own_name(tmp_path) -> None:
    (tmp_path / "image.jpg").write_bytes(hostile.LEFT_OUT["truncated.jpg"])
    with pytest.raises(DataError, match=re.escape(f"image {tmp_path / 'image.jpg'} must be readable; got")):
        READER((str(tmp_path / "image.jpg"), "unused.png"))


def test_files_of_one_name_are_pairs_whatever_their_ending(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["b", "a"], [0, 1])
    made.write_masked(tmp_path / "images" / "more", tmp_path / "masks" / "more", ["a"], [0, 1])
    (tmp_path / "images" / "notes.txt").write_text("no image")
    (tmp_path / "masks" / "._a.png").write_bytes(b"what some systems leave behind")
    pairs = pair_files(tmp_path / "images", tmp_path / "masks")
    assert pairs == [
        (str(tmp_path / "images" / f"{name}.jpg"), str(tmp_path / "masks" / f"{name}.png"))
        for name in ("a", "b", "more/a")
    ]


@pytest.mark.parametrize(("kind", "gone"), [("image", "masks/b.png"), ("mask", "images/b.jpg")])
def test_one_without_the_other_is_refused_by_name(tmp_path, kind: str, gone: str) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["a", "b", "c"], [0, 1])
    (tmp_path / gone).unlink()
    left = tmp_path / ("images/b.jpg" if kind == "image" else "masks/b.png")
    with pytest.raises(DataError, match=re.escape(f"got 1 {kind}s without a partner, the first {left}. Add what")):
        pair_files(tmp_path / "images", tmp_path / "masks")


def test_names_that_differ_are_shown_side_by_side(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["a", "b"], [0, 1])
    for path in list((tmp_path / "masks").iterdir()):
        path.rename(path.with_name(f"{path.stem}_mask.png"))
    with pytest.raises(DataError) as error:
        pair_files(tmp_path / "images", tmp_path / "masks")
    one, other = (tmp_path / name for name in ("images/a.jpg", "masks/a_mask.png"))
    assert f"first {one} and 2 masks without a partner, the first {other}. Give both the same name" in str(error.value)


def test_two_images_of_one_name_are_refused(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["a"], [0, 1])
    Image.fromarray(LABELS).save(tmp_path / "images" / "a.png")
    with pytest.raises(DataError, match=r"got a\.jpg and a\.png"):
        pair_files(tmp_path / "images", tmp_path / "masks")
