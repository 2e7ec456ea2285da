"""Batches of images with masks; what holds for all pipelines is in ``tests/unit/lab/data/test_independence.py``."""

import multiprocessing

import numpy as np
import pytest
import torch
from PIL import Image

from maxsup.core.errors import DataError
from maxsup.lab.core.config import AugmentConfig, DenseConfig
from maxsup.lab.data import IGNORED_LABEL, FileSplit, build_pipeline, load_data
from maxsup.lab.data.bundle import join_splits
from maxsup.lab.segmentation.masks import MaskSplit
from maxsup.lab.segmentation.pipeline import MaskPipeline
from maxsup.lab.segmentation.transforms import resize_image, scale_sides
from tests.unit.lab.data import made
from tests.unit.lab.data.batches import assert_equal_batches, plan_for

DENSE = DenseConfig(resize=36, ratio=(0.5, 2.0), cat_max_ratio=0.75, photometric=True)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> MaskSplit:
    home = tmp_path_factory.mktemp("masked")
    made.write_masked_tree(home, counts={"train": 11, "test": 2})
    # One image of another size, as in any real set.
    Image.fromarray(made.pictures(1, 70, 30)[0]).save(home / "train" / "images" / "010.jpg")
    Image.fromarray(made.masks(1, 70, 30, [0, 1, 2])[0]).save(home / "train" / "masks" / "010.png")
    return load_data(f"folder:{home}", num_classes=3, val_share=0).train


def pipeline(split: MaskSplit, dense: DenseConfig = DENSE, **options) -> MaskPipeline:
    return MaskPipeline(split, plan_for(split, **({"image_size": 32} | options)), dense)


def test_training_gives_crops_with_labels_of_the_same_size(split: MaskSplit) -> None:
    batches = list(pipeline(split).epoch(0))
    assert [tuple(batch.images.shape) for batch in batches] == [(4, 3, 32, 32), (4, 3, 32, 32), (3, 3, 32, 32)]
    for batch in batches:
        assert batch.images.dtype == torch.float32
        assert batch.labels.dtype == torch.int64
        assert batch.labels.shape == (len(batch), 32, 32)
        assert batch.target is batch.labels
        assert set(batch.labels.unique().tolist()) <= {0, 1, 2, IGNORED_LABEL}
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(11))


def test_pixels_are_normalised(split: MaskSplit) -> None:
    settings = {"augment": AugmentConfig(), "dense": DenseConfig(), "image_size": 80, "batch_size": 11}
    batch = next(pipeline(split, **settings).epoch(0))
    position = batch.indices.tolist().index(2)
    image, mask, _ = split.reader(split.samples[2])
    expected = (torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch.images[position, :, :40, :48], expected, atol=1e-5, rtol=0)
    assert np.array_equal(batch.labels[position, :40, :48].numpy(), mask)


def test_what_is_filled_up_is_zero_to_the_network_and_ignored(split: MaskSplit) -> None:
    batch = next(pipeline(split, dense=DenseConfig(), image_size=80, mean=(0.4, 0.5, 0.6)).epoch(0))
    for image, labels, index in zip(batch.images, batch.labels, batch.indices.tolist(), strict=True):
        height, width = (70, 30) if index == 10 else (40, 48)
        assert (labels[height:] == IGNORED_LABEL).all()
        assert (labels[:, width:] == IGNORED_LABEL).all()
        assert (image[:, height:] == 0).all()
        assert (image[:, :, width:] == 0).all()
        assert (image[:, :height, :width] != 0).any()


def test_what_is_skipped_is_not_read(split: MaskSplit) -> None:
    opened = []
    counting = MaskSplit(split.samples, lambda sample: opened.append(sample) or split.reader(sample))
    list(pipeline(counting).epoch(0, start=2))
    assert len(opened) == 3


def test_workers_change_nothing_in_evaluation(split: MaskSplit) -> None:
    alone, helped = (list(pipeline(split, num_workers=number, is_training=False).epoch(1, 1)) for number in (0, 2))
    assert_equal_batches(alone, helped)


def test_a_process_without_a_sample_gets_an_empty_training_batch(split: MaskSplit) -> None:
    last = list(pipeline(split, batch_size=5, rank=0, world_size=2).epoch(0))[-1]
    assert tuple(last.images.shape) == (0, 3, 32, 32)
    assert tuple(last.labels.shape) == (0, 32, 32)
    assert last.labels.dtype == torch.int64


def test_an_epoch_of_steps_goes_round_and_cuts_anew_each_time(split: MaskSplit) -> None:
    batches = list(pipeline(split, num_steps=8).epoch(0))
    assert [len(batch) for batch in batches] == [4] * 8
    indices = torch.cat([batch.indices for batch in batches])
    assert torch.bincount(indices, minlength=11).tolist().count(3) == 32 - 2 * 11
    masks = torch.cat([batch.labels for batch in batches])
    for index in range(11):
        assert len(masks[indices == index].unique(dim=0)) > 1


def test_epochs_of_steps_are_one_row_however_it_is_cut(split: MaskSplit) -> None:
    once = list(pipeline(split, num_steps=8).epoch(0))
    twice = [batch for epoch in (0, 1) for batch in pipeline(split, num_steps=4).epoch(epoch)]
    assert_equal_batches(once, twice)


