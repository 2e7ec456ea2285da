"""A mask that is not certainly right ends the run with one sentence that names the file."""

import re

import numpy as np
import pytest
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.data import IGNORED_LABEL
from maxsup.dense.mask_files import MaskFileReader, paired_files
from tests.unit.data import hostile, made

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


def refusal(reader: MaskFileReader, sample: tuple[str, str]) -> str:
    with pytest.raises(DataError) as error:
        reader(sample)
    assert "\n" not in str(error.value)
    assert sample[1] in str(error.value)
    return str(error.value)


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


def test_a_mask_of_another_size_is_refused(tmp_path, image_path: str) -> None:
    sentence = refusal(READER, (image_path, stored(tmp_path, Image.fromarray(LABELS.T.copy()))))
    assert "must be as large as its image, 4x3; got 3x4" in sentence


@pytest.mark.parametrize("value", [3, 254])
def test_a_label_that_is_no_class_is_refused_by_value(tmp_path, image_path: str, value: int) -> None:
    labels = LABELS.copy()
    labels[1, 1] = value
    sentence = refusal(READER, (image_path, stored(tmp_path, Image.fromarray(labels))))
    assert f"must be 0 to 2 or 255; got {value}." in sentence


def test_a_label_beyond_all_known_ones_is_refused_by_value(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(np.full((3, 4), 300, dtype=np.uint16)))
    assert "got 300." in refusal(READER, (image_path, mask))


def test_a_negative_label_is_refused_by_value(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(np.full((3, 4), -1, dtype=np.int32)), "mask.tif")
    assert "got -1." in refusal(READER, (image_path, mask))


def test_a_palette_is_refused_with_the_option_that_reads_it(tmp_path, image_path: str) -> None:
    assert "Pass the option palette=index" in refusal(READER, (image_path, stored(tmp_path, with_palette())))


def test_a_palette_can_be_read_by_index(tmp_path, image_path: str) -> None:
    reader = MaskFileReader(READER.numbers, "index")
    assert reader((image_path, stored(tmp_path, with_palette()))).mask.tolist() == LABELS.tolist()


def test_palette_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="palette must be refuse or index; got 'colours'"):
        MaskFileReader({0: 0}, "colours")


def test_colours_are_refused(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(made.pictures(1, 3, 4)[0]))
    assert "got colours" in refusal(READER, (image_path, mask))


def test_a_compression_that_changes_labels_is_refused(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(LABELS), "mask.jpg")
    assert "stored without loss; got a JPEG file" in refusal(READER, (image_path, mask))


def test_floating_point_labels_are_refused(tmp_path, image_path: str) -> None:
    mask = stored(tmp_path, Image.fromarray(LABELS.astype(np.float32)), "mask.tif")
    assert "got mode F" in refusal(READER, (image_path, mask))


def test_a_missing_mask_is_refused(tmp_path, image_path: str) -> None:
    assert "must be readable; got FileNotFoundError" in refusal(READER, (image_path, str(tmp_path / "gone.png")))


def test_a_damaged_mask_is_refused(tmp_path, image_path: str) -> None:
    (tmp_path / "mask.png").write_bytes(hostile.encoded(Image.fromarray(LABELS), "PNG")[:45])
    assert "must be readable; got OSError" in refusal(READER, (image_path, str(tmp_path / "mask.png")))


def test_a_damaged_image_is_refused_by_its_own_name(tmp_path) -> None:
    (tmp_path / "image.jpg").write_bytes(hostile.LEFT_OUT["truncated.jpg"])
    with pytest.raises(DataError, match=re.escape(f"image {tmp_path / 'image.jpg'} must be readable; got")):
        READER((str(tmp_path / "image.jpg"), "unused.png"))


def test_files_of_one_name_are_pairs_whatever_their_ending(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["b", "a"], [0, 1])
    made.write_masked(tmp_path / "images" / "more", tmp_path / "masks" / "more", ["a"], [0, 1])
    (tmp_path / "images" / "notes.txt").write_text("no image")
    (tmp_path / "masks" / "._a.png").write_bytes(b"what some systems leave behind")
    pairs = paired_files(tmp_path / "images", tmp_path / "masks")
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
        paired_files(tmp_path / "images", tmp_path / "masks")


def test_names_that_differ_are_shown_side_by_side(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["a", "b"], [0, 1])
    for path in list((tmp_path / "masks").iterdir()):
        path.rename(path.with_name(f"{path.stem}_mask.png"))
    with pytest.raises(DataError) as error:
        paired_files(tmp_path / "images", tmp_path / "masks")
    one, other = (tmp_path / name for name in ("images/a.jpg", "masks/a_mask.png"))
    assert f"first {one} and 2 masks without a partner, the first {other}. Give both the same name" in str(error.value)


def test_two_images_of_one_name_are_refused(tmp_path) -> None:
    made.write_masked(tmp_path / "images", tmp_path / "masks", ["a"], [0, 1])
    Image.fromarray(LABELS).save(tmp_path / "images" / "a.png")
    with pytest.raises(DataError, match=r"got a\.jpg and a\.png"):
        paired_files(tmp_path / "images", tmp_path / "masks")
