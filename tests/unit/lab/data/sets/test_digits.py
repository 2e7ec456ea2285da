import pytest
import torch

from maxsup.lab.data import load_data
from maxsup.lab.data.sets.digits import hue_to_rgb, placed_digits

DIGIT = torch.full((1, 1, 8, 8), 255, dtype=torch.uint8)
FACTORS = {"hue": (0, 1), "x": (8, 16), "y": (8, 16), "scale": (1.25, 2), "background": (0, 0.3)}


def test_factors_cover_their_ranges_and_know_nothing_of_the_class() -> None:
    train = load_data("synthetic").train
    assert set(train.factors) == set(FACTORS)
    one_hot = torch.nn.functional.one_hot(train.labels).float()
    for name, (low, high) in FACTORS.items():
        values = train.factors[name]
        assert values.shape == train.labels.shape
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high
        class_means = one_hot.T @ values / one_hot.sum(0)
        # Five standard errors of a mean over 190 uniform numbers.
        assert (class_means - (low + high) / 2).abs().max() < 5 * (high - low) / 12**0.5 / 190**0.5


def test_a_digit_is_where_its_factors_say() -> None:
    split = placed_digits(DIGIT.expand(200, -1, -1, -1), torch.zeros(200, dtype=torch.int64), seed=3)
    names = ("x", "y", "scale", "background", "hue")
    placed = zip(split.images.float() / 255, *(split.factors[name] for name in names), strict=True)
    for image, x, y, scale, background, hue in placed:
        colour = hue_to_rgb(hue)
        ink = ((image - background).abs().amax(0) > 0.2).float()
        centres = torch.arange(24) + 0.5
        assert (ink.sum(0) @ centres / ink.sum() - x).abs() < 0.6
        assert (ink.sum(1) @ centres / ink.sum() - y).abs() < 0.6
        assert (ink.sum().sqrt() - 8 * scale).abs() < 2
        middle = image[:, int(y), int(x)]
        assert (middle - colour).abs().max() < 0.2


def test_the_same_seed_draws_the_same_images() -> None:
    first, again, other = (load_data("synthetic", seed=seed).test for seed in (0, 0, 1))
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)


def test_a_source_digit_is_in_one_split_only() -> None:
    data = load_data("synthetic", copies=3, val_share=0.2)
    num_sources = len(data.train) / 3 + len(data.val) + len(data.test)
    assert num_sources == 1797
    assert len(load_data("synthetic", copies=1, val_share=0).val) == 0


def test_the_test_split_does_not_depend_on_the_validation_split() -> None:
    one, two = (load_data("synthetic", val_share=share).test for share in (0.1, 0.3))
    assert torch.equal(one.images, two.images)


def test_copies_must_be_positive() -> None:
    with pytest.raises(ValueError, match="copies must be at least 1; got 0"):
        load_data("synthetic", copies=0)


def test_a_long_tail_leaves_the_other_splits_alone() -> None:
    even, tailed = (load_data("synthetic", val_share=0, imbalance=imbalance) for imbalance in (1, 10))
    counts = torch.bincount(tailed.train.labels).tolist()
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= 10 * counts[-1] >= 0.9 * counts[0]
    assert torch.equal(tailed.test.images, even.test.images)