def test_evaluation_gives_each_image_whole_with_its_mask_untouched(split: MaskSplit) -> None:
    batches = pipeline(split, is_training=False, image_size=None)
    assert batches.num_batches == 11
    for index, batch in enumerate(batches.epoch(0)):
        _, mask, _ = split.reader(split.samples[index])
        assert batch.indices.tolist() == [index]
        assert np.array_equal(batch.labels[0].numpy(), mask)
        assert tuple(batch.images.shape) == ((1, 3, 84, 36) if index == 10 else (1, 3, 36, 43))


def test_evaluation_without_resize_changes_no_pixel(split: MaskSplit) -> None:
    batch = next(pipeline(split, is_training=False, dense=DenseConfig(ratio=(0.5, 2.0))).epoch(0))
    image = torch.from_numpy(np.array(split.reader(split.samples[0]).image)).permute(2, 0, 1)
    torch.testing.assert_close(batch.images[0], (image / 255 - 0.5) / 0.25, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_evaluation_at_scales_begins_with_the_image_as_it_was_read(split: MaskSplit, num_workers: int) -> None:
    settings = {"is_training": False, "image_size": None, "num_workers": num_workers, "dense": DenseConfig(resize=20)}
    plain = pipeline(split, **settings)
    for batch, scaled in zip(plain.epoch(0), plain.at_scales((1.0, 0.5, 2.0)).epoch(0), strict=True):
        assert_equal_batches([batch], [scaled])
        assert torch.equal(scaled.views[0], batch.images)
        image = split.reader(split.samples[int(batch.indices)]).image
        for view, factor in zip(scaled.views[1:], (0.5, 2.0), strict=True):
            pixels = resize_image(image, scale_sides(image.size, 20, factor))
            expected = (torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255 - 0.5) / 0.25
            torch.testing.assert_close(view, expected, atol=1e-5, rtol=0)


def test_training_crops_have_one_scale(split: MaskSplit) -> None:
    with pytest.raises(ValueError, match="pipeline must be for evaluation"):
        pipeline(split).at_scales((0.5, 1.0))


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_processes_share_the_images_of_an_evaluation(split: MaskSplit, world_size: int) -> None:
    seen = []
    for rank in range(world_size):
        batches = pipeline(split, is_training=False, batch_size=1, rank=rank, world_size=world_size)
        own = list(batches.epoch(0))
        assert len(own) == batches.num_batches
        assert all(len(batch) == 1 for batch in own)
        seen += [int(batch.indices) for batch in own]
        assert_equal_batches(own[2:], list(batches.epoch(0, 2)))
    assert sorted(seen) == list(range(11))


def test_an_empty_split_is_evaluated_in_no_batch(split: MaskSplit) -> None:
    nothing = pipeline(split.subset(torch.arange(0)), is_training=False)
    assert nothing.num_batches == 0
    assert list(nothing.epoch(0)) == []


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_training", [True, False])
def test_a_bad_mask_ends_the_epoch_with_one_sentence(tmp_path, num_workers: int, is_training: bool) -> None:
    made.write_masked_tree(tmp_path)
    Image.fromarray(np.full((40, 48), 77, np.uint8)).save(tmp_path / "train" / "masks" / "003.png")
    bad = load_data(f"folder:{tmp_path}", num_classes=3, val_share=0).train
    before = set(multiprocessing.active_children())
    with pytest.raises(DataError) as error:
        list(pipeline(bad, num_workers=num_workers, is_training=is_training).epoch(0))
    assert str(error.value).startswith(f"labels in mask {tmp_path}/train/masks/003.png must be 0 to 2 or 255; got 77.")
    assert "\n" not in str(error.value)
    assert set(multiprocessing.active_children()) <= before


def failing(sample: object) -> None:
    raise RuntimeError(f"no reader for {sample}")


@pytest.mark.parametrize("kind", ["masks", "files"])
def test_an_unforeseen_error_leaves_no_worker_behind(split: MaskSplit, kind: str) -> None:
    if kind == "masks":
        batches = pipeline(MaskSplit(split.samples, failing), num_workers=2)
    else:
        files = FileSplit([("a", 0)] * 8, failing)
        batches = build_pipeline(files, plan_for(files, num_workers=2))
    before = set(multiprocessing.active_children())
    # The error is held on to, as the interpreter does with the last one until it exits.
    with pytest.raises(RuntimeError, match="no reader for") as held:
        list(batches.epoch(0))
    assert set(multiprocessing.active_children()) <= before
    assert "failing" in str(held.value)


def test_settings_of_the_other_kind_are_refused(split: MaskSplit) -> None:
    with pytest.raises(ValueError, match=r"augment\.mixup must be left alone"):
        pipeline(split, augment=AugmentConfig(mixup=0.8))


def test_two_splits_can_be_joined(split: MaskSplit) -> None:
    both = join_splits(split.subset(torch.tensor([1, 2])), split.subset(torch.tensor([0])))
    assert both.samples == [split.samples[index] for index in (1, 2, 0)]
    assert both.describe() == "3 images with masks in files"
    assert both.labels.tolist() == [0, 0, 0]
