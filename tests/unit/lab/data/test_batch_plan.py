"""Epochs that are counted in steps: an endless row of shuffled passes, cut into equal parts."""

import pytest
import torch

from maxsup.lab.core.config import AugmentConfig
from maxsup.lab.data import BatchPlan, FileSplit, build_pipeline
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import SETTINGS, plan_for


def plan(**options) -> BatchPlan:
    return BatchPlan(**(SETTINGS | {"num_samples": 10, "num_steps": 3} | options))


def test_the_last_batch_is_what_is_left_and_processes_share_it() -> None:
    whole = plan(is_training=False, num_steps=None, rank=1, world_size=2)
    assert (whole.num_batches, whole.order(0)[whole.batch(2)].tolist(), whole.own_part(2)) == (3, [8, 9], slice(1, 2))


def test_passes_are_counted_over_epochs() -> None:
    stepped = plan(num_samples=5, batch_size=2)
    assert (stepped.passes(0).tolist(), stepped.passes(1).tolist()) == ([0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 2, 2])


@pytest.mark.parametrize("num_steps", [1, 3, 7])
def test_every_pass_over_the_data_has_every_sample_once(num_steps: int) -> None:
    stepped = plan(num_steps=num_steps)
    row = torch.cat([stepped.order(epoch) for epoch in range(20)])
    numbers = torch.cat([stepped.passes(epoch) for epoch in range(20)])
    for number in range(int(numbers[-1])):
        assert sorted(row[numbers == number].tolist()) == list(range(10))
    assert len(row) == 20 * num_steps * 4


def test_the_row_is_that_of_ordinary_epochs() -> None:
    ordinary = torch.cat([plan(num_steps=None).order(epoch) for epoch in range(3)])
    assert torch.equal(plan(num_steps=7).order(0), ordinary[:28])


def test_the_length_of_an_epoch_does_not_change_the_row() -> None:
    one, three = (torch.cat([plan(num_steps=count).order(e) for e in range(12 // count)]) for count in (1, 3))
    assert torch.equal(one, three)


def test_all_batches_are_full_and_may_be_larger_than_the_data() -> None:
    wide = plan(num_samples=3, batch_size=8, num_steps=2)
    order = wide.order(0)
    assert [len(order[wide.batch(step)]) for step in range(2)] == [8, 8]
    assert wide.num_batches == 2


def test_an_image_is_augmented_anew_in_every_pass_of_an_epoch(tmp_path) -> None:
    made.write_files(tmp_path, ["0.jpg"], height=60, width=60)
    options = {"batch_size": 1, "augment": AugmentConfig(random_resized_crop=True), "num_steps": 2}
    split = FileSplit([(tmp_path / "0.jpg", 0)])
    pipeline = build_pipeline(split, plan_for(split, **options))
    first, second = (batch.images for batch in pipeline.epoch(0))
    assert not torch.equal(first, second)
    again = next(pipeline.epoch(0, start=1)).images
    assert torch.equal(second, again)
