import pytest
import torch

from maxsup.lab.data import load_data, shot_groups
from maxsup.lab.data.sets.long_tail import long_tail_counts, long_tail_subset
from tests.unit.lab.data import made

# methods.md 5.6; imbalance 10 follows from the same formula.
PUBLISHED = {
    10: [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500],
    50: [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100],
    100: [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50],
}


@pytest.mark.parametrize("imbalance", PUBLISHED)
def test_counts_are_the_published_ones(imbalance: int) -> None:
    assert long_tail_counts(5000, 10, imbalance) == PUBLISHED[imbalance]
    labels = torch.arange(50_000) % 10
    assert torch.bincount(labels[long_tail_subset(labels, imbalance, seed=0)]).tolist() == PUBLISHED[imbalance]


def test_totals_are_the_published_ones() -> None:
    assert sum(PUBLISHED[50]) == 13_996
    assert sum(PUBLISHED[100]) == 12_406


def test_groups_are_those_of_the_published_code_without_the_empty_one() -> None:
    assert {name: len(classes) for name, classes in shot_groups(PUBLISHED[50]).items()} == {"many": 9, "medium": 1}
    assert {name: len(classes) for name, classes in shot_groups(PUBLISHED[100]).items()} == {"many": 8, "medium": 2}
    assert shot_groups([101, 100, 20, 19]) == {"many": [0], "medium": [1, 2], "low": [3]}
    assert shot_groups([]) == {}


def test_holding_out_a_validation_split_leaves_the_groups_as_they_are() -> None:
    for counts in (PUBLISHED[50], PUBLISHED[100]):
        assert shot_groups([count - round(0.1 * count) for count in counts]) == shot_groups(counts)


def test_the_subset_depends_on_its_seed_and_the_test_split_stays_balanced(tmp_path) -> None:
    made.write_npz(tmp_path / "cifar10.npz", classes=10, train=40)
    one, again, other = (
        load_data("cifar10_lt", root=tmp_path, imbalance=10, subset_seed=seed, val_share=0) for seed in (0, 0, 1)
    )
    assert torch.equal(one.train.images, again.train.images)
    assert not torch.equal(one.train.images, other.train.images)
    assert torch.bincount(one.train.labels).tolist() == long_tail_counts(40, 10, 10)
    assert torch.bincount(one.test.labels).tolist() == [4] * 10


@pytest.mark.parametrize("imbalance", [0, 0.5, -1, float("nan")])
def test_an_imbalance_below_one_is_refused(imbalance: float) -> None:
    with pytest.raises(ValueError, match="imbalance must be at least 1"):
        long_tail_counts(5000, 10, imbalance)
