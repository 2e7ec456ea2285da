import pytest
import torch

from maxsup.core.errors import DataError
from maxsup.lab.data.bundle import FileSplit, MemorySplit, channel_statistics, join_splits, stratified_split
from tests.refusals import refused

LABELS = torch.tensor([0] * 50 + [1] * 20 + [2] * 3 + [3])


def test_a_split_takes_the_share_of_every_class() -> None:
    kept, held_out = stratified_split(LABELS, 0.1, seed=0)
    assert torch.bincount(LABELS[held_out], minlength=4).tolist() == [5, 2, 1, 0]
    assert sorted([*kept.tolist(), *held_out.tolist()]) == list(range(len(LABELS)))


def test_a_split_depends_on_its_seed_only() -> None:
    first, again, other = (stratified_split(LABELS, 0.1, seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_no_share_holds_out_nothing() -> None:
    kept, held_out = stratified_split(LABELS, 0.0, seed=0)
    assert kept.tolist() == list(range(len(LABELS)))
    assert len(held_out) == 0


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_must_leave_something(share: float) -> None:
    with pytest.raises(ValueError, match="val_share must be at least 0 and below 1"):
        stratified_split(LABELS, share, seed=0)


def test_channel_statistics_are_those_of_all_pixels() -> None:
    images = torch.randint(0, 256, (7, 3, 5, 6), dtype=torch.uint8)
    pixels = images.double().transpose(0, 1).flatten(1) / 255
    mean, std = channel_statistics(images)
    torch.testing.assert_close(torch.tensor(mean, dtype=torch.float64), pixels.mean(1))
    torch.testing.assert_close(torch.tensor(std, dtype=torch.float64), pixels.std(1, correction=0))


def test_a_constant_channel_can_still_be_divided_by_its_deviation() -> None:
    assert channel_statistics(torch.zeros(2, 1, 4, 4, dtype=torch.uint8))[1][0] > 0


def test_images_must_be_bytes() -> None:
    with pytest.raises(DataError, match=r"images must be uint8 \(N, C, H, W\); got float32 \(1, 3, 2, 2\)"):
        MemorySplit(torch.zeros(1, 3, 2, 2), torch.zeros(1, dtype=torch.int64))
    with refused(DataError, "bad-arrays", "int64", "2", "1"):
        MemorySplit(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))


def test_splits_are_joined_with_their_factors() -> None:
    parts = [
        MemorySplit(
            torch.full((2, 1, 1, 1), value, dtype=torch.uint8), torch.tensor([0, 1]), {"hue": torch.full((2,), value)}
        )
        for value in (3, 4)
    ]
    both = join_splits(*parts)
    assert both.images.flatten().tolist() == [3, 3, 4, 4]
    assert both.factors["hue"].tolist() == [3, 3, 4, 4]
    files = join_splits(FileSplit([("a", 0)]), FileSplit([("b", 1)]))
    assert files.samples == [("a", 0), ("b", 1)]
