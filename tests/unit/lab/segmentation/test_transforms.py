"""What is done to an image happens to its mask too, and labels are moved, never mixed."""

import colorsys

import numpy as np
import pytest
from PIL import Image

from maxsup.lab.core.config import DenseConfig
from maxsup.lab.segmentation.transforms import (
    TrainingCutout,
    distort_colours,
    draw_crop,
    fill_up,
    resize_image,
    resize_mask,
    scale_sides,
)
from tests.unit.lab.data import made

STEP = 40
IGNORED = 255


def painted(height: int, width: int, seed: int = 0) -> tuple[Image.Image, np.ndarray]:
    """A mask of large patches, and the image that shows the number of each pixel's class."""
    mask = made.masks(1, height, width, [0, 1, 2, 3, 4, 5], seed)[0]
    return Image.fromarray(np.repeat(mask[..., None] * STEP, 3, axis=2)), mask


def interior(mask: np.ndarray, reach: int) -> np.ndarray:
    """Pixels that have only their own label around them, so that bilinear scaling leaves their colour alone."""
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(mask, reach, constant_values=IGNORED), (2 * reach + 1,) * 2
    )
    return (windows == mask[..., None, None]).all((2, 3))


def draws(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("size", [32, 80])
@pytest.mark.parametrize("resize", [None, 64])
def test_image_and_mask_move_together(flip: bool, size: int, resize: int | None) -> None:
    cutout = TrainingCutout(DenseConfig(resize=resize, ratio=(0.5, 2.0)), flip, size)
    num_checked = 0
    for seed in range(40):
        pixels, mask, height, width = cutout(*painted(72, 96, seed), draws(seed))
        assert pixels.shape == (size, size, 3)
        assert mask.shape == (size, size)
        clear = interior(mask, 3) & (mask != IGNORED)
        assert np.abs(pixels[clear].astype(int) - STEP * mask[clear, None]).max(initial=0) <= 1
        assert (mask[:height, :width] != IGNORED).all()
        num_checked += clear.sum()
    # Else the check above would say little.
    assert num_checked > 0.1 * 40 * size * size


def test_half_of_the_cutouts_are_mirrored() -> None:
    image, mask = painted(40, 40)
    cutout = TrainingCutout(DenseConfig(), True, 40)
    masks = [cutout(image, mask, draws(seed)).mask for seed in range(200)]
    num_mirrored = sum(np.array_equal(each, mask[:, ::-1]) for each in masks)
    assert all(np.array_equal(each, mask) or np.array_equal(each, mask[:, ::-1]) for each in masks)
    # Five standard deviations of 200 fair coins.
    assert abs(num_mirrored - 100) < 36


def test_the_same_dice_give_the_same_cutout() -> None:
    dense = DenseConfig(ratio=(0.5, 2.0), cat_max_ratio=0.5, photometric=True)
    cutout = TrainingCutout(dense, True, 32)
    image, mask = painted(72, 96)
    one, other, different = (cutout(image, mask, draws(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.pixels, other.pixels)
    assert np.array_equal(one.mask, other.mask)
    assert not np.array_equal(one.mask, different.mask)


@pytest.mark.parametrize(
    ("sides", "resize", "ratio", "expected"),
    [
        ((683, 512), 512, 1.0, (683, 512)),
        ((512, 683), 256, 1.0, (256, 342)),
        ((3000, 300), 512, 1.0, (2048, 205)),
        ((640, 480), 512, 0.5, (341, 256)),
        ((640, 480), None, 2.0, (1280, 960)),
        ((90, 1), None, 0.1, (9, 1)),
    ],
)
def test_the_shorter_side_is_scaled_and_the_longer_one_bounded(sides, resize, ratio, expected) -> None:
    assert scale_sides(sides, resize, ratio) == expected


@pytest.mark.parametrize("sides", [(17, 11), (96, 40), (200, 131)])
def test_a_scaled_mask_holds_no_new_label(sides: tuple[int, int]) -> None:
    mask = made.masks(1, 40, 64, [0, 7, 150, 255])[0]
    scaled = resize_mask(mask, sides)
    assert scaled.shape == sides[::-1]
    assert set(np.unique(scaled)) == {0, 7, 150, 255}


def test_labels_stay_where_they_are_when_scaled() -> None:
    mask = made.masks(1, 40, 64, [0, 1, 2])[0]
    assert np.array_equal(resize_mask(mask, (128, 80)), mask.repeat(2, 0).repeat(2, 1))


def test_an_image_of_the_right_size_is_not_touched() -> None:
    image, mask = painted(40, 64)
    assert np.array_equal(resize_image(image, (64, 40)), np.asarray(image))
    assert resize_mask(mask, (64, 40)) is mask


def test_crops_are_everywhere_and_inside() -> None:
    mask = np.zeros((9, 12), np.uint8)
    crops = [draw_crop(mask, 8, 1.0, draws(seed)) for seed in range(200)]
    assert {(rows.start, columns.start) for rows, columns in crops} == {
        (top, left) for top in (0, 1) for left in range(5)
    }


def half_and_half() -> np.ndarray:
    """Class 0 on nine tenths, class 1 on the right edge."""
    mask = np.zeros((20, 200), np.uint8)
    mask[:, 180:] = 1
    return mask


def test_a_crop_of_one_class_is_drawn_again() -> None:
    mask = half_and_half()
    shares = {}
    for max_share in (1.0, 0.99):
        crops = [mask[draw_crop(mask, 20, max_share, draws(seed))] for seed in range(300)]
        shares[max_share] = np.mean([len(np.unique(crop)) > 1 for crop in crops])
    # A crop has two classes with a chance of 19/181, one of eleven draws with 1 - (162/181)^11 = 0.705.
    assert shares[1.0] == pytest.approx(19 / 181, abs=0.06)
    assert shares[0.99] == pytest.approx(0.705, abs=0.09)


def test_a_crop_with_too_much_of_one_class_is_drawn_again() -> None:
    mask = half_and_half()
    tops = [np.bincount(mask[draw_crop(mask, 20, 0.75, draws(seed))].ravel()).max() / 400 for seed in range(300)]
    # 10 of 181 places are good; one of eleven draws is with 1 - (171/181)^11 = 0.465.
    assert np.mean(np.array(tops) < 0.75) == pytest.approx(0.465, abs=0.1)


@pytest.mark.parametrize(
    ("columns", "max_share", "num_draws"),
    [
        ([0, 0, 0, 1], 0.75, 11),  # a share that is just reached is too much
        ([0, 0, 0, 1], 0.76, 1),
        ([0, 0, 0, 1, *[IGNORED] * 4], 0.7, 11),  # shares are of labelled pixels
        ([0, 0, *[IGNORED] * 2], 0.99, 11),  # ignored pixels are no class
    ],
)
def test_a_crop_is_drawn_until_no_class_has_too_much(columns: list[int], max_share: float, num_draws: int) -> None:
    # Every crop holds every column once.
    mask, size = np.tile(np.array(columns, np.uint8), (8, 10)), len(columns)
    generator, reference = draws(0), draws(0)
    draw_crop(mask, size, max_share, generator)
    for _ in range(num_draws):
        draw_crop(mask, size, 1.0, reference)
    assert generator.random() == reference.random()


@pytest.mark.parametrize(("height", "width"), [(5, 8), (8, 3), (2, 2), (8, 8)])
def test_what_is_missing_is_black_and_ignored(height: int, width: int) -> None:
    pixels, mask, *extent = fill_up(np.full((height, width, 3), 9, np.uint8), np.full((height, width), 4, np.uint8), 8)
    assert extent == [height, width]
    assert (mask[:height, :width] == 4).all()
    assert (pixels[:height, :width] == 9).all()
    outside = np.ones((8, 8), bool)
    outside[:height, :width] = False
    assert (mask[outside] == IGNORED).all()
    assert (pixels[outside] == 0).all()


def test_distortion_stays_within_its_ranges() -> None:
    grey = np.full((4, 4, 3), 120, np.uint8)
    levels = np.array([distort_colours(grey, draws(seed))[0, 0] for seed in range(500)])
    # Grey has no hue and no saturation: brightness and contrast remain, 0.5 (120 - 32) to 1.5 (120 + 32).
    assert (levels == levels[:, :1]).all()
    assert levels.min() >= 44
    assert levels.max() <= 228
    assert levels.min() < 60
    assert levels.max() > 200
    # Neither changes in a quarter of the cases; five standard deviations are 0.1.
    assert np.mean(levels[:, 0] == 120) == pytest.approx(0.25, abs=0.1)


def test_distortion_turns_the_hue_by_at_most_thirty_six_degrees() -> None:
    olive = np.full((4, 4, 3), (120, 110, 60), np.uint8)
    before = colorsys.rgb_to_hsv(120, 110, 60)
    after = [colorsys.rgb_to_hsv(*map(int, distort_colours(olive, draws(seed))[0, 0])) for seed in range(500)]
    turns = np.array([360 * (hue - before[0]) for hue, _, _ in after])
    # Rounding to bytes costs a few degrees in dark colours.
    assert np.abs(turns).max() < 44
    assert np.percentile(turns, 5) < -22
    assert np.percentile(turns, 95) > 22
    saturations = np.array([saturation for _, saturation, _ in after])
    assert saturations.min() < 0.3 < before[1] < 0.7 < saturations.max()


def test_distortion_changes_the_image_only() -> None:
    image, mask = painted(40, 40)
    plain, coloured = (
        TrainingCutout(DenseConfig(photometric=is_on), False, 40)(image, mask, draws(3)) for is_on in (False, True)
    )
    assert np.array_equal(plain.mask, coloured.mask)
    assert not np.array_equal(plain.pixels, coloured.pixels)
